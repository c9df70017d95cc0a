"""The mean human grade of all rows, estimated from the labelled ones, and its interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, stats

from calibrant._result import Estimate

if TYPE_CHECKING:
    from calibrant._types import Floats, Wholes

PRIOR_ROWS = 0.05
"""Weight of a prior residual of maximal size, in rows."""

UNSEEN_ROWS = 0.7
"""Weight of residuals that were not drawn, at either end, in rows: with none wrong in n, the
interval ends near 3 / n."""


def estimate_mean(
    y: Floats,
    held_out: Floats,
    other: Floats,
    target: str,
    level: float,
    numbers: Floats,
    clusters: Wholes | None = None,
) -> tuple[Estimate, Estimate, float]:
    """Estimate the mean with the judge and without; return both, and the power of the judge.

    With e = y - power f, the unlabelled rows have the mean grade power mean(f) + mean(e), and of
    all n + N rows the error of this is sqrt(1 - n / (n + N)) times that of mean(e), whose interval
    is that of :func:`_mean_interval`. A mean of the population has a variance s_y^2 / (n + N)
    besides. The power is that of the least s_e from 0 to 1; a degree of freedom is paid for it. The
    mean is within the values of grades.
    """
    n, m = len(y), len(y) + len(other)
    low, high = float(numbers.min()), float(numbers.max())
    graded = np.concatenate([held_out, other])
    spread = float(held_out.var())
    power = float(np.mean((held_out - held_out.mean()) * y)) / spread if spread else 0.0
    power = min(max(power, 0.0), 1.0)
    quantile = float(stats.t.ppf(0.5 + level / 2, n - 1))
    of_rows = quantile**2 * float(y.var(ddof=1)) / m if target == "population" else 0.0

    def interval(power: float, n_fitted: int) -> tuple[Estimate, float]:
        rest = y - power * held_out
        beyond = power * (float(other.mean()) if len(other) else 0.0) + rest.mean()
        value = float(n / m * y.mean() + (1.0 - n / m) * beyond)
        limits = low - power * float(graded.max()), high - power * float(graded.min())
        ends = _mean_interval(rest, high - low, limits, level, n_fitted)
        wider = 1.0 if clusters is None else _design(rest, clusters, high - low, level, n_fitted)
        square = (1.0 - n / m) * (np.array(ends) - rest.mean()) ** 2 + of_rows
        below, above = (wider * math.sqrt(part) for part in square)
        inside = (min(max(x, low), high) for x in (value, value - below, value + above))
        return Estimate(*inside), float(np.sqrt(square).sum())

    (plain, wide), (tuned, narrow) = interval(0.0, 1), interval(power, 2)
    if narrow >= wide or (clusters is None and _width(tuned) > _width(plain)):
        tuned, power = plain, 0.0
    return tuned, plain, power


def _width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


def _mean_interval(
    rest: Floats, span: float, limits: tuple[float, float], level: float, n_fitted: int
) -> tuple[float, float]:
    """Return an interval of the mean of residuals, also where few large ones, or none, were drawn.

    The mean is t with rows weighted at random, by exponential variables (the Bayesian bootstrap);
    rows that were not drawn have a weight of UNSEEN_ROWS at either end. With n zeros the interval
    ends near 3 / n of the span (the rule of three). It is as skewed as the residuals are, and
    nearly Student's where they are many. Residuals that were drawn tell how large others are,
    sqrt(sum e^4 / sum e^2), in which the span counts as PRIOR_ROWS of a row.
    """
    n, mean = len(rest), float(rest.mean())
    square = (rest - mean) ** 2
    total = float(square.sum()) + PRIOR_ROWS * span**2
    if total == 0.0:
        return mean, mean
    size = math.sqrt((float(square @ square) + PRIOR_ROWS * span**4) / total)
    unseen = max(limits[0], mean - size), min(limits[1], mean + size)
    points, place = np.unique(np.concatenate([rest, unseen]), return_inverse=True)
    weight = np.bincount(place, np.append(np.ones(n), [UNSEEN_ROWS] * 2)).astype(float)
    rows = float(weight.sum())
    centre = float(weight @ points) / rows
    step = 0.01 * math.sqrt(float(weight @ (points - centre) ** 2)) / rows
    # Student's quantile, and the divisor of a variance of which parameters were fitted.
    quantile = float(stats.t.ppf(0.5 + level / 2, n - n_fitted))
    quantile *= rows / math.sqrt(n * (n - n_fitted))

    def end(sign: float, last: float) -> float:
        def excess(t: float) -> float:
            return sign * _normal_score(t, points, weight) - quantile

        inside, outside = centre + sign * step, last - sign * 1e-9 * (points[-1] - points[0])
        if excess(outside) <= 0.0 or excess(inside) >= 0.0:  # of levels near 1 and near 0
            return float(outside if excess(outside) <= 0.0 else inside)
        return float(optimize.brentq(excess, inside, outside))

    low, high = end(-1.0, points[0]), end(1.0, points[-1])
    return min(low, mean), max(high, mean)


def _normal_score(t: float, points: Floats, weight: Floats) -> float:
    """Return the normal quantile of the chance that a randomly weighted mean is below t.

    Sums of exponential variables times points - t have the cumulants of
    K(s) = -sum weight log(1 - s (points - t)); Lugannani and Rice's formula, at the saddle point
    K'(s) = 0, in the form of Barndorff-Nielsen.
    """
    d = points - t
    ends = (1.0 - 1e-12) / d.min(), (1.0 - 1e-12) / d.max()
    s = optimize.brentq(lambda s: float(weight @ (d / (1.0 - s * d))), *ends)
    r = math.copysign(math.sqrt(2.0 * float(weight @ np.log1p(-s * d))), s)
    u = s * math.sqrt(float(weight @ (d / (1.0 - s * d)) ** 2))
    return r + math.log(u / r) / r


def _design(rest: Floats, clusters: Wholes, span: float, level: float, n_fitted: int) -> float:
    """Return the factor by which the interval of independent rows is too short for clusters.

    It is the root of the variance of the mean by the jackknife, which leaves out each cluster in
    turn, over that of independent rows, and Student's quantile of as many degrees of freedom as
    there are clusters of equal size, n^2 / sum n_g^2, less 1. Where residuals are equal, and
    nothing tells otherwise, a cluster counts as one row.
    """
    n, rows = len(rest), np.bincount(clusters).astype(float)
    e, k = rest - rest.mean(), len(rows)
    without = np.bincount(clusters, e) / (n - rows)
    robust = (k - 1.0) / k * float(((without - without.mean()) ** 2).sum())
    alike, unseen = float(rows @ rows) / n, PRIOR_ROWS * span**2 / n**2
    if span == 0.0:
        return 1.0
    ratio = (robust + unseen) / (float(e @ e) / (n * (n - 1.0)) + unseen / alike)
    # A cluster with nearly all rows leaves no degree of freedom: half of one is wide enough.
    of_clusters = float(stats.t.ppf(0.5 + level / 2, max(n / alike - 1.0, 0.5)))
    return math.sqrt(ratio) * of_clusters / float(stats.t.ppf(0.5 + level / 2, n - n_fitted))


def brief(estimate: Estimate, form: str = ".4g") -> str:
    """Write an estimate with its interval."""
    value, low, high = (format(number, form) for number in estimate)
    return f"{value} [{low}, {high}]"
