"""Sums over all rows of the loss of temperature scaling and of its derivatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.exact_sums import temperature_terms
from calibrant.kernels.rows import deepest_logit, smallest_positive
from calibrant.maps.logits import TemperatureMap
from calibrant.scale.parts import SummedPart
from calibrant.scale.wide_sums import WideSums
from calibrant.simplex import (
    KINDS,
    LOG_OF_ZERO,
    check_number,
    check_option,
    small_chunks,
    to_logits,
)
from calibrant.solvers.temperature_rows import Whole, unit_of
from calibrant.solvers.temperature_steps import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

N_TERMS = 17
MEAN, ZERO = 1, 3
OWN, ZERO_LABEL, ZERO_BASE, SPREAD, N_ZEROS = 6, 7, 8, slice(9, 12), 13
"""Places of terms; the first six are ``Moments``."""

NOT_NEGATIVE = [0, 2, ZERO, 4, ZERO_LABEL, N_ZEROS]
"""Terms that are never negative: logarithms of sums, variances, shares and numbers."""

KNOWN = [0, 1, 2, *range(9, N_TERMS)]
"""Terms that tell, at T = 1, how rows that were kept differ from all."""

MOST_CLASSES = 1 << 20


def check_settings(n_classes: Any, kind: Any, *numbers: Any) -> None:
    """Refuse what no part was ever made of; settings may come from a stranger's file."""
    check_number("n_classes", n_classes, low=2, high=MOST_CLASSES, whole=True)
    check_option("kind", kind, KINDS)
    for number in numbers:
        if number is not None:
            check_number("a number of a point of reference", number)


class TemperatureSums(SummedPart):
    """Exact sums of the loss of temperature scaling and its derivatives, at one temperature.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    zero_probability : float, optional
        What a smaller score is read as; without it exact zeros are counted by themselves.
    inverse_temperature : float, default=1
        Where the sums are taken.
    zero_logit : float, optional
        What exact zeros are read as there; without it they have no probability.
    strength : float, optional
        Pseudo-observations, for who asked for these sums.
    """

    name = "temperature"

    def __init__(
        self,
        n_classes: int,
        kind: str,
        zero_probability: float | None = None,
        inverse_temperature: float = 1.0,
        zero_logit: float | None = None,
        strength: float | None = None,
    ) -> None:
        check_settings(n_classes, kind, inverse_temperature, zero_probability, zero_logit, strength)
        self.n_classes, self.kind = n_classes, kind
        self.zero_probability, self.inverse_temperature = zero_probability, inverse_temperature
        self.zero_logit, self.strength = zero_logit, strength
        self._sums = WideSums(N_TERMS)
        super().__init__({"sums": self._sums})
        self._deepest = 0.0

    @property
    def map(self) -> TemperatureMap:
        """The map at which the sums are taken; that of the first pass has no logit of a zero."""
        return TemperatureMap(self.inverse_temperature, self.zero_logit or 0.0, self.kind)

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        names = ("n_classes", "kind", "zero_probability", "inverse_temperature", "zero_logit")
        return {name: getattr(self, name) for name in (*names, "strength")}

    def terms(self, batch: SimplexBatch, own: slice) -> tuple[Array, float]:
        """Return what some of the rows add to each sum, and the deepest of their logits."""
        is_logit, beta = self.kind == "logits", self.inverse_temperature
        lowest = -math.inf if self.zero_probability is None else math.log(self.zero_probability)
        mapped = -math.inf if self.zero_logit is None else beta * self.zero_logit
        scores = batch.scores[own]
        logits = to_logits(scores, self.kind, lowest)
        deepest = deepest_logit(logits) if is_logit else math.log(smallest_positive(scores))
        terms = np.empty((len(scores), N_TERMS))
        temperature_terms(logits, batch.class_index[own], is_logit, beta, mapped, terms)
        return terms, deepest

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for own in small_chunks(batch.n_rows, max(batch.n_classes, N_TERMS)):
            terms, deepest = self.terms(batch, own)
            self._sums.add_rows(terms, batch.weight[own])
            self._deepest = min(self._deepest, deepest)

    def merge(self, other: TemperatureSums) -> None:
        """Add what another one has counted."""
        super().merge(other)
        self._deepest = min(self._deepest, other._deepest)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        return super().arrays() | {"deepest": np.array([self._deepest])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        super().restore(arrays)
        (deepest,) = arrays["deepest"].tolist()
        self._deepest = float(deepest)
        if not -math.inf < self._deepest <= 0.0:
            raise ValueError(f"a deepest logit of {self._deepest}")
        values = self.values()
        if not np.isfinite(values).all() or np.any(values[NOT_NEGATIVE] < 0.0):
            raise ValueError("sums of temperature scaling are not finite, or negative")

    def values(self) -> Array:
        """Return the sums."""
        return self._sums.values()

    def moments(self, weight: float) -> Moments:
        """Means over rows of this weight."""
        return Moments(*(self.values()[: len(Moments._fields)] / weight).tolist())

    @property
    def has_zeros(self) -> bool:
        """Whether there are exact zeros to be read."""
        return bool(self.values()[N_ZEROS] > 0.0)

    @property
    def zero_start(self) -> float:
        """Reading of a zero at delta = 0."""
        if self.zero_probability is not None:
            return math.log(self.zero_probability)
        return self._deepest if self.has_zeros else min(LOG_OF_ZERO, self._deepest)

    def whole(self, weight: float) -> Whole:
        """Return what is known of all rows, after a pass at T = 1."""
        zero, sums = self.zero_start, self.values()
        own = sums[OWN] + sums[ZERO_BASE] + zero * sums[ZERO_LABEL]
        spread = np.polynomial.polynomial.polyval(zero, sums[SPREAD]) / weight
        mean = self.moments(weight).mean
        labels = float(sums[ZERO_LABEL])
        return Whole(float(own / weight), mean, labels, zero, unit_of(float(spread)))


def at(found: TemperatureMap, first: TemperatureSums, strength: float | None) -> TemperatureSums:
    """Return empty sums at another temperature."""
    return TemperatureSums(
        first.n_classes,
        first.kind,
        first.zero_probability,
        found.inverse_temperature,
        found.zero_logit,
        strength,
    )
