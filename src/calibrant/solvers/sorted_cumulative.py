"""SCIR: exact bivariate isotonic regression of sorted cumulative probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels import sorted_cumulative as kernels
from calibrant.kernels.maximal_upper_set import largest_excess, split_real, split_whole
from calibrant.solvers.report import SolverReport
from calibrant.step_function import RankedStepFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

LARGEST_WHOLE = 2**31 - 1
"""Total weight below which products of two sums fit 64 bits: the split is then exact."""
