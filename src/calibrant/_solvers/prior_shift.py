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
    from calibrant._solvers.report import SolverReport
    from calibrant._types import Bools, Floats

TINY = float(np.finfo(np.float64).tiny)
TOLERANCE = 1e-7
"""Violation of the optimality conditions; where classes are rare, rounding reaches 1e-8."""

PSEUDO_ROWS = 2.0
"""Rows of each class that come as before, chosen on calibration sets split in two."""

BISECTIONS = 40
"""Halvings of [0, 1] that find an end of an interval."""

RIDGE = 1e-10
"""Curvature added to the Hessian, relative to its own: some classes no row tells apart."""

SMALLEST_VARIANCE = 1e-30
"""Of a frequency, by one row."""


class ShiftTest(NamedTuple):
    """Likelihood ratio test of whether class frequencies are those of calibration."""

    statistic: float
    n_free: int
    p_value: float


def solve_priors(
    probabilities: Floats, from_priors: Floats, weight: Floats | None = None
) -> tuple[Floats, SolverReport]:
    """Class frequencies q of the largest sum_i weight_i log(sum_c q_c p_ic / from_c).

    Rows are checked, and calibrated where classes came as often as ``from_priors`` says; a class of
    0 there keeps 0. Optimal iff the mean of (p_ic / from_c) / m_i is at most 1 for every class,
    and so 1 where q_c > 0: the violation is by how much the largest exceeds 1, which also bounds
    the gap to the largest mean log-likelihood.
    """
    ratios, weight, used = _ratios(probabilities, from_priors, weight)
    priors = np.zeros(len(from_priors))
    priors[used], report = solve_mixture(ratios, weight, start=from_priors[used], tol=TOLERANCE)
    return priors, replace(report, solver="class frequencies")


def _ratios(
    probabilities: Floats, from_priors: Floats, weight: Floats | None
) -> tuple[Floats, Floats, Bools]:
    """Return p / from of classes that came, of different rows in an order of their own, weighted.

    Equal rows are one row: weights are exactly repetitions.
    """
    weight = np.ones(len(probabilities)) if weight is None else weight
    order, fresh = order_by_columns(probabilities, np.zeros(len(weight), dtype=np.intp), weight)
    starts, used = np.flatnonzero(fresh), from_priors > 0.0
    ratios = probabilities[order[starts]][:, used] / from_priors[used]
    return ratios, np.add.reduceat(weight[order], starts), used


def prior_shift_test(
    probabilities: Floats,
    from_priors: Floats,
    priors: Floats,
    n_from: float = math.inf,
    weight: Floats | None = None,
) -> ShiftTest:
    """Test whether unlabelled rows come with the class frequencies ``from_priors``.

    ``priors`` are those of the largest likelihood (``solve_priors``), ``n_from`` the number of rows
    whose mean probabilities ``from_priors`` are. Without a shift both sets have the mean of both,
    by rows. Twice the logarithm of the likelihood ratio of both sets to it has a chi-squared
    distribution with one degree of freedom less than there are classes; that of the rows of
    calibration, which are not here, is taken over these, weighted by 1 / m_i, and over rows that
    none of these is like, of which m is 0. Where classes have few rows it is divided as that of
    counts is (Williams, "Improved likelihood ratio tests for complete contingency tables", 1976).
    None of it needs the map to be right.
    """
    ratios, weight, used = _ratios(probabilities, from_priors, weight)
    total = math.fsum(weight)
    more = 1.0 + total / n_from
    mixture = np.maximum(ratios @ priors[used], TINY)
    pooled = np.log((1.0 + (more - 1.0) * mixture) / more)
    gain = math.fsum(weight * (np.log(mixture) - pooled))
    if more > 1.0:  # the likelihood of the calibration rows, as means over those that are here
        share = weight / total / mixture
        unlike = max(1.0 - math.fsum(share), 0.0)
        gain -= n_from * (math.fsum(share * pooled) - unlike * math.log(more))
    n_free = max(int(used.sum()) - 1, 1)
    both = (from_priors + (more - 1.0) * priors)[used] / more
    rarity = float(np.sum(1.0 / np.maximum(both, 0.5 / total))) - 1.0
    per_row = 1.0 / total + 1.0 / n_from - 1.0 / (total + n_from)
    statistic = max(2.0 * gain, 0.0) / (1.0 + rarity * per_row / (6.0 * n_free))
    return ShiftTest(statistic, n_free, float(chi2.sf(statistic, n_free)))


def shrink_priors(
    probabilities: Floats,
    from_priors: Floats,
    test: ShiftTest,
    n_from: float = math.inf,
    weight: Floats | None = None,
    alpha: float = 0.05,
) -> Floats:
    """Class frequencies to predict with: between ``from_priors`` and those of the rows.

    The most likely ones overfit where classes are many and rows are few, and rule out whatever was
    not seen. So ``PSEUDO_ROWS`` of each class come as ``from_priors`` says, rows count as often as
    both sets know, n_from / (n + n_from), and the step from ``from_priors`` is shortened by
    1 - c / statistic, where c is what the test exceeds with a probability of ``alpha``: nothing is
    shifted where it finds nothing, and a little where it finds little.
    """
    limit = float(chi2.isf(alpha, test.n_free))
    if not test.statistic > limit:
        return from_priors
    ratios, weight, used = _ratios(probabilities, from_priors, weight)
    own, fewer = from_priors[used], 1.0 + math.fsum(weight) / n_from
    pseudo_rows = PSEUDO_ROWS * len(own) * own
    result, _ = solve_mixture(ratios, weight / fewer, prior=pseudo_rows, start=own)
    shrunken = from_priors.copy()
    shrunken[used] += (1.0 - limit / test.statistic) * (result - own)
    return shrunken


