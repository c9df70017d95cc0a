"""Batches of a monitor, checked before anything of them is counted."""

from __future__ import annotations

import base64
import hashlib
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._gate import (
    ONE_COLUMN,
    check_positive,
    check_weights,
    column_names,
    column_order,
    single_name,
)
from calibrant._kernels.rows import row_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats

MOST_BATCHES = 2048
"""Number of batches that are remembered."""
DIGEST_BYTES = 6
"""Two of 6,144 digests are equal by chance once in 15 million monitors."""
FEWEST_KINDS = 30
"""Distinct rows that tell a batch from others: of m rows each, another batch has as many of each
with a chance of about (2 pi m)^-15; with fewer kinds, two batches may be equal by chance."""
HASHED_DIGITS, HASHED_OFFSET = 1e9, 0.3819660112501051
"""Rows are hashed by these digits; the offset keeps simple fractions from where they jump."""


class Named(errors.Arguments):
    """Names of the arguments of a monitor in messages."""

    scores = "probabilities"
    if_logits = "a monitor needs the probabilities that were served, after calibration"
    if_untold = "pass classes= with the label of each column to CalibrationMonitor"


NAMED = Named()


class CheckedRows(NamedTuple):
    """Checked rows; labels are columns, and there is no weight of zero."""

    p: Floats
    label: NDArray[np.int64]
    weight: Floats
    groups: NDArray[Any] | None
    time: Floats | None
    key: NDArray[np.uint64]
    """Hash of the probabilities."""


def _kind(probabilities: Any) -> str:
    """Two classes may be one column, or one number a row: the probability of the second."""
    shape = np.shape(probabilities)
    return "positive" if len(shape) == 1 or shape[1:] == (1,) else "probabilities"


def read_rows(
    classes: NDArray[Any] | None, probabilities: Any, y: Any, time: Any, weight: Any, groups: Any
) -> tuple[CheckedRows, NDArray[Any]]:
    """Check labelled rows; return them and the classes of the columns."""
    batch = gate.check_batch(
        probabilities,
        y,
        weight,
        kind=_kind(probabilities),
        classes=classes,
        is_chunk=True,
        named=NAMED,
    )
    n_rows = batch.n_rows if weight is None else np.size(weight)
    with errors.naming(NAMED):
        given = check_weights(weight, n_rows)
    if given.max() > 1.0:
        i = int(given.argmax())
        raise errors.WeightError(
            f"sample_weight[{i}] is {given[i]}, but a monitor needs weights of at most 1, as "
            "counting a row twice adds no evidence; divide by the largest possible weight"
        )
    others = (_per_row(name, own, n_rows) for name, own in (("groups", groups), ("time", time)))
    kept: Any = (None if own is None else own[given > 0] for own in others)
    own = batch.scores, batch.class_index, batch.weight, *kept, _hash_rows(batch.scores)
    return CheckedRows(*own), check_classes(batch.classes) if classes is None else classes


def read_unlabelled(classes: NDArray[Any] | None, probabilities: Any, time: Any) -> CheckedRows:
    """Check rows without labels; the columns are those of the classes, if these are known."""
    p = gate.check_scores(probabilities, _kind(probabilities), named=NAMED)
    if len(p) == 0 or (classes is not None and p.shape[1] != len(classes)):
        n_classes = "any" if classes is None else len(classes)
        raise errors.ShapeError(
            f"probabilities has shape {p.shape}; pass at least one row, with {n_classes} classes"
        )
    order, kind = None, _kind(probabilities)
    if classes is not None and kind in ONE_COLUMN:
        check_positive(classes, single_name(probabilities), told=True, named=NAMED)
    elif classes is not None:
        order = column_order(column_names(probabilities), classes)
    p = p if order is None else np.take(p, order, axis=1)
    none = np.full(len(p), -1, dtype=np.intp)
    when = _per_row("time", time, len(p))
    return CheckedRows(p, none, np.ones(len(p)), None, when, _hash_rows(p))


def _hash_rows(p: Floats) -> NDArray[np.uint64]:
    """Hash the first digits of each row: the last one is of how its sum was rounded."""
    cells = (HASHED_DIGITS * p + HASHED_OFFSET).astype(np.int64)
    hashes: NDArray[np.uint64] = row_hashes(cells, np.zeros(len(p), dtype=np.intp))
    return hashes


