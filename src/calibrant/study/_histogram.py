"""Histogram binning, the share of labels in each bin of the probability, BBQ and sCW.

Bayesian binning into quantiles averages histograms with many numbers of bins, in log space. Shared
class-wise calibration fits a map to each group of classes with similar priors.
"""

from __future__ import annotations

import math
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, logsumexp

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.one_vs_rest import OneVsRestCalibrator, OneVsRestCounts
from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._kernels.tables import TIED
from calibrant._maps.curves import AveragedHistogram, ClasswiseCurves
from calibrant._maps.steps import Histogram
from calibrant._row_order import GOLDEN, lay_thresholds, starts_of_runs
from calibrant._solvers.one_vs_rest import (
    BinaryProblem,
    binary_problem,
    pool_segments,
    solve_each,
    solve_isotonic_steps,
)
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant._gate import SimplexBatch
    from calibrant._types import Floats, Wholes


STRATEGIES = ("mass", "width")
MAPS = ("histogram", "isotonic")
MOST_MODELS = 1000
"""Histograms that are averaged at most."""

SMALLEST_PRIOR = 1e-12
"""The prior probability of a bin stays this far from 0 and 1. The authors' code has 0.005, which
hundreds of classes cannot all be given."""


class MassBins:
    """Cuts a problem into bins of equal mass, as often as one likes.

    Equal values stay together: a value is in bin floor(n_bins * q), where q is the share of the
    weight below the middle of its own. That is exact for whole weights.
    """

    def __init__(self, problem: BinaryProblem) -> None:
        self._values, self._largest = problem.values, problem.largest
        self._below = np.zeros((2, len(problem.values) + 1))
        problem.positives.cumsum(out=self._below[0, 1:])
        problem.cells.cumsum(out=self._below[1, 1:])
        self._middles = self._below[1, :-1] + self._below[1, 1:]  # twice, as they may be halves

    def cut(self, *numbers: int) -> tuple[Floats, ...]:
        """Return thresholds, positives and cells of the bins that are not empty.

        A threshold lies about half-way between the two values that it parts. Of several numbers of
        bins, each begins at the threshold 0.
        """
        first = np.concatenate([self._first_values(n_bins) for n_bins in numbers])
        stop = np.zeros_like(first)
        stop[:-1] = first[1:]
        stop[stop == 0] = len(self._values)
        thresholds = lay_thresholds(self._largest[first - 1], self._values[first])
        thresholds[first == 0] = 0.0
        return thresholds, *(self._below[:, stop] - self._below[:, first])

    def _first_values(self, n_bins: int) -> Wholes:
        """Return the place of the first value of each bin."""
        twice, n = 2.0 * self._below[1, -1], len(self._values)
        if n_bins > n:  # no more work than there are values
            return starts_of_runs(np.floor(n_bins * self._middles / twice))
        first = np.searchsorted(self._middles, np.arange(n_bins) * twice / n_bins)
        first = first[starts_of_runs(first)]
        result: Wholes = first[first < n]
        return result


def lay_edges(edges: Floats, problem: BinaryProblem) -> Floats:
    """Move edges of bins of equal width that a score lies on about half-way to the score below.

    By less than half a bin. The score, rounded or computed elsewhere, then stays in its bin.
    """
    place = np.searchsorted(problem.largest, edges * TIED)
    at = np.minimum(place, len(problem.values) - 1)
    below, above = problem.largest[np.maximum(at - 1, 0)], problem.values[at]
    is_on_edge = (edges > 0.0) & (place == at) & (above * TIED <= edges)
    laid = lay_thresholds(np.where(at > 0, np.minimum(below, above), 0.0), above)
    return np.where(is_on_edge, np.maximum(laid, edges - (1.0 - GOLDEN) * edges[1:2].sum()), edges)


def sums_by_bin(thresholds: Floats, values: Floats, weight: Floats) -> Floats:
    """Return the sum of the weights of the values in each bin."""
    b = np.maximum(np.searchsorted(thresholds, values, side="right") - 1, 0)
    return np.bincount(b, weight, minlength=len(thresholds)).astype(np.float64)


