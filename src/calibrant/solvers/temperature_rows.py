"""Rows as temperature scaling reads them: sorted gaps between logits, in units of their spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels.exact_sums import sum_in_two_words
from calibrant.kernels.rows import deepest_logit, smallest_positive
from calibrant.kernels.softmax import row_sums
from calibrant.maps.logits import TemperatureMap
from calibrant.simplex import LOG_OF_ZERO, to_logits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

LOWEST_ZERO = -700.0
"""A zero is read as exp of this or more, unless a positive score is even smaller; where scores are
logits, whose scale is free, this is in units of their spread."""

SMALLEST_SPREAD = 1e-90
"""Logits that differ by less are equal: an inverse temperature for them would have no bound."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What is known of all rows where the batch is a sample of them, its weights those of all."""

    own: float  # mean gap of the label, with zeros read as at delta = 0
    expected: float  # mean gap by the scores as they are, T = 1
    zero_labels: float  # weight of labels on exact zeros
    zero_logit: float
    unit: float
    gap_ratio: float = 1.0  # mean gap of all rows by that of the sample, at a point of reference
    zero_ratio: float = 1.0  # the same of the probability of zeros


@dataclass(frozen=True, slots=True)
class Rows:
    """Sorted gaps between the logits of a row and its largest; no order of columns is left."""

    gaps: Array  # in units of ``unit``, increasing; those of exact zeros come first
    own: Array  # that of the label
    n_zeros: NDArray[np.int64]  # exact zeros of each row, to be read by the fit
    zero_label: NDArray[np.bool_]  # whether the label is one of them
    unit: float  # spread of the logits: the scale of the input changes nothing but this
    zero_logit: float  # reading of a zero at delta = 0
    reach: float  # bound on delta / beta
    flat: Array  # sums of each row at beta = 0

    @property
    def has_zeros(self) -> bool:
        """Whether there are zeros to be read."""
        return bool(self.n_zeros.any())

    def temperature(self, beta: float, delta: float, kind: str) -> TemperatureMap:
        """Undo the units."""
        depth = self.unit * delta / beta if delta > 0.0 else 0.0
        return TemperatureMap(beta / self.unit, self.zero_logit - depth, kind)


def find_zeros(
    batch: SimplexBatch, zero_probability: float | None
) -> tuple[NDArray[np.int64], float]:
    """Exact zeros of each row that the fit has to read, and their reading at delta = 0."""
    if zero_probability is not None:
        return np.zeros(batch.n_rows, dtype=np.int64), math.log(zero_probability)
    scores, is_logit = batch.scores, batch.kind == "logits"
    n_zeros = np.count_nonzero(scores == (-np.inf if is_logit else 0.0), axis=1)
    deepest = deepest_logit(scores) if is_logit else math.log(smallest_positive(scores))
    return n_zeros, float(deepest if n_zeros.any() else min(LOG_OF_ZERO, deepest))


def read_rows(batch: SimplexBatch, zero_probability: float | None, whole: Whole | None) -> Rows:
    """Sort the gaps of each row, and find their unit and what zeros are read as."""
    scores, is_logit = batch.scores, batch.kind == "logits"
    n_zeros, zero_logit = find_zeros(batch, zero_probability)
    zero_logit = zero_logit if whole is None else whole.zero_logit
    place = np.arange(batch.n_rows), batch.class_index
    gaps = to_logits(scores, batch.kind, zero_logit)
    gaps -= gaps.max(axis=1, keepdims=True)
    own = gaps[place]
    gaps.sort(axis=1)
    sums = np.empty((3, batch.n_rows))
    row_sums(gaps, np.zeros_like(n_zeros), 0.0, *sums)
    mean = sums[1] / sums[0]
    spreads = np.maximum(sums[2] / sums[0] - mean * mean, 0.0)
    spread = sum_in_any_order(spreads * batch.weight) / sum_in_any_order(batch.weight)
    unit = unit_of(spread) if whole is None else whole.unit
    gaps /= unit
    if n_zeros.any():
        row_sums(gaps, n_zeros, 0.0, *sums)
    else:
        sums[1] /= unit
        sums[2] /= unit**2
    zero_label = (scores[place] == (-np.inf if is_logit else 0.0)) & (n_zeros > 0)
    reach = reach_of(zero_logit, unit, batch.kind) / unit
    return Rows(gaps, own / unit, n_zeros, zero_label, unit, zero_logit, reach, sums)


def unit_of(spread: float) -> float:
    """Return the unit of logits whose mean variance in a row is ``spread``."""
    return math.sqrt(spread) if spread > SMALLEST_SPREAD**2 else 1.0


def reach_of(zero_logit: float, unit: float, kind: str) -> float:
    """Return how far below ``zero_logit`` a zero may be read."""
    lowest = LOWEST_ZERO * (unit if kind == "logits" else 1.0)
    return max(zero_logit - lowest, 0.0)


def sum_in_any_order(values: Array) -> float:
    """Sum that does not depend on the order: of whole numbers, in two words a term."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    bits = 62 - len(values).bit_length()
    shift = bits - math.frexp(largest)[1]
    first = shift // 2  # a power of two has no more than 1023 bits
    high, low = sum_in_two_words(
        np.ascontiguousarray(values), 2.0**first, 2.0 ** (shift - first), 2.0**bits
    )
    return math.ldexp((high << bits) + low, -shift - bits)
