"""Means over rows of terms that each row has, and their bootstrap intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex, threads
from calibrant.kernels.fixed_point import totals
from calibrant.kernels.metrics import add_products
from calibrant.metrics.resampling import Resamples
from calibrant.metrics.result import Estimate
from calibrant.metrics.scores import chunk_losses, chunk_squares
from calibrant.metrics.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from calibrant.maps.base import Floats
    from calibrant.metrics.chunk import Chunk

PROPER = ("negative_log_likelihood", "brier_score")
"""Metrics that are proper scores."""

TERMS: dict[str, Callable[[Chunk], Floats]] = {
    "accuracy": lambda chunk: chunk.top_labels()[1].astype(np.float64),
    "negative_log_likelihood": chunk_losses,
    "brier_score": chunk_squares,
}
"""Metrics that are means over rows, and the term of each row."""


def score_rows(metric: str, chunks: Iterable[Chunk], n_classes: int) -> tuple[float, Floats]:
    """Return a metric of all rows, with the bits of its function, and the term of each row."""
    measure: Any = METRICS[metric].start(n_classes, 1)
    terms = []
    for chunk in chunks:
        measure.add(chunk)
        terms.append(TERMS[metric](chunk))
    return measure.value(), np.concatenate(terms)


def exact_mean(terms: Floats, weight: Floats) -> float:
    """Weighted mean of terms in [-1, 1], whatever their order."""
    sums = np.zeros((1, 2, 2), dtype=np.int64)
    add_products(weight, np.ascontiguousarray(terms), sums)
    total, mean = totals(sums)[0]
    return float(mean / total)


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are drawn; refuses what cannot be drawn.

    Attributes
    ----------
    n_resamples : int
        0 for no intervals.
    level : float
        Share of the resamples that an interval holds.
    random_state : None, int, SeedSequence or Generator
    n_jobs : int or None
    """

    n_resamples: int
    level: float
    random_state: Any
    n_jobs: int | None

    def __post_init__(self) -> None:
        simplex.check_number("n_resamples", self.n_resamples, low=0, whole=True)
        simplex.check_number("confidence_level", self.level, low=0.0, high=1.0)
        threads.check_jobs("n_jobs", self.n_jobs)

    def estimates(
        self, values: Sequence[float], parts: Sequence[Floats], weight: Floats
    ) -> list[Estimate]:
        """Return each value with the percentile interval of the mean of its terms, which holds it.

        All parts are drawn together. Rows are sorted by their terms before they are drawn, so that
        their order changes no bit.
        """
        if self.n_resamples == 0:
            return [Estimate(value, math.nan, math.nan) for value in values]
        order = np.lexsort((weight, *parts))
        weight = weight[order]
        parts = [part[order] for part in parts]
        resamples = Resamples([len(weight)], int(self.n_resamples), self.random_state)
        means = np.empty((len(parts), int(self.n_resamples)))

        def draw(r: int) -> None:
            mass = resamples.all_counts(r) * weight
            total = mass.sum()
            for own, part in zip(means, parts, strict=True):
                own[r] = (mass * part).sum() / total  # a product of BLAS depends on its threads

        with threads.jobs(self.n_jobs):
            resamples.each(draw, range(int(self.n_resamples)))
        ends = [(1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0]
        found = []
        for value, own in zip(values, means, strict=True):
            low, high = np.quantile(own, ends).tolist()
            found.append(Estimate(value, min(low, value), max(high, value)))
        return found


def not_negative(estimate: Estimate) -> Estimate:
    """Reach up to zero with the interval of what cannot be negative, but may be estimated so."""
    return estimate._replace(high=max(estimate.high, 0.0))