def solve_histogram(
    problem: BinaryProblem, *, n_bins: int = 15, strategy: str = "mass"
) -> tuple[Histogram, SolverReport]:
    """Histogram binning with bins of equal mass or of equal width.

    An empty bin, which only bins of equal width can be, has its midpoint as value. The objective
    reported is the mean squared error over cells.
    """
    started = perf_counter()
    if strategy == "mass":
        thresholds, positives, cells = MassBins(problem).cut(n_bins)
        edges = np.append(thresholds, 1.0)
    else:
        edges = np.linspace(0.0, 1.0, n_bins + 1)
        thresholds = lay_edges(edges[:-1], problem)
        positives = sums_by_bin(thresholds, problem.values, problem.positives)
        cells = sums_by_bin(thresholds, problem.values, problem.cells)
    filled = cells > 0
    values = positives / np.where(filled, cells, 1.0)
    if not filled.all():
        np.copyto(values, (edges[:-1] + edges[1:]) / 2, where=~filled)
    values = values.clip(0.0, 1.0)  # differences of sums of fractional weights round
    # Labels are 0 or 1, so the squared error of a bin is n * v * (1 - v).
    objective = float((positives * (1.0 - values)).sum()) / problem.total
    seconds = perf_counter() - started
    report = SolverReport("histogram", objective, 0.0, 0.0, 1, seconds, n_blocks=len(values))
    return Histogram(thresholds, values, cells), report


def bin_range(total: float, spread: float = 10.0) -> Sequence[int]:
    """Return numbers of bins: from the cube root of the weight / spread to cube root * spread.

    At least one, and at most one for five rows. Above a million rows there are more such numbers
    than ``MOST_MODELS``: that number is taken, in equal ratios.
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


def beta_prior(
    thresholds: Floats, ends: Floats, prior_weight: float | Floats
) -> tuple[Floats, Floats]:
    """Return the parameters of each bin's Beta prior, whose mean is the middle of the bin."""
    middle = np.clip((thresholds + ends) / 2, SMALLEST_PRIOR, 1.0 - SMALLEST_PRIOR)
    return prior_weight * middle, prior_weight * (1.0 - middle)


def log_marginal_likelihood(
    positives: Floats, cells: Floats, alpha: Floats, beta: Floats
) -> Floats:
    """Return the log probability of the labels in each bin, their share integrated out."""
    likelihood: Floats = betaln(positives + alpha, cells - positives + beta) - betaln(alpha, beta)
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


class OneVsRestHistogram(OneVsRestCounts):
    """One-vs-rest histogram binning (HB): the share of labels in each bin, for each class.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    strategy : {"mass", "width"}, default="mass"
        Bins of equal mass, where equal probabilities stay together, or of equal width.

    Notes
    -----
    All rows of a class rarer than 1 / n_bins fall into its last bin of equal mass, which costs
    accuracy; use more bins or those of equal width with many classes. An edge between bins of
    equal mass lies halfway between two probabilities of the calibration set. An empty bin of equal
    width has its midpoint as value. A row that every map sends to zero keeps its scores.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Obtaining calibrated probability estimates from decision
       trees and naive Bayesian classifiers", ICML 2001.
    """

    method = "hb-ovr"
    title = "HB-OvR"
    summary = "a histogram for each class"
    good_for = "comparison"
    place = 10
    _solver = staticmethod(solve_histogram)

    n_bins: int = number(default=15, low=1, high=10**6, whole=True)
    strategy: str = choice(STRATEGIES, default="mass")


class OneVsRestBBQ(OneVsRestCalibrator):
    """One-vs-rest Bayesian binning into quantiles (BBQ), for each class.

    Histograms of equal mass with every number of bins in a range are averaged, with their
    marginal likelihoods as weights.

    Parameters
    ----------
    spread : float, default=10.0
        Numbers of bins go from the cube root of the number of rows divided by ``spread`` to the
        same times ``spread``, with at least five rows for a bin.
    prior_weight : float, optional
        Number of pseudo-observations, shared by the bins, that the prior counts for. None is two
        for each bin, as in the authors' code.

    Notes
    -----
    The prior of a bin is a Beta distribution around its midpoint; the value of a bin is its
    posterior mean, and all numbers of bins are equally likely before the data. The result depends
    on the number of rows, so doubling every weight, which doubles every row, changes it.

    References
    ----------
    .. [1] M. Pakdaman Naeini, G. Cooper and M. Hauskrecht, "Obtaining Well Calibrated
       Probabilities Using Bayesian Binning", AAAI 2015.
    """

    method = "bbq-ovr"
    title = "BBQ-OvR"
    summary = "averaged histograms for each class"
    good_for = "comparison"
    place = 11
    _solver = staticmethod(solve_bayesian_binning)

    spread: float = number(default=10.0, low=1.0, high=1000.0)
    prior_weight: float | None = number(default=None, low=1e-6, high=1e6)


