"""Metrics of rows wherever they are: in memory, or in chunks that are counted and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from calibrant import errors
from calibrant._columns import column_order
from calibrant._containers import to_matrix
from calibrant._labels import check_labels
from calibrant.metrics._chunk import chunks_of
from calibrant.metrics._measures import Body
from calibrant.metrics._predictions import NAMED, Predictions, positive_last, read_predictions
from calibrant.scale._chunks import as_chunks, is_dask
from calibrant.scale._mergeable import Mergeable
from calibrant.scale._parts import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant._simplex import SimplexBatch
    from calibrant.metrics._measures import State
    from calibrant.scale._chunks import Chunks

    Bodies = Callable[[NDArray[Any]], dict[str, Body]]
    """What is added up, by name, for the classes of the columns."""

MOST_GROUPS = 1 << 10

Own = TypeVar("Own", bound="CountedRows")


class MeasuredRows(Part):
    """Sums of all rows for several metrics, by groups of rows where intervals are wanted.

    ``counts`` are, by any name, the ``name`` of a class of ``Body`` as "kind", and its settings.
    """

    name = "rows"

    def __init__(self, n_groups: int, counts: dict[str, dict[str, Any]]) -> None:
        if n_groups not in range(1, MOST_GROUPS + 1):
            raise ValueError(f"{n_groups} groups")
        self._n_groups, self._settings = n_groups, counts
        self.states: dict[str, Any] = {
            name: _body(**own).start(n_groups) for name, own in counts.items()
        }

    def settings(self) -> dict[str, Any]:
        """Return what makes an empty one."""
        return {"n_groups": self._n_groups, "counts": self._settings}

    def add(self, batch: SimplexBatch) -> None:
        """Count the rows of a checked chunk."""
        for chunk in chunks_of(batch):
            for state in self.states.values():
                state.add(chunk)
        for state in self.states.values():
            state.settle()

    def merge(self, other: Self) -> None:
        """Add what another one has counted."""
        for name, state in self.states.items():
            state.merge(other.states[name])

    def scale(self, factor: float) -> None:
        """Multiply the weight of every row counted so far."""
        for state in self.states.values():
            state.scale(factor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted."""
        return {
            f"{name}/{key}": array
            for name, state in self.states.items()
            for key, array in state.arrays().items()
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take what ``arrays`` returned."""
        for name, state in self.states.items():
            found = {k: a for k, a in arrays.items() if k.startswith(f"{name}/")}
            state.restore({k.rpartition("/")[2]: a for k, a in found.items()})


def _body(kind: str, **settings: Any) -> Body:
    return Body.registered[kind](**settings)


class CountedRows(Mergeable):
    """What metrics add up for rows, in chunks that may be added, merged and sent.

    Of its options, ``counts`` describes the bodies in plain values, and ``n_groups`` is how many
    groups rows are dealt to.
    """

    method = "counts"

    def _start(self) -> list[Part]:
        return [MeasuredRows(self.options["n_groups"], self._counts())]

    def _counts(self) -> dict[str, Any]:
        found: dict[str, Any] = self.options["counts"]
        return found

    @property
    def states(self) -> dict[str, Any]:
        """What was added up, by name."""
        part: Any = self.parts["rows"]
        found: dict[str, Any] = part.states
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

        Two classes may come as one column, the probability of the second.
        """
        if self.n_classes == 2 and self.scores == "probabilities":
            matrix = to_matrix(scores, self.scores, named)
            if matrix.shape[1] == 1:
                positive = matrix.astype(np.float64)
                scores = np.hstack([1.0 - positive, positive])
        return super().update(scores, y, sample_weight, named=named)


def describe(bodies: dict[str, Body]) -> dict[str, dict[str, Any]]:
    """Return what makes equal ones, in plain values."""
    return {
        name: {"kind": own.name}
        | {key: np.array(value).tolist() for key, value in own.settings.items()}
        for name, own in bodies.items()
    }


def read(
    y_true: Any, y_proba: Any, sample_weight: Any = None, classes: Any = None, pos_label: Any = None
) -> Predictions | tuple[Chunks, NDArray[Any]]:
    """Return predictions in memory, or chunks of them and the class of each column."""
    if isinstance(y_proba, Predictions):
        return y_proba
    if is_dask(y_proba) and len(y_proba.shape) == 1:  # the positive class
        from calibrant.scale.dask import values

        y_proba = values(y_proba)[:, None]
    chunks = as_chunks(y_proba, y_true, sample_weight, NAMED)
    if chunks is not None:
        return chunks, known_classes(chunks, classes, pos_label)
    return read_predictions(y_true, y_proba, sample_weight, classes, pos_label=pos_label)


def known_classes(chunks: Chunks, classes: Any = None, pos_label: Any = None) -> NDArray[Any]:
    """Return the class of each column, told or by the rule of ``_labels.check_labels``."""
    n_classes = max(2, chunks.n_classes)
    names = chunks.names if chunks.n_classes > 1 else None
    y = chunks.labels() if classes is None else classes
    _, known = check_labels(y, len(y), n_classes, classes=classes, names=names, named=NAMED)
    column_order(names, known, told=classes is not None, named=NAMED)
    return positive_last(known, chunks.n_classes, classes, pos_label, NAMED)


def classes_of(source: Predictions | tuple[Chunks, NDArray[Any]]) -> NDArray[Any]:
    """Return the class of each column of what ``read`` returned."""
    return source.classes if isinstance(source, Predictions) else source[1]


def counted(chunks: Chunks, empty: Own) -> Own:
    """Count all chunks."""
    found = chunks.count(empty)
    if found.n_rows == 0:
        raise errors.ShapeError("no chunk has a row with a weight; at least one is needed")
    return found


def add_up(
    source: Predictions | tuple[Chunks, NDArray[Any]], bodies: dict[str, Any]
) -> dict[str, Any]:
    """Return the sums of all rows, in memory or in chunks, for each body by its name."""
    if isinstance(source, Predictions):
        return dict(zip(bodies, source.add_up(bodies.values()), strict=True))
    chunks, classes = source
    return counted(chunks, CountedRows(classes, n_groups=1, counts=describe(bodies))).states


def measure(
    body: Body | Callable[[NDArray[Any]], Body],
    y_true: Any,
    y_proba: Any,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> float:
    """Return a metric of arrays, or of chunks of them.

    ``body`` adds it up, or takes the classes of the columns and returns what does.
    """
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    made = body if isinstance(body, Body) else body(classes_of(source))
    state: State = add_up(source, {"metric": made})["metric"]
    return state.value()
