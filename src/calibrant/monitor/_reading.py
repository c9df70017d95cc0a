"""Batches of a monitor, checked before anything of them is counted."""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._kernels.rows import row_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._types import Floats, Labels, Wholes


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
    """Checked rows; labels are columns."""

    p: Floats
    label: Wholes
    time: Floats | None
    key: NDArray[np.uint64]
    """Hash of the probabilities."""


def _check(
    classes: Labels | None, probabilities: Any, y: Any
) -> tuple[Floats, Wholes, NDArray[Any]]:
    """Return checked rows, the columns of their labels, and the classes."""
    # Two classes may be one column, or one number a row: the probability of the second.
    shape = np.shape(probabilities)
    kind = "positive" if len(shape) == 1 or shape[1:] == (1,) else "probabilities"
    with errors.naming(NAMED):
        batch = gate.check_batch(probabilities, y, kind=kind, classes=classes, is_chunk=True)
    return batch.scores, batch.class_index, batch.classes


def read_batch(
    classes: Labels | None, probabilities: object, y: object, time: object
) -> tuple[CheckedRows, NDArray[Any]]:
    """Check labelled rows; return them and the classes of the columns."""
    p, label, labels = _check(classes, probabilities, y)
    # The last digit of a cell is of how the sum of its row was rounded.
    cells = (HASHED_DIGITS * p + HASHED_OFFSET).astype(np.int64)
    key = row_hashes(cells, np.zeros(len(p), dtype=np.intp))
    rows = CheckedRows(p, label, None if time is None else _read_times(time, len(p)), key)
    return rows, check_classes(labels)


def read_unlabelled(classes: Labels | None, probabilities: Any) -> Floats:
    """Check rows without labels; the columns are those of the classes, if these are known."""
    shape = np.shape(probabilities)
    if classes is None:
        classes = np.arange(max(2, *shape[1:]))
    y = np.repeat(classes[:1], shape[0] if shape else 1)  # any labels will do
    return _check(classes, probabilities, y)[0]


def check_classes(classes: Labels) -> Labels:
    """Refuse classes that a state cannot hold, before anything is counted."""
    try:
        json.dumps(classes.tolist())
    except TypeError as error:
        raise errors.LabelError(
            f"the class {classes[0]!s:.60} cannot be saved: a monitor needs text, numbers or "
            "booleans; convert labels and classes= to text"
        ) from error
    return classes


def _read_times(time: object, n_rows: int) -> Floats:
    """Return numbers as they are, and dates as numbers, of UTC if they have no zone."""
    stored = np.asarray(time)
    if stored.shape != (n_rows,):
        raise errors.ShapeError(
            f"time has shape {stored.shape}, but probabilities has {n_rows} rows; pass one number "
            "or date for each"
        )
    try:
        if stored.dtype.kind not in "iuf":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of numpy, about zones: it heeds them
                dates = stored.astype("datetime64[us]")
            stored = np.where(np.isnat(dates), np.nan, dates.astype(np.int64))
    except (TypeError, ValueError) as error:
        raise errors.DataError(
            f"time has values that are neither numbers nor dates ({error}); pass numbers, "
            "datetimes, or text such as 2026-01-31T12:00"
        ) from error
    if not np.isfinite(stored).all():
        bad = int(np.argmin(np.isfinite(stored)))
        raise errors.NonFiniteError(
            f"time[{bad}] is missing; pass a time for every row, or leave time out"
        )
    return stored.astype(np.float64)


def in_counting_order(rows: CheckedRows) -> tuple[Floats, Wholes]:
    """Return rows and labels by their times, by a hash of the rows where these are equal.

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
    return rows.p[order], rows.label[order]


def batch_digests(rows: CheckedRows, batch: str | None) -> list[str]:
    """Return digests that a batch is known by: of its name, and of its rows in any order."""
    contents = [] if batch is None else [b"name" + batch.encode()]
    hashes, kind = rows.key + rows.label.astype(np.uint64), b"rows"
    if rows.time is not None:
        moments = np.column_stack([hashes.view(np.int64), rows.time.view(np.int64)])
        hashes, kind = row_hashes(moments, np.zeros(len(hashes), dtype=np.intp)), b"time"
    if len(np.unique(hashes)) >= FEWEST_KINDS:
        contents.append(kind + np.sort(hashes).tobytes())
    return [hashlib.blake2b(content, digest_size=8).hexdigest() for content in contents]
