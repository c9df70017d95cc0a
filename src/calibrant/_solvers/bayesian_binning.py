"""BBQ: Bayesian averaging of histograms with many numbers of bins, in log space."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, logsumexp

from calibrant._maps.curves import AveragedHistogram
from calibrant._maps.steps import Histogram
from calibrant._solvers.histogram import MassBins, sums_by_bin
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant._solvers.one_vs_rest import BinaryProblem

    Array = NDArray[np.float64]

MOST_MODELS = 1000
"""Histograms that are averaged at most."""

SMALLEST_PRIOR = 1e-12
"""The prior probability of a bin stays this far from 0 and 1. The authors' code has 0.005, which
hundreds of classes cannot all be given."""


def bin_range(total: float, spread: float = 10.0) -> Sequence[int]:
    """Numbers of bins for a total weight: from its cube root / spread to its cube root * spread.

    At least one, and at most one for five rows. Above a million rows there are more such numbers
    than ``MOST_MODELS``: so many of them are taken, in equal ratios.
    """
    root = float(np.cbrt(total))
    rounding = 1e-12  # a cube root that is a whole number may come out next to it
    low = max(1, math.floor(root / spread * (1 + rounding)))
    high = max(1, min(math.ceil(total / 5), math.ceil(root * spread * (1 - rounding))))
    if high - low < MOST_MODELS:
        return range(low, high + 1)
    ratios = np.rint(np.geomspace(low, high, MOST_MODELS)).astype(np.int64)
    chosen: list[int] = np.unique(ratios).tolist()
    return chosen


def beta_prior(thresholds: Array, ends: Array, prior_weight: float | Array) -> tuple[Array, Array]:
    """Parameters of each bin's Beta prior, whose mean is the middle of the bin."""
    middle = np.clip((thresholds + ends) / 2, SMALLEST_PRIOR, 1.0 - SMALLEST_PRIOR)
    return prior_weight * middle, prior_weight * (1.0 - middle)


def log_marginal_likelihood(positives: Array, cells: Array, alpha: Array, beta: Array) -> Array:
    """Log probability of the labels in each bin, with their share integrated out."""
    likelihood: Array = betaln(positives + alpha, cells - positives + beta) - betaln(alpha, beta)
    return likelihood


def solve_bayesian_binning(
    problem: BinaryProblem, *, spread: float = 10.0, prior_weight: float | None = None
) -> tuple[AveragedHistogram, SolverReport]:
    """Bayesian binning into quantiles.

    Each number of bins gives a histogram of equal mass; its value in a bin is the posterior mean
    (positives + alpha) / (cells + alpha + beta), its weight the marginal likelihood. The objective
    reported is the negative log of the mean marginal likelihood, per unit of weight.
    """
    started = perf_counter()
    numbers = bin_range(problem.total, spread)
    thresholds, positives, cells = MassBins(problem).cut(*numbers)
    positives = np.clip(positives, 0.0, cells)  # fractional weights round
    first = np.flatnonzero(thresholds == 0.0)  # bin of each histogram
    sizes = np.diff(first, append=len(thresholds))
    ends = np.append(thresholds[1:], 0.0)
    ends[ends == 0.0] = 1.0
    weight = 2.0 if prior_weight is None else np.repeat(prior_weight / sizes, sizes)
    alpha, beta = beta_prior(thresholds, ends, weight)
    values = (positives + alpha) / (cells + alpha + beta)
    log_scores = np.add.reduceat(log_marginal_likelihood(positives, cells, alpha, beta), first)
    evidence = float(logsumexp(log_scores))
    # Their average jumps where one of them does.
    jumps = np.diff(values, prepend=0.0)
    jumps[first] = values[first]
    share = np.repeat(np.exp(log_scores - evidence), sizes)
    edges, place = np.unique(thresholds[share > 0.0], return_inverse=True)
    jumps = (share * jumps)[share > 0.0]
    average = Histogram(
        edges,
        np.clip(np.cumsum(np.bincount(place, jumps)), 0.0, 1.0),
        sums_by_bin(edges, problem.values, problem.cells),
    )
    objective = (math.log(len(numbers)) - evidence) / problem.total
    seconds = perf_counter() - started
    report = SolverReport(
        "bayesian binning", objective, 0.0, 0.0, len(numbers), seconds, average.n_blocks
    )
    return AveragedHistogram(average, np.array(numbers), log_scores), report
