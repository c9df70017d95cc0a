"""Isotonic regression on points (q, rank) with the coordinate-wise order, exactly.

Spouge, Wan and Wilbur: an upper set whose excess over the mean is largest, and its complement, can
be fitted each for itself; a part without an upper set above its mean has the mean as its value.
The paper finds that upper set by a dynamic programme of N k numbers; ``kernels`` keeps N + k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import errors
from calibrant._kernels.isotonic import largest_excess, split
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from calibrant._types import Bools, Floats, Wholes

LARGEST_PRODUCT = 2.0**61
"""Bound on (total weight) * (sum of absolute labels) for which all sums fit 64 bits."""

MOST_POINTS = 2**31 - 1
"""Distinct points that 32 bits can number; they would need 130 gigabytes."""

TOLERANCE = 1e-12
"""Violation of the optimality conditions that rounding may leave, per unit of weight and label."""


def bivariate_isotonic_regression(
    q: ArrayLike, rank: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> Floats:
    r"""Least-squares fit that is non-decreasing in both coordinates.

    Solves, exactly and in near-linear time,

    .. math:: \min_g \sum_i w_i (y_i - g(q_i, r_i))^2 \quad\text{subject to}\quad
              g(q, r) \le g(s, t) \text{ if } q \le s \text{ and } r \le t .

    For labels in [0, 1] the same fit is optimal for every proper scoring rule, log loss among them.

    Parameters
    ----------
    q : array-like of shape (n_points,)
        First coordinate, any finite numbers.
    rank : array-like of shape (n_points,)
        Second coordinate, whole numbers. The fewer distinct ones, the less memory; where the
        two coordinates could change places, this is the coarser one.
    y : array-like of shape (n_points,)
        What is fitted, any finite numbers.
    sample_weight : array-like of shape (n_points,), optional
        Positive weights.

    Returns
    -------
    fitted : ndarray of shape (n_points,)
        Fitted values in the order of the input; equal points get equal values.

    Notes
    -----
    With whole ``y`` and weights the splitting runs in integers, and every value is the correctly
    rounded mean of its block. Otherwise it runs on 61-bit fixed-point numbers, and values are
    correct to rounding. Memory is O(n_points); time is a sort and, in practice, 5 to 13 passes.

    References
    ----------
    .. [1] J. Spouge, H. Wan and W. J. Wilbur, "Least squares isotonic regression in two
       dimensions", Journal of Optimization Theory and Applications 117, 2003.

    Examples
    --------
    >>> from calibrant import bivariate_isotonic_regression
    >>> bivariate_isotonic_regression([0.1, 0.2, 0.3, 0.4], [1, 2, 1, 2], [1, 0, 0, 1])
    array([0.33333333, 0.33333333, 0.33333333, 1.        ])
    """
    points = check_points(q, rank, y, sample_weight)
    fitted, _ = solve_bivariate_isotonic(points)
    return fitted


@dataclass(frozen=True, slots=True)
class Points:
    """Checked points: finite, of one length, with positive weights."""

    q: Floats
    rank: Wholes
    y: Floats
    weight: Floats


def check_points(q: object, rank: object, y: object, sample_weight: object = None) -> Points:
    """Refuse what is not a set of points with labels and positive weights."""
    given = {"q": q, "rank": rank, "y": y, "sample_weight": sample_weight}
    if sample_weight is None:
        given["sample_weight"] = np.ones(np.shape(np.asarray(q)))
    points = {name: _numbers(name, values) for name, values in given.items()}
    ranks, weight = points["rank"], points["sample_weight"]
    for name, array in points.items():
        if len(array) != len(points["q"]):
            problem = f"{name} has {len(array)} entries but q has {len(points['q'])}"
            raise errors.ShapeError(problem, argument=name)
        _refuse(name, array, ~np.isfinite(array), errors.NonFiniteError, "entries must be finite")
    _refuse("rank", ranks, ranks != np.floor(ranks), errors.RangeError, "use whole numbers")
    remedy = "weights must be positive; drop points of weight 0"
    _refuse("sample_weight", weight, weight <= 0, errors.WeightError, remedy)
    rank_index = np.unique(ranks, return_inverse=True)[1].astype(np.int64) + 1
    return Points(points["q"] + 0.0, rank_index, points["y"], weight)  # no -0.0


def _refuse(
    name: str, array: Floats, bad: Bools, error: type[errors.DataError], problem: str
) -> None:
    if bad.any():
        i = int(np.argmax(bad))
        raise error(problem, argument=name, row=i, value=array[i])


def _numbers(name: str, value: object) -> Floats:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        problem = f"{name} cannot be read as numbers: {error}"
        raise errors.ContainerError(problem, argument=name) from error
    if array.ndim != 1:
        problem = f"{name} has shape {array.shape}; pass one number per point"
        raise errors.ShapeError(problem, argument=name)
    return array


def merge_equal_points(points: Points) -> tuple[Wholes, Points]:
    """Merge equal (q, rank); returns the merged point of each, and them, sorted by q and rank.

    ``y`` of the result is the weighted sum of the labels. The sums are taken in the order of
    labels and weights, so that they do not depend on the order of the input.
    """
    order = np.lexsort((points.weight, points.y, points.rank, points.q))
    q, rank = points.q[order], points.rank[order]
    new = np.ones(len(q), dtype=bool)
    new[1:] = (np.diff(q) != 0) | (np.diff(rank) != 0)
    starts = np.flatnonzero(new)
    place = np.empty(len(q), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    weight = points.weight[order]
    sums = (np.add.reduceat(a, starts) for a in (points.y[order] * weight, weight))
    return place, Points(q[starts], rank[starts], *sums)


class Split(NamedTuple):
    """Isotonic regression of sorted points, and the proof of it."""

    fitted: Floats  # value of each point
    starts: Wholes  # of the blocks in the sums, and the number of points
    values: Floats  # of the blocks, increasing
    labels: Floats  # sums of the points, block by block
    weight: Floats
    excess: float  # largest of an upper set inside a block over its value
    visits: int  # how often a point was looked at


def split_points(
    rank: NDArray[np.int32], labels: NDArray[np.generic], weight: NDArray[np.generic], n_ranks: int
) -> Split:
    """Split by maximal upper sets, exactly where labels and weights are whole numbers.

    The arrays are left grouped by block.
    """
    n = len(rank)
    if n > MOST_POINTS:
        raise errors.MemoryLimitError(
            f"there are {n} distinct points, and at most {MOST_POINTS} are possible; fit to "
            "chunks, of which a sample is taken"
        )
    fitted, place = np.empty(n), np.arange(n, dtype=np.int32)
    if n == 0:
        return Split(fitted, np.zeros(1, np.intp), fitted, fitted, fitted, 0.0, 0)
    head, visits = split(rank, labels, weight, place, n_ranks, fitted)
    starts = np.append(np.flatnonzero(head), n)
    values = fitted[place[starts[:-1]]]
    sums = labels.astype(np.float64), weight.astype(np.float64)
    excess = largest_excess(rank, *sums, starts, values, n_ranks)
    return Split(fitted, starts, values, *sums, excess, int(visits))


def solve_bivariate_isotonic(points: Points) -> tuple[Floats, SolverReport]:
    """Fitted values of checked points, and the proof of them.

    The violation is the largest excess of an upper set inside a block, over its value, per unit
    of total weight and of the largest absolute label. The objective is the mean squared error.
    """
    started = perf_counter()
    if len(points.q) == 0:
        return np.empty(0), SolverReport("maximal upper sets", 0.0, 0.0, TOLERANCE, 0, 0.0, 0)
    whole = is_whole(points)
    scale, unit = size_of(points.y), size_of(points.weight)
    weight = np.maximum(points.weight / unit, np.finfo(np.float64).tiny)
    place, merged = merge_equal_points(Points(points.q, points.rank, points.y / scale, weight))
    n_ranks = int(points.rank.max())
    dtype = np.int64 if whole else np.float64
    labels, mass = merged.y.astype(dtype), merged.weight.astype(dtype)
    split = split_points(merged.rank.astype(np.int32), labels, mass, n_ranks)
    size = max(float(np.abs(points.y).max()) / scale, np.finfo(np.float64).tiny)
    residual = weight * (points.y / scale - split.fitted[place]) ** 2
    report = SolverReport(
        "maximal upper sets",
        math.fsum(residual) / math.fsum(weight) * scale * scale,
        split.excess / math.fsum(weight) / size,
        TOLERANCE,
        split.visits,
        perf_counter() - started,
        n_blocks=len(split.values),
    )
    return split.fitted[place] * scale, report


def size_of(values: Floats) -> float:
    """Power of two to divide by, which changes no digit, where sums could leave the range."""
    exponent = math.frexp(float(np.abs(values).max()))[1]
    return 1.0 if abs(exponent) < 400 else 2.0**exponent


def is_whole(points: Points) -> bool:
    """Whether labels and weights are whole numbers whose products of sums fit 64 bits."""
    y, weight = points.y, points.weight
    if not (np.all(y == np.floor(y)) and np.all(weight == np.floor(weight))):
        return False
    size = math.fsum(weight)
    return bool(size * max(math.fsum(np.abs(y) * weight), size) < LARGEST_PRODUCT)
