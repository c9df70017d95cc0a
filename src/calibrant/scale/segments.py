"""Segments of scores, for NA-FIR of more rows than memory holds, and sums over all rows by them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import calibrant.kernels.cells as kernels
from calibrant.kernels.tables import build_lookup
from calibrant.scale.exact import Sums
from calibrant.scale.parts import SummedPart
from calibrant.simplex import KINDS, check_number, check_option, chunks, softmax, to_logits
from calibrant.solvers.normalization_aware.rows import segment_starts
from calibrant.solvers.normalization_aware.sample import Reference, WholeSet
from calibrant.solvers.report import Binning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.scale.cells import Bins
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

MOST_SEGMENTS = 1 << 15
"""Segments that start at labels; where there are more bins with labels, bins are merged."""

FINE = 4096.0
"""What shares are multiplied by: of a sum of tiny ones every term has to count."""


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Segments of scores, and what the bins tell of all rows in them.

    Attributes
    ----------
    whole : WholeSet
    scores : Reference
        The scores as they are: g(p) = p.
    empty : ndarray
        Starts of octaves without a cell.
    is_exact : ndarray of shape (n_segments,)
        Whether all labels of a segment have the same score.
    """

    whole: WholeSet
    scores: Reference
    empty: Array
    is_exact: NDArray[np.bool_]

    @classmethod
    def of(cls, bins: Bins) -> Segments:
        """Start segments at the smallest label of each bin, or of a few bins, and at octaves.

        A few are merged where they have about as many labels as others have in one.
        """
        holds = bins.labels > 0.0
        labels, starts = bins.labels[holds], bins.starts[holds]
        before = np.cumsum(labels) - labels
        place = np.floor(before * (MOST_SEGMENTS / np.sum(labels)))
        starts = starts[np.append(True, place[1:] > place[:-1])]
        smallest = bins.smallest[bins.smallest > 0.0][0]
        starts = segment_starts(starts, float(smallest))
        segment = np.searchsorted(starts, bins.starts, side="right") - 1
        seen = np.bincount(segment, minlength=len(starts)) > 0
        empty = starts[~seen]
        segment = (np.cumsum(seen) - 1)[segment]
        n = int(np.count_nonzero(seen))

        def total(part: Array) -> Array:
            return np.bincount(segment, part, minlength=n).astype(np.float64)

        whole = WholeSet(starts[seen], *map(total, (bins.labels, bins.cells, bins.tops)))
        mean = np.clip(bins.mass / bins.cells, bins.smallest, bins.largest)
        mass = total(bins.cells * mean)
        scores = Reference(mass / whole.cells, mass * (whole.weight / mass.sum()), whole.cells)
        with_labels = np.bincount(segment, holds, minlength=n)
        impure = np.bincount(segment, holds & ~bins.is_pure, minlength=n)
        return cls(whole, scores, empty[empty > 0.0], (with_labels <= 1) & (impure == 0))

    def binning(self, target: Array, residual: Array, total: float) -> Binning | None:
        """Bound what it cost that labels of several scores share a segment.

        From a score inside a segment, the sum of residuals that optimality is judged by lies below
        that of the next segment by the target of this one at most.
        """
        if self.is_exact.all():
            return None
        beyond = np.append(np.cumsum(residual[::-1])[::-1], 0.0)[1:]
        inside = np.where(self.is_exact, 0.0, target - np.maximum(beyond, 0.0))
        return Binning(len(target), max(float(inside.max()), 0.0) / total)


def _as_text(numbers: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, "<f8").tobytes()).decode()


def _as_numbers(text: str) -> Array:
    return np.frombuffer(base64.b64decode(text, validate=True), "<f8").astype(np.float64)


class SegmentSums(SummedPart):
    """Shares of all rows by segment, and the sum of the logarithms of their totals, at one g.

    Parameters
    ----------
    n_classes : int
    kind : {"probabilities", "logits"}
    starts, values : ndarray of shape (n_segments,) or str
        Where each segment starts, and g there; as text, the bytes of doubles in base 64.
    inverse_temperature, zero_logit : float, optional
        Those of the prior, whose probabilities are summed up, too, if it is given.
    """

    name = "segments"

    def __init__(
        self,
        n_classes: int,
        kind: str,
        starts: Array | str,
        values: Array | str,
        inverse_temperature: float | None = None,
        zero_logit: float = 0.0,
    ) -> None:
        check_number("n_classes", n_classes, low=2, high=1 << 20, whole=True)
        check_option("kind", kind, KINDS)
        if inverse_temperature is not None:
            check_number("inverse_temperature", inverse_temperature, low=0.0)
        check_number("zero_logit", zero_logit)
        self.n_classes, self.kind = n_classes, kind
        self.inverse_temperature, self.zero_logit = inverse_temperature, zero_logit
        self.starts = _as_numbers(starts) if isinstance(starts, str) else starts
        self.values = _as_numbers(values) if isinstance(values, str) else values
        self._check()
        self._texts = _as_text(self.starts), _as_text(self.values)
        n = len(self.starts)
        self._sums = Sums((n, 1 if inverse_temperature is None else 2))
        self._logs = Sums((), signed=True)
        super().__init__({"sums": self._sums, "logs": self._logs})

    def _check(self) -> None:
        t, v = self.starts, self.values
        if not (
            t.ndim == 1
            and t.shape == v.shape
            and 0 < len(t) <= 2 * MOST_SEGMENTS
            and t[0] == 0.0
            and not np.signbit(t[0])
            and np.all(t[1:] > t[:-1])
            and t[-1] <= 1.0
            and v[0] > 0.0
            and np.all(v[1:] >= v[:-1])
            and v[-1] == 1.0
        ):
            raise ValueError("segments do not start in order, or have no values in order")

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        starts, values = self._texts
        return {
            "n_classes": self.n_classes,
            "kind": self.kind,
            "starts": starts,
            "values": values,
            "inverse_temperature": self.inverse_temperature,
            "zero_logit": self.zero_logit,
        }

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        lookup = build_lookup(self.starts)
        for own in chunks(batch.n_rows, batch.n_classes):
            scores, weight = batch.scores[own], batch.weight[own]
            rows = softmax(scores) if batch.kind == "logits" else scores
            bits = rows.view(np.int64)
            sums = np.zeros((*self._sums.high.shape[::-1], 2), dtype=np.int64)
            logs = np.zeros(2, dtype=np.int64)
            kernels.add_shares(rows, bits, weight, *lookup, self.values, FINE, sums[0], logs)
            if self.inverse_temperature is not None:
                logits = to_logits(scores, batch.kind, self.zero_logit)
                kernels.add_prior_shares(
                    logits, bits, weight, *lookup, self.inverse_temperature, FINE, sums[1]
                )
            self._sums.merge(Sums.of(sums[..., 0].T, sums[..., 1].T))
            self._logs.merge(Sums.of(*logs))

    @property
    def log_totals(self) -> float:
        """Sum of w log T."""
        return float(self._logs.values())

    def shares(self) -> Array:
        """Return r of each segment."""
        found: Array = self._sums.values()[:, 0] / FINE
        return found

    def prior_mass(self) -> Array:
        """Return the sum of the prior's probabilities in each segment."""
        found: Array = self._sums.values()[:, 1] / FINE
        return found