def prior_interval(
    probabilities: Floats,
    from_priors: Floats,
    priors: Floats,
    n_from: float = math.inf,
    weight: Floats | None = None,
    level: float = 0.95,
) -> tuple[Floats, Floats]:
    """Interval of each class frequency, from the likelihood along its least favourable direction.

    That is the line in which one frequency moves and the others follow as they must for the
    likelihood to fall as slowly as it can, to second order: on it lie the frequencies whose
    likelihood ratio chi-squared of one degree of freedom does not refuse. So an interval at 0 has
    an end there, and the other where rows of the class would have been seen. ``n_from`` labelled
    rows gave the map and ``from_priors``: what these do not know widens the interval by the ratio
    of variances. Classes are not covered simultaneously.
    """
    ratios, weight, used = _ratios(probabilities, from_priors, weight)
    total, q = math.fsum(weight), priors[used]
    share = weight / total
    ratios /= np.maximum(ratios @ q, TINY)[:, None]
    directions, variance = _least_favourable(ratios, share, q)
    slopes = ratios @ directions  # of log m_i, where the frequency moves by 1
    extra = _source_variance(ratios, share, q, from_priors[used], slopes * variance)
    limit = chi2.ppf(level, 1) * (1.0 / total + extra / variance / n_from) / 2.0
    is_free = variance > SMALLEST_VARIANCE
    down, up = (_find_ends(slopes, share, is_free * most, limit) for most in (-q, 1.0 - q))
    # A frequency also moves where one that is 0 rises: alone at 1, it has no other direction.
    moves = directions[:, q == 0.0] * up[q == 0.0]
    low, high = np.zeros(len(priors)), np.zeros(len(priors))
    low[used] = q + np.minimum(down, moves.min(axis=1, initial=0.0))
    high[used] = q + np.maximum(up, moves.max(axis=1, initial=0.0))
    return np.maximum(low, 0.0), np.minimum(high, 1.0)


def _least_favourable(ratios: Floats, share: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Directions of sum 0 in which each frequency moves by 1, and variances of one row.

    With the Hessian H of the positive frequencies and of the one that moves, the others stay at 0,
    V = H^-1 - H^-1 1 1' H^-1 / 1' H^-1 1 is the covariance of frequencies by one row; the direction
    is its column over its diagonal.
    """
    hessian = (ratios * share[:, None]).T @ ratios
    hessian[np.diag_indices_from(hessian)] *= 1.0 + RIDGE
    is_free = q > 0.0
    inverse = np.zeros_like(hessian)
    inverse[np.ix_(is_free, is_free)] = np.linalg.inv(hessian[np.ix_(is_free, is_free)])
    # Columns x and y of the solutions of H x = e_j and H y = 1, one class at 0 added by its
    # Schur complement.
    unit, ones = inverse.copy(), np.tile(inverse.sum(axis=1)[:, None], len(q))
    added = np.eye(len(q))[:, ~is_free] - inverse @ hessian[:, ~is_free]
    left = np.maximum((hessian[:, ~is_free] * added).sum(axis=0), RIDGE)
    unit[:, ~is_free] = added / left
    ones[:, ~is_free] += unit[:, ~is_free] * added.sum(axis=0)
    columns = unit - ones * (unit.sum(axis=0) / ones.sum(axis=0))
    if is_free.sum() == 1:
        columns[:, is_free] = 0.0
    variance = np.maximum(np.diag(columns), SMALLEST_VARIANCE)
    return columns / variance, variance


def _source_variance(
    ratios: Floats, share: Floats, q: Floats, from_priors: Floats, influence: Floats
) -> Floats:
    """Variance of the frequencies by one labelled row that the map and its priors come from.

    With u = q / from_priors, a row of label y there moves q_j by u_y ([y = j] - q_j - influence_j):
    by how often class j came there, less what follows for the frequencies here. Means over
    those rows are taken over these, weighted by 1 / m_i, with labels as the map says.
    """
    # At 0 the likelihood falls by itself: what moves a frequency is the rest.
    moved = influence - share @ influence + q
    u, posterior = q / from_priors, ratios * q
    at_own = share @ (posterior * (1.0 - 2.0 * moved))
    return np.maximum(u * at_own + (share * (posterior @ u)) @ moved**2, 0.0)


def _find_ends(slopes: Floats, share: Floats, most: Floats, limit: Floats) -> Floats:
    """Return moves, within ``most``, at which the mean log-likelihood has fallen by ``limit``."""
    inside, outside = np.zeros(len(most)), most.copy()
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        mixture = np.maximum(1.0 + slopes * middle, TINY)
        fits = -share @ np.log(mixture) <= limit
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
    return outside