def check_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Refuse classes that a state cannot hold, before anything is counted."""
    plain = str | bool | int | float | np.number | np.bool_
    wrong = [label for label in classes.ravel() if not isinstance(label, plain)]
    if wrong:
        raise errors.LabelError(
            f"the class {wrong[0]!r} is a {type(wrong[0]).__name__}, but a monitor needs text, "
            "numbers or booleans; convert labels and classes= to text"
        )
    return classes


def _per_row(name: str, values: Any, n_rows: int) -> NDArray[Any] | None:
    """Return groups as text, and times as numbers."""
    if values is None:
        return None
    stored = np.asarray(values)
    if stored.shape != (n_rows,) or (name == "time" and stored.dtype.kind not in "iufMOU"):
        raise errors.ShapeError(
            f"{name} has shape {stored.shape} and dtype {stored.dtype}, but probabilities has "
            f"{n_rows} rows; pass one {'number or date' if name == 'time' else 'group'} for each"
        )
    return stored.astype(str) if name == "groups" else _read_times(stored)


def _read_times(stored: NDArray[Any]) -> Floats:
    """Return numbers as they are, and dates as seconds since 1970, UTC if they have no zone."""
    try:
        times = _seconds(stored) if stored.dtype.kind == "M" else stored.astype(np.float64)
    except (TypeError, ValueError):  # text that is no number, or objects
        times = _read_dates(stored)
    if not np.isfinite(times).all():
        bad = int(np.argmin(np.isfinite(times)))
        raise errors.NonFiniteError(
            f"time[{bad}] is {stored[bad]}, not a time; pass a time for every row, or leave time "
            "out"
        )
    return times


def _read_dates(stored: NDArray[Any], first: int = 0) -> Floats:
    """Return dates as seconds; ``first`` is the row of the first one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of numpy, about zones: it heeds them
            return _seconds(stored.astype("datetime64[us]"))
    except (TypeError, ValueError) as error:
        for row in range(len(stored) if len(stored) > 1 else 0):
            _read_dates(stored[row : row + 1], row)  # raises the error that names the row
        raise errors.DataError(
            f"time[{first}] is {stored[0]!r}, which is neither a number nor a date; pass numbers, "
            "datetimes, or text such as 2026-01-31T12:00"
        ) from error


def _seconds(dates: NDArray[np.datetime64]) -> Floats:
    """Return seconds since 1970, NaN for missing dates."""
    micros = dates.astype("datetime64[us]")
    return np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 1e6)


def order_for_counting(rows: CheckedRows) -> CheckedRows:
    """Return the rows by their times, and by a hash of their probabilities where these are equal.

    Files are sorted by label, or by score, and bets would learn that order. One that does not
    depend on labels makes none of them predictable. Equal rows are shuffled by their number.
    """
    order = np.argsort(rows.key, kind="stable")
    is_first = np.append(True, np.diff(rows.key[order]) != 0)
    if not is_first.all():
        place, number = np.arange(len(order)), np.empty(len(order), dtype=np.int64)
        number[order] = place - np.maximum.accumulate(np.where(is_first, place, 0))
        numbered = np.column_stack([rows.key.view(np.int64), number])
        order = np.argsort(row_hashes(numbered, np.zeros_like(place)), kind="stable")
    if rows.time is not None:
        order = order[np.argsort(rows.time[order], kind="stable")]
    parts: Any = (None if part is None else np.take(part, order, axis=0) for part in rows)
    return CheckedRows(*parts)


def _digest(kind: str, data: bytes) -> str:
    """Return a digest as text that is short in a state."""
    digest = hashlib.blake2b(data, digest_size=DIGEST_BYTES, person=kind.encode()).digest()
    return base64.b64encode(digest).decode()


class Digests:
    """Digests of the last batches: of their names, and of their rows with their times."""

    KEPT: ClassVar[tuple[str, ...]] = ("known",)

    def __init__(self) -> None:
        self.known: dict[str, int] = {}  # and the number of the batch, the oldest first

    def add(self, rows: CheckedRows, batch: str | None, *, again: bool) -> None:
        """Remember a batch, or refuse one that was counted before."""
        digests = {}
        if batch is not None:
            kind = "unlabelled" if rows.label[0] < 0 else "labelled"
            digests[_digest(kind, batch.encode())] = f"in the batch {batch!r:.200}"
        hashes, kind = rows.key + rows.label.astype(np.uint64), "rows"
        if rows.time is not None:
            moments = np.column_stack([hashes.view(np.int64), rows.time.view(np.int64)])
            hashes, kind = row_hashes(moments, np.zeros(len(hashes), dtype=np.intp)), "time"
        if len(np.unique(hashes)) >= FEWEST_KINDS:
            digests[_digest(kind, np.sort(hashes).tobytes())] = "in whatever order"
        for digest, where in digests.items():
            if digest in self.known and not again:
                raise errors.RepeatedBatchError(
                    f"these {len(rows.p)} rows were counted before, {where}; a row counts once. If "
                    "they are new rows with equal values, pass time= with both batches, or "
                    "again=True"
                )
        number = 1 + next(reversed(self.known.values()), 0)
        for digest in digests:
            self.known.pop(digest, None)  # so that it is the last one
            self.known[digest] = number
        while self.known and next(iter(self.known.values())) <= number - MOST_BATCHES:
            del self.known[next(iter(self.known))]
