"""Sums over all rows for the monotone spline: log-probabilities by bins, and its derivatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.spline_sums import add_information_cells, add_log_cells, spline_terms
from calibrant.maps.logits import log_probabilities
from calibrant.scale.exact import Sums
from calibrant.scale.outer_sums import OuterSums
from calibrant.scale.parts import SummedPart
from calibrant.scale.temperature_sums import check_settings
from calibrant.scale.wide_sums import WideSums
from calibrant.simplex import small_chunks, to_logits
from calibrant.solvers.spline_steps import Reference
from calibrant.solvers.spline_whole import Frame, knots_of, map_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

N_BINS, WIDTH = 6000, 0.01
"""Bins of log-probabilities, down to exp(-60)."""

MOST_BENT = 129
"""Most slopes of which all pairs are counted, for the Hessian."""


def read_logs(scores: Array, kind: str, zero_logit: float) -> Array:
    """Return log-probabilities, in which exact zeros may be -inf."""
    return log_probabilities(to_logits(scores, kind, zero_logit), kind)


class LogCells(SummedPart):
    """Exact sums by bins of the log-probability: of labels, of probabilities and of cells.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    zero_probability : float, optional
        What a smaller score is read as; without it the deepest bin has exact zeros, too.
    """

    name = "log-cells"
    depth = N_BINS * WIDTH

    def __init__(self, n_classes: int, kind: str, zero_probability: float | None = None) -> None:
        check_settings(n_classes, kind, zero_probability)
        self.n_classes, self.kind, self.zero_probability = n_classes, kind, zero_probability
        self._sums = Sums((6, N_BINS), signed=True)
        super().__init__({"sums": self._sums})

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        names = "n_classes", "kind", "zero_probability"
        return {name: getattr(self, name) for name in names}

    def logs(self, scores: Array) -> Array:
        """Return log-probabilities, -inf of exact zeros."""
        zero = -math.inf if self.zero_probability is None else math.log(self.zero_probability)
        return read_logs(scores, self.kind, zero)

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for own in small_chunks(batch.n_rows, batch.n_classes):
            new = Sums(self._sums.high.shape)
            index, weight = batch.class_index[own], batch.weight[own]
            add_log_cells(self.logs(batch.scores[own]), index, weight, WIDTH, new.high, new.low)
            self._sums.merge(new)

    def feature_sums(self, frame: Frame) -> tuple[Array, Array, Array]:
        """Return sums of features of labels, of those expected by the scores, and of all cells."""
        sums = self._sums.values().reshape(3, 2, N_BINS)
        found = []
        for weight, times_log in sums:
            used = weight > 0.0
            values = frame.scale * times_log[used] / weight[used]
            found.append(weight[used] @ features(values, frame.knots))
        return found[0], found[1], found[2]


class InformationCells(SummedPart):
    """Exact sums of what cells tell about slopes, by bins of their scaled log-probability.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    zero_logit, scale : float
        How log-probabilities are read and scaled.
    """

    name = "information"

    def __init__(self, n_classes: int, kind: str, zero_logit: float, scale: float) -> None:
        check_settings(n_classes, kind, zero_logit, scale)
        self.n_classes, self.kind = n_classes, kind
        self.zero_logit, self.log_scale = zero_logit, scale
        self._sums = Sums((N_BINS,), signed=True)
        super().__init__({"sums": self._sums})

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        own = {"n_classes": self.n_classes, "kind": self.kind, "zero_logit": self.zero_logit}
        return {**own, "scale": self.log_scale}

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for own in small_chunks(batch.n_rows, batch.n_classes):
            values = self.log_scale * read_logs(batch.scores[own], self.kind, self.zero_logit)
            new = Sums(self._sums.high.shape)
            add_information_cells(values, batch.weight[own], WIDTH, new.high, new.low)
            self._sums.merge(new)

    def knots(self, n_knots: int) -> Array:
        """Quantiles of the information."""
        mass = self._sums.values()[::-1]
        return knots_of(mass, -N_BINS * WIDTH, n_knots)


def features(values: Array, knots: Array) -> Array:
    """Return what each slope multiplies in theta."""
    above = np.clip(values[:, None] - knots, 0.0, np.append(np.diff(knots), np.inf))
    return np.column_stack([np.minimum(values - knots[0], 0.0), above])


class SplineSums(SummedPart):
    """Exact sums of the loss of a spline, of its gradient in the slopes and of its Hessian.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    zero_logit : float
    scale, knots, start, pull, rate
        The ``Frame`` of the fit.
    slopes : array-like of shape (n_knots + 1,)
        Where the sums are taken.
    """

    name = "spline"

    def __init__(
        self,
        n_classes: int,
        kind: str,
        zero_logit: float,
        scale: float,
        knots: Any,
        start: Any,
        pull: Any,
        rate: float,
        slopes: Any,
    ) -> None:
        check_settings(n_classes, kind, zero_logit, scale, rate)
        arrays = (np.asarray(one, np.float64) for one in (knots, start, pull, slopes))
        knots, start, pull, self.slopes = arrays
        self.frame = Frame(scale, knots, start, pull, rate)
        self.map = map_of(self.frame, self.slopes, zero_logit, kind)
        if not start.shape == pull.shape == self.slopes.shape:
            raise ValueError(f"{start.shape} slopes at the start, of {self.slopes.shape}")
        self.n_classes, self.kind, self.zero_logit = n_classes, kind, zero_logit
        size = len(self.slopes)
        self._sums = WideSums(3 * size + 1)
        size = size if size <= MOST_BENT else 0
        self._outer = OuterSums(size, size)
        super().__init__({"sums": self._sums}, {"": self._outer})

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        own = {"n_classes": self.n_classes, "kind": self.kind, "zero_logit": self.zero_logit}
        return {**own, **self.frame._asdict(), "slopes": self.slopes}

    def terms(self, logs: Array, class_index: NDArray[np.int64]) -> Array:
        """Return what rows of log-probabilities add to each sum."""
        terms = np.empty((len(logs), 3 * len(self.slopes) + 1))
        spline_terms(logs * self.frame.scale, class_index, self.frame.knots, self.slopes, terms)
        return terms

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        size = len(self.slopes)
        for own in small_chunks(batch.n_rows, batch.n_classes + 3 * size):
            logs = read_logs(batch.scores[own], self.kind, self.zero_logit)
            terms = self.terms(logs, batch.class_index[own])
            self._sums.add_rows(terms, batch.weight[own])
            if size <= MOST_BENT:
                means = np.ascontiguousarray(terms[:, 1 : size + 1])
                self._outer.add(means, means, batch.weight[own])

    def reference(self, weight: float) -> Reference:
        """Return the slopes with their derivatives over all rows."""
        size, means = len(self.slopes), self._sums.values() / weight
        mean, square, label = means[1:].reshape(3, size)
        hessian = None
        if size <= MOST_BENT:
            # A feature is full wherever a later one is not 0, but for the first, which is 0 there.
            lengths = np.concatenate([[0.0], np.diff(self.frame.knots), [0.0]])
            mixed = np.tril(np.outer(mean, lengths), -1)
            hessian = np.diag(square) + mixed + mixed.T - self._outer.values() / weight
        return Reference(self.slopes, float(means[0]), mean - label, hessian)
