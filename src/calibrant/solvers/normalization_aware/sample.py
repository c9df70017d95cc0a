"""Rows that stand for more rows than there is room for, and what is known of those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.normalization_aware import add_prior, index_cells
from calibrant.kernels.tables import build_lookup
from calibrant.simplex import to_logits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.logits import TemperatureMap
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

N_GROUPS, FEWEST_CELLS = 256, 5
"""Groups of segments, each with some cells of the sample, whose exposures move alike."""

LEAST_MASS = 2.0**-44
"""What every cell has of a prior at least."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeSet:
    """What is known of all rows, by segment; every segment has cells."""

    starts: Array  # no cell lies below the first
    labels: Array
    cells: Array
    tops: Array  # weight of the rows whose largest cell lies here

    @property
    def edges(self) -> Array:
        """Starts from 0 on."""
        return np.append(0.0, self.starts[1:])

    @property
    def weight(self) -> float:
        """Total weight."""
        return float(np.sum(self.tops))


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A point, and what is known of all rows there, by segment."""

    values: Array  # g, or a mean of it
    shares: Array  # r; they sum to the weight of all rows
    exposures: Array  # a = r / g, positive


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows that stand for all."""

    index: NDArray[Any]  # segment of each cell
    tops: NDArray[np.int64]  # segment of each row's largest cell
    weight: Array  # sums to that of all rows
    groups: NDArray[np.int64]  # group of each segment, non-decreasing

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups[-1]) + 1


def place_sample(probabilities: Array, weight: Array, whole: WholeSet) -> Sample:
    """Find the segment of every cell of rows that stand for all."""
    n_rows = len(probabilities)
    index = np.empty(probabilities.shape, np.uint16 if len(whole.starts) <= 1 << 16 else np.int32)
    largest, seen = np.empty(n_rows), np.zeros(len(whole.starts), dtype=np.bool_)
    lookup = build_lookup(whole.edges)
    bits = probabilities.view(np.int64)
    index_cells(probabilities, bits, np.arange(n_rows), *lookup, index, largest, seen)
    tops = np.searchsorted(whole.edges, largest, side="right") - 1
    weight = weight * (whole.weight / np.sum(weight))
    return Sample(index, tops, weight, _group_segments(index, whole))


def _group_segments(index: NDArray[Any], whole: WholeSet) -> NDArray[np.int64]:
    """Group neighbouring segments: of alike weight, each with some cells of the sample.

    The lowest, which holds exact zeros, is by itself.
    """
    cells = np.bincount(index.ravel(), minlength=len(whole.starts))
    ends = np.cumsum(cells / index.size + whole.tops / whole.weight)
    group = np.minimum(N_GROUPS * ends / ends[-1], N_GROUPS - 1).astype(np.int64) + 1
    group[0] = 0
    has_cells = np.bincount(group, cells, minlength=N_GROUPS + 1) >= FEWEST_CELLS
    has_cells[0] = True
    found: NDArray[np.int64] = np.maximum(np.cumsum(has_cells) - 1, 0)[group]
    return found


def estimate_prior(
    sample: Sample, whole: WholeSet, scores: Reference, batch: SimplexBatch, found: TemperatureMap
) -> Array:
    """Mass of temperature-scaled predictions of all rows in each segment, by those of the sample.

    A group has as much more of it as it has more of the scores themselves; inside, it is spread
    as powers of the scores are. ``batch`` has the rows of the sample.
    """
    beta = found.inverse_temperature
    index = sample.groups.astype(np.int32)[sample.index]
    mass, totals = np.zeros((1, sample.n_groups)), np.empty(len(index))
    logits = to_logits(batch.scores, batch.kind, found.zero_logit)
    share = np.ascontiguousarray(sample.weight[:, None])
    add_prior(logits, np.arange(len(index)), beta, share, index, mass, totals)
    held = np.bincount(
        index.ravel(), (batch.probabilities() * share).ravel(), minlength=sample.n_groups
    )
    scale = np.ones_like(held)
    np.divide(np.bincount(sample.groups, scores.shares), held, out=scale, where=held > 0.0)
    spread = whole.cells * np.maximum(scores.values, 1e-300) ** min(beta, 1.0)
    spread /= np.bincount(sample.groups, spread)[sample.groups]
    estimate: Array = np.maximum(
        (mass[0] * scale)[sample.groups] * spread, LEAST_MASS * whole.cells
    )
    estimate *= whole.weight / np.sum(estimate)
    return estimate
