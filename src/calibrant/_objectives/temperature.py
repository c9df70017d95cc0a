"""Temperature scaling's objective, convex in 1/T and in the logit of an exact zero.

The paper's TS has one number, the temperature, and no word on probabilities of exactly zero, which
have no logarithm and are common in forests, nearest neighbours and lists of the k best. With

    z = beta log p  where p > 0,    z = beta log p_min - delta  where p = 0,    delta >= 0,

the NLL is convex in (beta, delta), and the order of the classes is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._gate import LOG_OF_ZERO, to_logits
from calibrant._kernels.rows import lowest_score
from calibrant._kernels.softmax import row_sums
from calibrant._maps.logits import TemperatureMap
from calibrant._objectives import Objective

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._types import Bools, Floats, Wholes

LOWEST_ZERO = -700.0
"""A zero is read as exp of this or more, unless a positive score is even smaller; where scores are
logits, whose scale is free, this is in units of their spread."""

SMALLEST_SPREAD = 1e-90
"""Logits that differ by less are equal: an inverse temperature for them would have no bound."""

LARGEST_BETA = 1e6
"""Bound on the inverse temperature in units of the logits' spread, for sets without an error."""


@dataclass(frozen=True, slots=True)
class TemperatureObjective(Objective):
    """Mean NLL in t = (beta, delta), less a linear term.

        mean_i [log(sum_{j: p_ij > 0} exp(beta d_ij) + n_i exp(beta d_i0 - delta))
                - beta d_iy + delta [p_iy = 0]] - <prior_gradient, t>,

    0 <= beta <= LARGEST_BETA, 0 <= delta <= reach beta. Here d are logits less the largest of
    their row, in units of their spread, n_i the number of exact zeros and d_i0 their gap if they
    are read as ``zero_logit``. ``prior_gradient`` is that of ``strength`` pseudo-observations
    labelled by the scores themselves, which draw T to 1, less half a label on zeros.
    """

    kind: str
    unit: float  # spread of the logits
    zero_logit: float  # reading of a zero at delta = 0
    reads_zeros: bool  # whether delta is fitted; else zeros are read as ``zero_logit``
    strength: float = 0.0
    prior_gradient: tuple[float, float] = (0.0, 0.0)

    @property
    def reach(self) -> float:
        """Bound on delta / beta."""
        lowest = LOWEST_ZERO * (self.unit if self.kind == "logits" else 1.0)
        return max(self.zero_logit - lowest, 0.0) / self.unit

    @property
    def bounds(self) -> tuple[float, float]:
        """Both parameters are positive; that of delta depends on beta, and ``map`` sees to it."""
        return 0.0, np.inf

    def row_loss(self, batch: SimplexBatch, total: float = 1.0) -> TemperatureRows:
        """Return the loss of some rows."""
        return temperature_rows(
            batch, self.zero_logit, total, self.unit, reads_zeros=self.reads_zeros
        )

    def penalty(self, point: Floats) -> tuple[float, Floats]:
        """Value and gradient of the linear term."""
        gradient = -np.array(self.prior_gradient)
        return float(gradient @ point), gradient

    def map(self, point: Floats) -> TemperatureMap:
        """Return the map of a point."""
        beta, delta = point.tolist()
        depth = self.unit * min(delta / beta, self.reach) if delta > 0.0 < beta else 0.0
        return TemperatureMap(beta / self.unit, self.zero_logit - depth, self.kind)


class TemperatureMoments(NamedTuple):
    """Mean NLL at a point with its first and second derivatives."""

    loss: float
    by_beta: float
    by_delta: float
    beta_beta: float
    beta_delta: float
    delta_delta: float


