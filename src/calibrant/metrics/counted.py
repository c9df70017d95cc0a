"""Metrics of rows in chunks: measures that were counted anywhere and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from calibrant import errors
from calibrant.columns import column_order
from calibrant.containers import to_matrix
from calibrant.labels import check_labels
from calibrant.metrics.chunk import deal
from calibrant.metrics.fixed_sums import MOST_TERMS
from calibrant.metrics.measures import Counts
from calibrant.metrics.predictions import NAMED, positive_last, read_predictions
from calibrant.scale.chunks import is_dask
from calibrant.scale.mergeable import Mergeable
from calibrant.scale.parts import Part
from calibrant.scale.sources import as_chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant.metrics.measures import Measure
    from calibrant.metrics.predictions import Predictions
    from calibrant.scale.chunks import Chunks
    from calibrant.simplex import SimplexBatch

MOST_GROUPS = 1 << 10

Own = TypeVar("Own", bound="RowStatistics")


class MeasuredRows(Part):
    """Several counts of all rows, which are dealt to groups where intervals are wanted.

    Parameters
    ----------
    n_groups : int
        1 for none.
    counts : dict of str to dict
        By any name: the ``name`` of a class of ``Counts`` as "kind", and its settings.
    """

    name = "rows"

    def __init__(self, n_groups: int, counts: dict[str, dict[str, Any]]) -> None:
        if n_groups not in range(1, MOST_GROUPS + 1):
            raise ValueError(f"{n_groups} groups")
        self.n_groups, self._settings = n_groups, counts
        self.counts = {name: _make(**settings) for name, settings in counts.items()}

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_groups": self.n_groups, "counts": self._settings}

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for rows in deal(batch, self.n_groups):
            for own in self.counts.values():
                own.add_rows(rows)

    def merge(self, other: Self) -> None:
        """Add what another one has counted."""
        for name, own in self.counts.items():
            own.merge(other.counts[name])

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        for own in self.counts.values():
            own.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        return {
            f"{name}/{key}": array
            for name, own in self.counts.items()
            for key, array in own.arrays().items()
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        for name, own in self.counts.items():
            found = {k: a for k, a in arrays.items() if k.startswith(f"{name}/")}
            own.restore({k.rpartition("/")[2]: a for k, a in found.items()}, self.n_groups)


def _make(kind: str, **settings: Any) -> Counts:
    return Counts.registered[kind](**settings)


def describe(counts: dict[str, Counts]) -> dict[str, dict[str, Any]]:
    """Return what makes empty ones, in plain values."""
    return {name: {"kind": own.name, **own.settings()} for name, own in counts.items()}


class RowStatistics(Mergeable):
    """What metrics count of rows, in chunks that may be added, merged and sent."""

    @property
    def rows(self) -> MeasuredRows:
        """What was counted of the rows."""
        part: Any = self.parts["rows"]
        found: MeasuredRows = part
        return found

    def update(
        self,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        named: errors.Arguments = NAMED,
    ) -> Self:
        """Count rows; what is wrong with one of them leaves everything as it was.

        Parameters
        ----------
        scores : array-like of shape (n_rows, n_classes)
            Two classes may come as one column, the probability of the second.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        """
        if self.n_classes == 2 and self.scores == "probabilities":
            matrix = to_matrix(scores, self.scores, named)
            if matrix.shape[1] == 1:
                positive = matrix.astype(np.float64)
                scores = np.hstack([1.0 - positive, positive])
        return super().update(scores, y, sample_weight, named=named)

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        _check_number(self.n_rows + batch.n_rows)
        super().add(batch)

    def merge(self, other: Mergeable) -> Self:
        """Add what another one has counted, of the same classes and options."""
        _check_number(self.n_rows + other.n_rows)
        return super().merge(other)


def _check_number(n_rows: int) -> None:
    if n_rows > MOST_TERMS:
        raise errors.ShapeError(
            f"exact sums hold {MOST_TERMS:,} rows, and there are {n_rows:,}; give equal rows as "
            "one of their total weight, or measure parts of them"
        )


class SomeCounts(RowStatistics):
    """Statistics of the ``counts`` that one metric asks for, described in plain values."""

    method = "counts"

    def _start(self) -> list[Part]:
        return [MeasuredRows(1, self.options["counts"])]


def read_chunks(y_true: Any, y_proba: Any, sample_weight: Any = None) -> Chunks | None:
    """Return chunks of what comes in chunks; None for what is in memory."""
    if is_dask(y_proba) and len(y_proba.shape) == 1:  # the positive class
        from calibrant.scale.dask import values

        y_proba = values(y_proba)[:, None]
    return as_chunks(y_proba, y_true, sample_weight, NAMED)


def known_classes(chunks: Chunks, classes: Any = None, pos_label: Any = None) -> NDArray[Any]:
    """Return the class of each column, told or by the rule of ``labels.check_labels``."""
    n_classes = max(2, chunks.n_classes)
    names = chunks.names if chunks.n_classes > 1 else None
    y = chunks.labels() if classes is None else classes
    _, known = check_labels(y, len(y), n_classes, classes=classes, names=names, named=NAMED)
    column_order(names, known, told=classes is not None, named=NAMED)
    return positive_last(known, chunks.n_classes, classes, pos_label, NAMED)


def counted(chunks: Chunks, empty: Own) -> Own:
    """Count all chunks."""
    found = chunks.count(empty)
    if found.n_rows == 0:
        raise errors.ShapeError("no chunk has a row with a weight; at least one is needed")
    return found


def count(
    chunks: Chunks, told: dict[str, Any], start: Callable[[NDArray[Any]], dict[str, Counts]]
) -> dict[str, Any]:
    """Let ``start``, which takes the classes, say what is counted of chunks; return it counted.

    ``told`` is what the caller said of the classes: ``classes`` and ``pos_label``.
    """
    known = known_classes(chunks, **told)
    empty = SomeCounts(known, counts=describe(start(known)))
    return dict(counted(chunks, empty).rows.counts)


def measure(
    start: Callable[[NDArray[Any]], Measure],
    y_true: Any,
    y_proba: Any,
    sample_weight: Any = None,
    *,
    in_memory: Callable[[Predictions], float] | None = None,
    **told: Any,
) -> float:
    """Return a metric of arrays, or of chunks of them.

    ``start`` takes the classes. Sums over rows are the same for both; where a metric needs all rows
    at once, ``in_memory`` computes it of arrays. ``told`` is as in ``count``.
    """
    chunks = read_chunks(y_true, y_proba, sample_weight)
    if chunks is not None:
        found = count(chunks, told, lambda known: {"metric": start(known)})
        return float(found["metric"].value())
    predictions = read_predictions(y_true, y_proba, sample_weight, **told)
    if in_memory is not None:
        return in_memory(predictions)
    summed: Any = start(predictions.classes)
    return predictions.measure(summed)[0]
