"""Class frequencies of unlabelled rows by maximum likelihood, their intervals, and a test of shift.

A calibrated row p_i is p_ic / from_c times as probable in class c as it is among all rows, however
often the classes come. So rows of other class frequencies q have the likelihood prod_i m_i with
m_i = sum_c q_c p_ic / from_c, whose logarithm is concave in q (Saerens, Latinne and Decaestecker,
"Adjusting the outputs of a classifier to new a priori probabilities", 2002).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant._row_order import order_by_columns
from calibrant._solvers.mixture import solve_mixture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._solvers.report import SolverReport

    Array = NDArray[np.float64]

TOLERANCE = 1e-7
"""Violation of the optimality conditions; where classes are rare, rounding reaches 1e-8."""


def solve_priors(
    probabilities: Array, from_priors: Array, weight: Array | None = None
) -> tuple[Array, SolverReport]:
    """Class frequencies q of the largest sum_i weight_i log(sum_c q_c p_ic / from_c).

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
        Checked rows, calibrated where the classes came as often as ``from_priors`` says.
    from_priors : ndarray of shape (n_classes,)
        Their frequencies there; a class of 0 has no rows to compare with, and keeps 0.
    weight : ndarray of shape (n_rows,), optional
        How often each row comes.

    Returns
    -------
    priors : ndarray of shape (n_classes,)
        The frequencies, which sum to 1. Optimal iff the mean of (p_ic / from_c) / m_i is at most 1
        for every class, and 1 where q_c > 0.
    report : SolverReport
        Its violation is by how much the largest of these means exceeds 1; that also bounds the gap
        to the largest mean log-likelihood.
    """
    weight = np.ones(len(probabilities)) if weight is None else weight
    order, fresh = order_by_columns(probabilities, np.zeros(len(weight), dtype=np.int64), weight)
    starts = np.flatnonzero(fresh)  # equal rows are one row: weights are exactly repetitions
    weight = np.add.reduceat(weight[order], starts)
    known = from_priors > 0.0
    ratios = probabilities[order[starts]][:, known] / from_priors[known]
    priors = np.zeros(len(from_priors))
    priors[known], report = solve_mixture(ratios, weight, start=from_priors[known], tol=TOLERANCE)
    return priors, replace(report, solver="class frequencies")