class TemperatureRows:
    """Sorted gaps between logits of a row and its largest; no order of columns is left."""

    def __init__(
        self,
        gaps: Floats,  # in units of ``unit``, increasing; those of exact zeros come first
        own: Floats,  # that of the label
        n_zeros: Wholes,  # exact zeros of each row, to be read by the fit
        zero_label: Bools,  # whether the label is one of them
        weight: Floats,
        total: float,
        unit: float,
        flat: Floats,  # sums of each row at beta = 0
    ) -> None:
        self.gaps, self.own, self.n_zeros, self.unit = gaps, own, n_zeros, unit
        self.weight, self.total = weight, total
        self.zeros = np.flatnonzero(n_zeros)
        self.zero_labels = float(weight[zero_label].sum()) / total
        self._flat, self._sums = flat, np.empty_like(flat)
        self._beta = 0.0  # where these sums were taken, if it is positive

    def mean(self, values: Floats) -> float:
        """Return the weighted mean of a number for each row."""
        return float(values @ self.weight) / self.total

    def sums_at(self, beta: float) -> Floats:
        """Return sums over positive cells of exp(beta d), times 1, d and d^2, of each row."""
        if beta == 0.0:
            return self._flat
        if beta != self._beta:
            row_sums(self.gaps, self.n_zeros, beta, *self._sums)
            self._beta = beta
        return self._sums

    def zero_mass(self, beta: float) -> Floats:
        """Sum of exp(beta d) over the exact zeros of each row, at delta = 0."""
        n_zeros = self.n_zeros
        return np.where(n_zeros > 0, n_zeros * np.exp(beta * self.gaps[:, 0]), 0.0)

    def value(self, point: Floats) -> tuple[float, Floats]:
        """Mean NLL and its gradient."""
        result = self.moments(*point.tolist())
        return result.loss, np.array([result.by_beta, result.by_delta])

    def moments(self, beta: float, delta: float) -> TemperatureMoments:
        """Mean NLL with its derivatives."""
        s0, s1, s2 = self.sums_at(beta)
        if not len(self.zeros):
            mean = s1 / s0
            spread = np.maximum(s2 / s0 - mean * mean, 0.0)
            loss, slope = self.mean(np.log(s0) - beta * self.own), self.mean(mean - self.own)
            return TemperatureMoments(loss, slope, 0.0, self.mean(spread), 0.0, 0.0)
        gap = self.gaps[:, 0]
        mass = self.zero_mass(beta) * math.exp(-delta)
        total = s0 + mass
        zero = mass / total
        mean = (s1 + mass * gap) / total
        square = (s2 + mass * gap * gap) / total
        return TemperatureMoments(
            self.mean(np.log(total) - beta * self.own) + delta * self.zero_labels,
            self.mean(mean - self.own),
            self.zero_labels - self.mean(zero),
            self.mean(np.maximum(square - mean * mean, 0.0)),
            self.mean(zero * (mean - gap)),
            self.mean(zero * (1.0 - zero)),
        )


def find_zeros(batch: SimplexBatch, zero_probability: float | None) -> tuple[bool, float]:
    """Whether there are exact zeros that the fit has to read, and their reading at delta = 0."""
    if zero_probability is not None:
        return False, math.log(zero_probability)
    is_logits = batch.kind == "logits"
    lowest = lowest_score(batch.scores, is_logits)
    deepest = lowest if is_logits else math.log(lowest)
    has_zeros = bool(np.any(batch.scores == _zero_of(batch)))
    return has_zeros, deepest if has_zeros else min(LOG_OF_ZERO, deepest)


def _zero_of(batch: SimplexBatch) -> float:
    return -math.inf if batch.kind == "logits" else 0.0


def temperature_rows(
    batch: SimplexBatch,
    zero_logit: float,
    total: float,
    unit: float | None = None,
    *,
    reads_zeros: bool,
) -> TemperatureRows:
    """Sort the gaps of each row; without a ``unit`` it is the root of their mean variance."""
    n_zeros = np.zeros(batch.n_rows, dtype=np.intp)
    if reads_zeros:
        n_zeros = np.count_nonzero(batch.scores == _zero_of(batch), axis=1)
    place = np.arange(batch.n_rows), batch.class_index
    gaps = to_logits(batch.scores, batch.kind, zero_logit)
    gaps -= gaps.max(axis=1, keepdims=True)
    own = gaps[place]
    gaps.sort(axis=1)
    sums = np.empty((3, batch.n_rows))
    if unit is None or not n_zeros.any():
        row_sums(gaps, np.zeros_like(n_zeros), 0.0, *sums)
    if unit is None:
        mean = sums[1] / sums[0]
        spreads = np.maximum(sums[2] / sums[0] - mean * mean, 0.0)
        spread = float(spreads @ batch.weight) / total
        unit = math.sqrt(spread) if spread > SMALLEST_SPREAD**2 else 1.0
    gaps /= unit
    if n_zeros.any():
        row_sums(gaps, n_zeros, 0.0, *sums)
    else:
        sums[1] /= unit
        sums[2] /= unit**2
    zero_label = (batch.scores[place] == _zero_of(batch)) & (n_zeros > 0)
    return TemperatureRows(gaps, own / unit, n_zeros, zero_label, batch.weight, total, unit, sums)
