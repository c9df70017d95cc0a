"""Histogram binning, the share of labels in each bin of the probability, and BBQ, for each class.

Bayesian binning into quantiles averages histograms with many numbers of bins, in log space.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, logsumexp

from calibrant._calibrators.one_vs_rest import OneVsRestCalibrator, OneVsRestCounts
from calibrant._calibrators.parameters import choice, number
from calibrant._kernels.tables import TIED
from calibrant._maps.curves import AveragedHistogram
from calibrant._maps.steps import Histogram
from calibrant._row_order import GOLDEN, lay_thresholds, starts_of_runs
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant._solvers.one_vs_rest import BinaryProblem
    from calibrant._types import Floats, Wholes


STRATEGIES = ("mass", "width")
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
        """Thresholds, positives and cells of the bins that are not empty.

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
        """Place of the first value of each bin."""
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
    """Sum of the weights of the values in each bin."""
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
    """Numbers of bins for a total weight: from its cube root / spread to its cube root * spread.

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
    """Parameters of each bin's Beta prior, whose mean is the middle of the bin."""
    middle = np.clip((thresholds + ends) / 2, SMALLEST_PRIOR, 1.0 - SMALLEST_PRIOR)
    return prior_weight * middle, prior_weight * (1.0 - middle)


def log_marginal_likelihood(
    positives: Floats, cells: Floats, alpha: Floats, beta: Floats
) -> Floats:
    """Log probability of the labels in each bin, with their share integrated out."""
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
