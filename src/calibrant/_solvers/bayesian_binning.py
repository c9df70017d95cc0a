"""BBQ: Bayesian averaging of histograms with many numbers of bins, in log space."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp

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


def beta_prior(thresholds: Array, prior_weight: float | None) -> tuple[Array, Array]:
    """Parameters of each bin's Beta prior, whose mean is the middle of the bin."""
    n_bins = len(thresholds)
    per_bin = 2.0 if prior_weight is None else prior_weight / n_bins
    middle = (thresholds + np.append(thresholds[1:], 1.0)) / 2
    middle = np.clip(middle, SMALLEST_PRIOR, 1.0 - SMALLEST_PRIOR)
    return per_bin * middle, per_bin * (1.0 - middle)


def log_marginal_likelihood(positives: Array, cells: Array, alpha: Array, beta: Array) -> float:
    """Log probability of the labels in all bins, with their shares integrated out."""
    negatives = cells - positives
    return float(
        np.sum(
            gammaln(alpha + beta)
            - gammaln(cells + alpha + beta)
            + gammaln(positives + alpha)
            - gammaln(alpha)
            + gammaln(negatives + beta)
            - gammaln(beta)
        )
    )


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
    bins = MassBins.of(problem)
    thresholds, values, scores = [], [], []
    for n_bins in numbers:
        starts, positives, cells = bins.cut(n_bins)
        positives = np.clip(positives, 0.0, cells)  # fractional weights round
        alpha, beta = beta_prior(starts, prior_weight)
        thresholds.append(starts)
        values.append((positives + alpha) / (cells + alpha + beta))
        scores.append(log_marginal_likelihood(positives, cells, alpha, beta))
    log_scores = np.array(scores)
    evidence = float(logsumexp(log_scores))
    average = _average(thresholds, values, np.exp(log_scores - evidence), problem)
    objective = (math.log(len(numbers)) - evidence) / problem.total
    seconds = perf_counter() - started
    report = SolverReport(
        "bayesian binning", objective, 0.0, 0.0, len(numbers), seconds, average.n_blocks
    )
    return AveragedHistogram(average, np.array(numbers), log_scores), report


def _average(
    thresholds: list[Array], values: list[Array], weights: Array, problem: BinaryProblem
) -> Histogram:
    """Weighted average of step functions: it jumps where one of them does."""
    models = [m for m in zip(thresholds, values, weights, strict=True) if m[2] > 0]
    edges = np.unique(np.concatenate([starts for starts, _, _ in models]))
    total = np.zeros(len(edges))
    for starts, heights, weight in models:
        total += weight * heights[np.searchsorted(starts, edges, side="right") - 1]
    sizes = sums_by_bin(edges, problem.values, problem.cells)
    return Histogram(edges, np.clip(total, 0.0, 1.0), sizes)