def group_classes(batch: SimplexBatch, n_groups: int) -> Wholes:
    """Return the group of each class, from 0 for the rarest: ``n_groups`` of about equal size.

    Classes of one frequency are never parted, and those without a label join the rarest others.
    """
    frequency: Floats = np.bincount(
        batch.class_index, batch.weight, minlength=batch.n_classes
    ).astype(np.float64)
    one_each = np.ones(batch.n_classes)
    distinct = binary_problem(frequency, one_each, one_each)
    thresholds, _, _ = MassBins(distinct).cut(n_groups)
    group = np.searchsorted(thresholds, frequency, side="right") - 1
    group = np.maximum(group, group[frequency > 0].min())
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def pool_cells(batch: SimplexBatch, columns: Wholes) -> BinaryProblem:
    """Return the binary problem of all cells of some columns."""
    cells = np.broadcast_to(batch.weight[:, None], (batch.n_rows, len(columns)))
    positives = np.where(batch.class_index[:, None] == columns, cells, 0.0)
    values = batch.probabilities()[:, columns]
    return binary_problem(values.ravel(), positives.ravel(), cells.ravel())


def solve_shared_classwise(
    batch: SimplexBatch,
    *,
    kind: str = "histogram",
    n_groups: int = 1,
    n_bins: int = 15,
    strategy: str = "width",
    normalize_output: bool = True,
) -> tuple[ClasswiseCurves, SolverReport]:
    """Return one curve for each group of classes, and the report."""
    started = perf_counter()
    group = group_classes(batch, n_groups)
    columns = [np.flatnonzero(group == g) for g in range(int(group.max()) + 1)]
    if kind == "isotonic":
        problems = (pool_segments(batch, part) for part in columns)
        curves, report = solve_each(problems, solve_isotonic_steps, "group", started)
    else:
        problems = (pool_cells(batch, part) for part in columns)
        solve = partial(solve_histogram, n_bins=n_bins, strategy=strategy)
        curves, report = solve_each(problems, solve, "group", started)
    return ClasswiseCurves(group, curves, normalize_output, batch.kind), report


class SharedClasswise(Calibrator):
    """Shared class-wise calibration (sCW): one map for classes with similar priors.

    The one-vs-rest problems of the classes of a group are merged into one, which gives rare
    classes enough data. With an isotonic map for one group, and rows divided by their sums, it is
    ``FlattenedIsotonic``.

    Parameters
    ----------
    map : {"histogram", "isotonic"}, default="histogram"
        Map fitted to the cells of a group.
    n_groups : int, default=1
        Largest number of groups: classes are sorted by their frequency in the calibration set and
        split into groups of about equal size. Classes of equal frequency stay together; classes
        without a label join the rarest group.
    n_bins : int, default=15
        Number of bins of a histogram.
    strategy : {"width", "mass"}, default="width"
        Bins of equal width or of equal mass; nearly all bins of equal mass lie close to 0.
    normalize_output : bool, default=True
        Whether rows are divided by their sums. False is the published method: each cell is
        calibrated separately, and rows may not sum to 1.

    Attributes
    ----------
    groups_ : ndarray of shape (n_classes,)
        Group of each class, from 0 for the rarest.
    curves_ : tuple of StepFunction or of Histogram
        Fitted map of each group.

    See Also
    --------
    FlattenedIsotonic : One isotonic map for all classes.
    OneVsRestHistogram : One map for each class.

    Notes
    -----
    Patel et al. share one map among all classes of balanced data. Their I-Max choice of bin edges
    is not offered. A row that every map sends to zero keeps its scores if it is to sum to 1.

    References
    ----------
    .. [1] K. Patel et al., "Multi-Class Uncertainty Calibration via Mutual Information
       Maximization-based Binning", ICLR 2021.

    Examples
    --------
    >>> from calibrant.study import SharedClasswise
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = SharedClasswise(map="isotonic").fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.61, 0.23, 0.16]])
    >>> original = SharedClasswise(normalize_output=False).fit(bold, y)
    >>> original.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.64, 0.26, 0.11]])
    """

    method = "scw"
    title = "sCW"
    summary = "a map for each group of similarly frequent classes"
    good_for = "comparison"
    place = 12

    map: str = choice(MAPS, default="histogram")
    n_groups: int = number(default=1, low=1, high=10**6, whole=True)
    n_bins: int = number(default=15, low=1, high=10**6, whole=True)
    strategy: str = choice(STRATEGIES, default="width")
    normalize_output: bool = choice(default=True)
    map_: ClasswiseCurves = fitted()

    curves_ = FromMap("curves")
    groups_ = FromMap("groups")

    def _n_parameters(self, n_classes: int) -> int:
        return min(int(self.n_groups), n_classes) * int(self.n_bins)

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        options = self._options()
        result = solve_shared_classwise(batch, kind=options.pop("map"), **options)
        return dict(zip(self._found, result, strict=True))
