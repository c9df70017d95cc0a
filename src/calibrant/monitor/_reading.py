"""What a batch of a monitor holds, checked before anything of it is counted."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._kernels.rows import row_hashes
from calibrant._labels import check_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats

MOST_DIGESTS = 2048
FEWEST_ROWS_REMEMBERED = 20
"""Smaller batches without a time are not remembered: equal rows are common."""


class Named(errors.Arguments):
    """How messages name the arguments of a monitor."""

    scores = "probabilities"
    if_logits = "a monitor takes what was served: probabilities, after calibration"
    if_untold = "pass classes= with the label of each column to CalibrationMonitor"


NAMED = Named()


class CheckedRows(NamedTuple):
    """Checked rows; labels are columns, and there is no weight of zero."""

    p: Floats
    label: NDArray[np.int64]
    weight: Floats | None
    groups: NDArray[Any] | None
    time: Floats | None


def read_rows(
    known: NDArray[Any] | None, probabilities: Any, y: Any, time: Any, weight: Any, groups: Any
) -> tuple[CheckedRows, NDArray[Any]]:
    """Check labelled rows; return them and the classes of the columns."""
    batch = simplex.check_batch(probabilities, y, weight, classes=known, is_chunk=True, named=NAMED)
    used: Any = slice(None)
    if weight is not None:
        given = check_weights(weight, len(np.asarray(weight)), NAMED)
        if given.max() > 1.0:
            i = int(given.argmax())
            raise errors.WeightError(
                f"sample_weight[{i}] is {given[i]}; weights of a monitor are at most 1: a row "
                "that counts twice is no evidence of two rows. Divide by the largest weight there "
                "can be"
            )
        used = given > 0
    n_rows = batch.n_rows if weight is None else len(used)
    names, moments = read_groups(groups, n_rows), read_times(time, n_rows)
    own = None if weight is None else batch.weight
    rows = CheckedRows(
        batch.scores,
        batch.class_index,
        own,
        None if names is None else names[used],
        None if moments is None else moments[used],
    )
    return rows, batch.classes


def read_groups(groups: Any, n_rows: int) -> NDArray[Any] | None:
    """Return the name of each row's group, as text."""
    if groups is None:
        return None
    found = np.asarray(groups)
    if found.shape != (n_rows,):
        raise errors.ShapeError(
            f"groups has shape {found.shape}, but probabilities has {n_rows} rows; pass one group "
            "for each"
        )
    return found.astype(str)


def read_times(time: Any, n_rows: int) -> Floats | None:
    """Return numbers for times; dates are seconds since 1970."""
    if time is None:
        return None
    found = np.asarray(time)
    if found.dtype.kind in "OU":
        found = found.astype("datetime64[us]")
    if found.dtype.kind == "M":
        found = found.astype("datetime64[us]").astype(np.int64) / 1e6
    if found.shape != (n_rows,) or found.dtype.kind not in "iuf":
        raise errors.ShapeError(
            f"time has shape {found.shape} and dtype {found.dtype}; a number or a date for each of "
            f"{n_rows} rows is needed"
        )
    return found.astype(np.float64)


class Digests:
    """Digests of the last batches, so that none is counted twice."""

    def __init__(self, known: list[str] | None = None) -> None:
        self._known = dict.fromkeys(known or [])

    def __iter__(self) -> Any:
        return iter(self._known)

    def add(self, rows: CheckedRows) -> None:
        """Remember a batch, or refuse one that was counted before."""
        if len(rows.p) < FEWEST_ROWS_REMEMBERED and rows.time is None:
            return
        digest = hashlib.blake2b(row_hashes(rows.p.view(np.int64), rows.label), digest_size=16)
        for part in rows[2:]:
            digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
        key = digest.hexdigest()
        if key in self._known:
            raise errors.RepeatedBatchError(
                f"these {len(rows.p)} rows were counted before, all of them and in this order; a "
                "row counts once. If they came twice indeed, pass time="
            )
        self._known[key] = None
        if len(self._known) > MOST_DIGESTS:
            del self._known[next(iter(self._known))]
