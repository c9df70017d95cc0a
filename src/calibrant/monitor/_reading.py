"""What a batch of a monitor holds, checked before anything of it is counted."""

from __future__ import annotations

import base64
import hashlib
import math
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._columns import column_order
from calibrant._containers import column_names, single_name
from calibrant._kernels.rows import row_hashes
from calibrant._labels import check_weights
from calibrant._one_column import ONE_COLUMN, check_positive
from calibrant.monitor._state import Bounds, require

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats

MOST_DIGESTS = 2048
LEAST_INFORMATION = 40.0
"""Nats that tell a batch from others: with fewer, two may be equal by chance."""
HASHED_DIGITS, HASHED_OFFSET = 1e9, 0.3819660112501051
"""Digits by which rows are told apart; the offset keeps simple fractions from where they jump."""


class Named(errors.Arguments):
    """How messages name the arguments of a monitor."""

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
    known: NDArray[Any] | None, probabilities: Any, y: Any, time: Any, weight: Any, groups: Any
) -> tuple[CheckedRows, NDArray[Any]]:
    """Check labelled rows; return them and the classes of the columns."""
    options: dict[str, Any] = {"kind": _kind(probabilities), "classes": known, "is_chunk": True}
    batch = simplex.check_batch(probabilities, y, weight, **options, named=NAMED)
    n_rows = batch.n_rows if weight is None else np.size(weight)
    given = check_weights(weight, n_rows, NAMED)
    if given.max() > 1.0:
        i = int(given.argmax())
        raise errors.WeightError(
            f"sample_weight[{i}] is {given[i]}, but a monitor needs weights of at most 1, as "
            "counting a row twice adds no evidence; divide by the largest possible weight"
        )
    others = (_per_row(name, own, n_rows) for name, own in (("groups", groups), ("time", time)))
    kept: Any = (None if own is None else own[given > 0] for own in others)
    own = batch.scores, batch.class_index, batch.weight, *kept, _hash_rows(batch.scores)
    return CheckedRows(*own), check_classes(batch.classes) if known is None else known


def read_unlabelled(known: NDArray[Any] | None, probabilities: Any, time: Any) -> CheckedRows:
    """Check rows without labels; the columns are those of the classes, if these are known."""
    p = simplex.check_scores(probabilities, _kind(probabilities), named=NAMED)
    if len(p) == 0 or (known is not None and p.shape[1] != len(known)):
        classes = "any" if known is None else len(known)
        raise errors.ShapeError(
            f"probabilities has shape {p.shape}; pass at least one row, with {classes} classes"
        )
    order, kind = None, _kind(probabilities)
    if known is not None and kind in ONE_COLUMN:
        check_positive(known, single_name(probabilities), told=True, named=NAMED)
    elif known is not None:
        order = column_order(column_names(probabilities), known)
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
    wrong = [own for own in classes.ravel() if not isinstance(own, plain)]
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
    found = np.asarray(values)
    if found.shape != (n_rows,) or (name == "time" and found.dtype.kind not in "iufMOU"):
        raise errors.ShapeError(
            f"{name} has shape {found.shape} and dtype {found.dtype}, but probabilities has "
            f"{n_rows} rows; pass one {'number or date' if name == 'time' else 'group'} for each"
        )
    return found.astype(str) if name == "groups" else _read_times(found)


def _read_times(found: NDArray[Any]) -> Floats:
    """Return numbers as they are, and dates as seconds since 1970, UTC if they have no zone."""
    try:
        times = _seconds(found) if found.dtype.kind == "M" else found.astype(np.float64)
    except (TypeError, ValueError):  # text that is no number, or objects
        times = _seconds(found)
    if times is None:
        i = next(i for i in range(len(found)) if _seconds(found[i : i + 1]) is None)
        raise errors.DataError(
            f"time[{i}] is {found[i]!r}, which is neither a number nor a date; pass numbers, "
            "datetimes, or text such as 2026-01-31T12:00"
        )
    if not np.isfinite(times).all():
        i = int(np.isfinite(times).argmin())
        raise errors.NonFiniteError(
            f"time[{i}] is {found[i]}, not a time; pass a time for every row, or leave time out"
        )
    return times


