"""Class frequencies of unlabelled rows by maximum likelihood, their intervals, and a test of shift.

A calibrated row p_i is p_ic / from_c times as probable in class c as it is among all rows, however
often the classes come. So rows of other class frequencies q have the likelihood prod_i m_i with
m_i = sum_c q_c p_ic / from_c, whose logarithm is concave in q (Saerens, Latinne and Decaestecker,
"Adjusting the outputs of a classifier to new a priori probabilities", 2002).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import chi2

from calibrant._row_order import order_by_columns
from calibrant._solvers.mixture import solve_mixture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._solvers.report import SolverReport

    Array = NDArray[np.float64]

TOLERANCE = 1e-7
"""Violation of the optimality conditions; where classes are rare, rounding reaches 1e-8."""

PSEUDO_ROWS = 2.0
"""Rows of each class that come as before, chosen on calibration sets split in two."""

BISECTIONS = 40
"""Halvings of [0, 1] that find an end of an interval."""

RIDGE = 1e-10
"""Curvature added to the Hessian, relative to its own: some classes no row tells apart."""

MOST_CELLS = 1 << 22
"""Cells that an interval is computed of at once."""


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


class ShiftTest(NamedTuple):
    """Likelihood ratio test of whether class frequencies are those of calibration."""

    statistic: float
    n_free: int
    p_value: float


def prior_shift_test(
    probabilities: Array,
    from_priors: Array,
    priors: Array,
    n_from: float = math.inf,
    weight: Array | None = None,
) -> ShiftTest:
    """Test whether unlabelled rows come with the class frequencies ``from_priors``.

    ``priors`` are those of the largest likelihood (``solve_priors``), ``n_from`` the number of rows
    whose mean probabilities ``from_priors`` are. Without a shift both estimate the same, and the
    mean of both, by rows, does so best. Twice the logarithm of the likelihood ratio to it, times
    1 + n / n_from, has a chi-squared distribution with one degree of freedom less than there are
    classes; where priors lie at 0 it is smaller. That holds whether or not the map is right.
    """
    weight = np.ones(len(probabilities)) if weight is None else weight
    used, smallest = from_priors > 0.0, np.finfo(np.float64).tiny
    more = 1.0 + math.fsum(weight) / n_from
    pooled = (from_priors + (more - 1.0) * priors) / more
    ratios = probabilities[:, used] / from_priors[used]
    before, after = (np.log(np.maximum(ratios @ q[used], smallest)) for q in (pooled, priors))
    statistic = max(2.0 * more * math.fsum(weight * (after - before)), 0.0)
    n_free = max(int(used.sum()) - 1, 1)
    return ShiftTest(statistic, n_free, float(chi2.sf(statistic, n_free)))


def shrink_priors(
    probabilities: Array,
    from_priors: Array,
    test: ShiftTest,
    n_from: float = math.inf,
    weight: Array | None = None,
    alpha: float = 0.01,
) -> Array:
    """Class frequencies to predict with: between ``from_priors`` and those of the rows.

    The most likely ones overfit where classes are many and rows are few, and rule out whatever was
    not seen. So ``PSEUDO_ROWS`` of each class come as ``from_priors`` says, rows count as often as
    both sets know, n_from / (n + n_from), and the step from ``from_priors`` is shortened by
    1 - c / statistic, where c is what the test exceeds with a probability of ``alpha``: nothing is
    shifted where it finds nothing, and a little where it finds little.
    """
    weight = np.ones(len(probabilities)) if weight is None else weight
    used = from_priors > 0.0
    limit = float(chi2.isf(alpha, test.n_free))
    if not test.statistic > limit:
        return from_priors
    own, pseudo_rows = from_priors[used], PSEUDO_ROWS * int(used.sum())
    order = order_by_columns(probabilities, np.zeros(len(weight), dtype=np.int64), weight)[0]
    found, _ = solve_mixture(
        probabilities[order][:, used] / own,
        weight[order] / (1.0 + math.fsum(weight) / n_from),
        prior=pseudo_rows * own,
        start=own,
    )
    shrunken = from_priors.copy()
    shrunken[used] += (1.0 - limit / test.statistic) * (found - own)
    return shrunken


def prior_interval(
    probabilities: Array,
    from_priors: Array,
    priors: Array,
    n_from: float = math.inf,
    weight: Array | None = None,
    level: float = 0.95,
) -> tuple[Array, Array]:
    """Interval of each class frequency, from the likelihood along its least favourable direction.

    That is the line in which one frequency moves and the others follow as they must for the
    likelihood to fall as slowly as it can, to second order: on it lie the frequencies whose
    likelihood ratio chi-squared of one degree of freedom does not refuse. So an interval at 0 has
    an end there, and the other where rows of the class would have been seen. ``n_from`` labelled
    rows gave the map and ``from_priors``: what these do not know widens the interval by the ratio
    of variances. Classes are not covered simultaneously.
    """
    weight = np.ones(len(probabilities)) if weight is None else weight
    total = math.fsum(weight)
    used, share = from_priors > 0.0, weight / total
    low, high = np.zeros(len(priors)), np.zeros(len(priors))
    ratios = probabilities[:, used] / from_priors[used]
    q = priors[used]
    mixture = ratios @ q
    ratios = ratios / np.maximum(mixture, np.finfo(np.float64).tiny)[:, None]
    directions, variance = _least_favourable(ratios, share, q)
    far = np.empty((2, len(q)))
    for start in range(0, len(q), step := max(MOST_CELLS // len(ratios), 1)):
        some = slice(start, start + step)
        slopes = ratios @ directions[:, some]  # of log m_i, where the frequency moves by 1
        extra = _source_variance(ratios, share, q, from_priors[used], slopes * variance[some], some)
        width = 1.0 + (extra / n_from) / (variance[some] / total)
        limit = chi2.ppf(level, 1) * width / (2.0 * total)
        for side, most in enumerate((-q[some], 1.0 - q[some])):
            far[side, some] = _find_ends(slopes, share, most, limit)
    # A frequency also moves where one that is 0 rises: alone at 1, it has no other direction.
    moves = directions[:, q == 0.0] * far[1, q == 0.0]
    low[used] = np.clip(np.minimum(q + far[0], q + moves.min(axis=1, initial=0.0)), 0.0, 1.0)
    high[used] = np.clip(np.maximum(q + far[1], q + moves.max(axis=1, initial=0.0)), 0.0, 1.0)
    return low, high


def _least_favourable(ratios: Array, share: Array, q: Array) -> tuple[Array, Array]:
    """Directions of sum 0 in which each frequency moves by 1, and variances of one row.

    Frequencies at 0 stay there, but for the one that moves: with the Hessian H of those that are
    positive and of it, V = H^-1 - H^-1 1 1' H^-1 / 1' H^-1 1 is the covariance of n_rows
    frequencies, and the direction is its column over its diagonal.
    """
    hessian = (ratios * share[:, None]).T @ ratios
    free = np.flatnonzero(q > 0.0)
    inner = hessian[np.ix_(free, free)]
    inner[np.diag_indices_from(inner)] *= 1.0 + RIDGE
    inverse = np.linalg.inv(inner)
    k = len(q)
    # Column j solves H x = e_j and H y = 1 on the positive frequencies and j.
    unit, ones = np.zeros((k, k)), np.zeros((k, k))
    follow = inverse @ hessian[free]
    left = np.diag(hessian) * (1.0 + RIDGE) - np.einsum("ij,ij->j", hessian[free], follow)
    own = inverse.sum(axis=1)
    for j in range(k):
        if q[j] > 0.0:
            unit[free, j] = inverse[:, np.searchsorted(free, j)]
            ones[free, j] = own
            continue
        schur = max(left[j], RIDGE * hessian[j, j])
        unit[free, j], unit[j, j] = -follow[:, j] / schur, 1.0 / schur
        ones[free, j] = own
        ones[:, j] += unit[:, j] * (1.0 - hessian[j, free] @ own)
    columns = unit - ones * (unit.sum(axis=0) / ones.sum(axis=0))
    variance = np.maximum(np.diag(columns), np.finfo(np.float64).tiny)
    return columns / variance, variance


def _source_variance(
    ratios: Array, share: Array, q: Array, from_priors: Array, influence: Array, some: slice
) -> Array:
    """Variance of the frequencies by one labelled row that the map and its priors come from.

    With u = q / from_priors, a row of label y there moves q_j by u_y ([y = j] - q_j - influence_j):
    by how often class j came there, less what follows for the frequencies here. Means over
    those rows are taken over these, weighted by 1 / m_i, with labels as the map says.
    """
    known = q / from_priors
    posterior = ratios * q
    moved = influence + q[some]
    at_own = (share[:, None] * posterior[:, some] * (1.0 - 2.0 * moved)).sum(axis=0)
    return np.maximum(known[some] * at_own + (share * (posterior @ known)) @ moved**2, 0.0)


def _find_ends(slopes: Array, share: Array, most: Array, limit: Array) -> Array:
    """Largest move within ``most`` at which the mean log-likelihood has fallen by ``limit``."""
    inside, outside = np.zeros(len(most)), most.copy()
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        mixture = 1.0 + slopes * middle
        with np.errstate(invalid="ignore", divide="ignore"):
            fallen = -share @ np.log(mixture)
        fits = (mixture.min(axis=0) > 0.0) & (fallen <= limit)
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return outside