def _seconds(dates: NDArray[Any]) -> Floats | None:
    """Seconds since 1970, NaN for what is missing; None if some are no dates."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of numpy, about zones: it heeds them
            micros = dates.astype("datetime64[us]")
    except (TypeError, ValueError):
        return None
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
    parts: Any = (None if own is None else np.take(own, order, axis=0) for own in rows)
    return CheckedRows(*parts)


def _information(hashes: NDArray[np.uint64]) -> float:
    """Return how unlikely it is, in nats, that a batch drawn alike holds the same rows.

    Of a batch with few kinds of rows only their counts differ: this is minus the logarithm of the
    multinomial probability of the counts, with the shares that they have.
    """
    counts = np.unique(hashes, return_counts=True)[1].astype(np.float64)
    n_rows = float(len(hashes))
    if len(counts) == len(hashes):  # of fewer than n^2 / 6 kinds, two rows would be of one
        return n_rows * math.log(max(n_rows, n_rows**2 / 6.0)) - float(gammaln(n_rows + 1.0))
    chance = gammaln(n_rows + 1.0) - float(gammaln(counts + 1.0).sum())
    return -float(chance + counts @ np.log(counts / n_rows))


def _digest(data: bytes, size: int) -> str:
    """Return a digest as text that is short in a state."""
    return base64.b64encode(hashlib.blake2b(data, digest_size=size).digest()).decode().rstrip("=")


class Digests:
    """The last batches: the names of those that have one, and digests of rows and times."""

    KEPT: ClassVar[Bounds] = {"known": None, "named": None}

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}
        self.named: dict[str, int] = {}

    def check_state(self) -> None:
        """Refuse what are no digests."""
        for kept, size in ((self.known, 22), (self.named, 11)):
            is_digest = isinstance(kept, dict) and len(kept) <= MOST_DIGESTS
            require(is_digest and all(len(key) == size for key in kept), "digests are no such")
        times = self.known.values()
        are_times = all(isinstance(at, list) and {*map(type, at)} <= {str} for at in times)
        require(are_times, "digests of times are no text")
        require({*map(type, self.named.values())} <= {int}, "batches are not counted in numbers")

    def add(self, rows: CheckedRows, batch: str | None, *, again: bool) -> None:
        """Remember a batch, or refuse one that was counted before."""
        name = None
        if batch is not None:
            kind = "unlabelled" if rows.label[0] < 0 else "labelled"
            name = _digest(f"{kind} {batch}".encode(), 8)
            if name in self.named and not again:
                raise self._error(len(rows.p), f"in the batch {batch!r:.200}")
        hashes = rows.key + rows.label.astype(np.uint64)
        key, at, timed = _digest(np.sort(hashes).tobytes(), 16), "", hashes
        if rows.time is not None:
            moments = np.column_stack([hashes.view(np.int64), rows.time.view(np.int64)])
            timed = row_hashes(moments, np.zeros(len(hashes), dtype=np.intp))
            at = _digest(np.sort(timed).tobytes(), 8)
        before = self.known.get(key, [])
        # Equal rows at other times are others; at the same times, their times tell them, too.
        is_equal = at in before or (bool(before) and "" in (at, *before))
        is_told = _information(timed if at and at in before else hashes) >= LEAST_INFORMATION
        if is_equal and is_told and not again:
            raise self._error(len(rows.p), "in whatever order")
        if name is not None:
            self.named[name] = self.named.get(name, 0) + 1
        if max(_information(hashes), _information(timed)) >= LEAST_INFORMATION:
            self.known.pop(key, None)
            self.known[key] = [*before, *([] if at in before else [at])]
        for kept in (self.known, self.named):
            if len(kept) > MOST_DIGESTS:
                del kept[next(iter(kept))]

    @staticmethod
    def _error(n_rows: int, where: str) -> errors.RepeatedBatchError:
        return errors.RepeatedBatchError(
            f"these {n_rows} rows were counted before, {where}; a row counts once. If they are new "
            "rows with equal values, pass time= with both batches, or again=True"
        )
