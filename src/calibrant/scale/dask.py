"""Dask arrays and data frames: sampled chunk by chunk, calibrated lazily.

Chunks are read and counted by Dask, wherever its workers are, and merged in the order of chunks.
"""

from __future__ import annotations

import copy
import math
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _extras as extras
from calibrant import errors
from calibrant._containers import NamedMatrix, column_names
from calibrant._simplex import check_option
from calibrant.scale._bad_rows import ON_BAD_ROW, predict_chunk, to_send
from calibrant.scale._chunks import Chunks, chunk_named, distinct, merge_tree, union

try:
    import dask
    import dask.array as da
    import pandas as pd
except ImportError as error:
    raise extras.needed(error, "calibrant.scale.dask", "dask") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["predict_proba"]

T = TypeVar("T")

LABEL, WEIGHT = "calibrant: label", "calibrant: weight"
"""Columns that are put beside those of the scores."""


class DaskChunks(Chunks):
    """Scores, labels and weights, of which one at least is a Dask collection.

    Rows are chunked alike in all of them; a chunk has all classes.
    """

    def __init__(self, scores: Any, y: Any, sample_weight: Any = None) -> None:
        scores = scores.to_frame() if _is_frame(scores) and len(scores.shape) == 1 else scores
        matrix = to_array(scores)
        if y is None:
            raise errors.LabelError("y is None; pass the labels of the rows")
        self.names = column_names(scores)
        self.n_columns = int(matrix.shape[1])
        others = {LABEL: y} | ({} if sample_weight is None else {WEIGHT: sample_weight})
        if all(map(_is_frame, (scores, *others.values()))):
            # One frame, which is read once: of two, Dask may cut one into other chunks.
            parts = scores.assign(**others).to_delayed()
            self._first_rows: list[int | None] = [None] * len(parts)
            self._scores = [dask.delayed(_take)(part, scores.columns) for part in parts]
            self._y = [part[LABEL] for part in parts]
            self._weight = [dask.delayed(_take)(part, WEIGHT) for part in parts]
        else:
            self._scores = matrix.to_delayed().ravel()
            self._first_rows = _starts(matrix.chunks[0])
            self._y = self._parts(y, "y", matrix)
            if sample_weight is not None:
                self._weight = self._parts(sample_weight, "sample_weight", matrix)
        if sample_weight is None:
            self._weight = [None] * len(self._scores)

    def _parts(self, values: Any, name: str, matrix: Any) -> Any:
        """Return the chunks of labels or weights, as those of the scores are."""
        sizes = matrix.chunks[0]
        is_known = not any(map(math.isnan, sizes))
        if not (_is_frame(values) or isinstance(values, da.Array)):
            if not is_known:
                raise errors.ShapeError(
                    f"scores has chunks of unknown sizes, so {name} cannot be split in the same "
                    f"way; call scores.compute_chunk_sizes(), or pass {name} from the same "
                    "collection"
                )
            values = da.from_array(np.asarray(values), chunks=-1)
        if isinstance(values, da.Array) and is_known and not any(map(math.isnan, values.chunks[0])):
            if values.shape[0] != matrix.shape[0]:
                raise errors.ShapeError(
                    f"{name} has {values.shape[0]} rows but scores has {matrix.shape[0]}; pass one "
                    "entry per row (inconsistent numbers of samples)"
                )
            values = values.rechunk({0: sizes, **dict.fromkeys(range(1, values.ndim), -1)})
        parts = _partitions(values) if _is_frame(values) else values.to_delayed().ravel()
        if len(parts) != matrix.numblocks[0]:
            raise errors.ShapeError(
                f"{name} has {len(parts)} chunks and scores has {matrix.numblocks[0]}, some of "
                "unknown sizes; make both from one collection, or call compute_chunk_sizes() on "
                "both as arrays"
            )
        return parts

    def labels(self) -> NDArray[Any]:
        """Return the distinct labels; no score is read for them."""
        parts = enumerate(zip(self._y, self._weight, strict=True))
        found = [dask.delayed(_distinct)(number, *pair) for number, pair in parts]
        merge = dask.delayed(lambda own: reduce(union, own))
        merged: NDArray[Any] = dask.compute(merge_tree(found, merge, 16))[0]
        return merged

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk where it is, and merge a few neighbours at a time."""
        sent = dask.delayed(count, traverse=False)
        parts = zip(self._scores, self._y, self._weight, self._first_rows, strict=True)
        counted = [
            dask.delayed(_count)(sent, number, self.names, *part)
            for number, part in enumerate(parts)
        ]
        merged: T = dask.compute(merge_tree(counted, dask.delayed(_Merge(merge))))[0]
        return merged


class _Merge:
    """Merge a few results; a task keeps those it was given, so the first is started afresh."""

    def __init__(self, merge: Callable[[T, T], T]) -> None:
        self._merge = merge

    def __call__(self, parts: Sequence[Any]) -> Any:
        return reduce(self._merge, parts[1:], copy.copy(parts[0]))


def _place(number: int, first_row: int | None = None) -> str:
    return f"chunk {number}" + ("" if first_row is None else f" (rows from {first_row:,} on)")


def _distinct(number: int, y: Any, weight: Any) -> NDArray[Any]:
    with chunk_named(_place(number)):
        return distinct(y, weight)


def _count(
    count: Callable[..., T],
    number: int,
    names: list[Any] | None,
    scores: Any,
    y: Any,
    weight: Any,
    first_row: int | None,
) -> T:
    given = scores if names is None else NamedMatrix(np.asarray(scores), names)
    with chunk_named(_place(number, first_row)):
        return count(given, y, weight)


def _is_frame(given: Any) -> bool:
    """Whether something is a data frame or a series of Dask's."""
    return hasattr(given, "npartitions") and not isinstance(given, da.Array)


def _partitions(frame: Any) -> Any:
    """Return the partitions of a frame as it has them.

    Dask reads several at once where few of the columns are asked for: a frame's scores and its
    labels, or what was calibrated of it, would be cut in two ways.
    """
    simple = frame.simplify() if hasattr(frame, "simplify") else frame  # no other column is read
    return simple.to_delayed(optimize_graph=False)


def _take(part: Any, columns: Any = None) -> Any:
    """Columns of a partition, without their index."""
    return (part if columns is None else part[columns]).to_numpy()


def values(frame: Any) -> Any:
    """Return a Dask array of a data frame or a series, a chunk for each of its partitions."""
    if not _is_frame(frame):
        return frame
    dtype, shape = frame._meta.to_numpy().dtype, (math.nan, *frame.shape[1:])  # noqa: SLF001
    taken = map(dask.delayed(_take), _partitions(frame))
    chunks = [da.from_delayed(part, shape, dtype) for part in taken]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def to_array(scores: Any, name: str = "scores") -> Any:
    """Return a Dask array with all classes in a chunk."""
    matrix = values(scores)
    if isinstance(matrix, da.Array) and matrix.ndim == 1:  # of the positive class of two
        matrix = matrix[:, None]
    if not isinstance(matrix, da.Array):
        raise errors.ContainerError(
            f"{name} is a {type(scores).__name__}, but the labels are a Dask collection; call "
            f"compute() on the labels, or make {name} one with dask.array.from_array"
        )
    if matrix.ndim != 2:
        raise errors.ShapeError(
            f"{name} has {matrix.ndim} dimensions; pass one row per sample and one column per class"
        )
    if matrix.numblocks[1] != 1:
        raise errors.ShapeError(
            f"{name} has its columns in {matrix.numblocks[1]} chunks; a chunk needs all classes: "
            f"{name}.rechunk({{1: -1}})"
        )
    if math.isnan(matrix.shape[1]):
        raise errors.ShapeError(
            f"{name} has an unknown number of columns; call {name}.compute_chunk_sizes()"
        )
    return matrix


def _starts(sizes: Sequence[float]) -> list[int | None]:
    """First row of each chunk, as far as it is known."""
    starts = np.cumsum([0.0, *sizes[:-1]])
    return [None if math.isnan(start) else int(start) for start in starts]


def predict_proba(calibrator: Any, scores: Any, *, on_bad_row: str = "raise") -> Any:
    """Return calibrated probabilities lazily, with a choice for bad rows.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted one, as it is now.
    scores : Dask array or data frame
        Scores of the same kind as at ``fit``.
    on_bad_row : {"raise", "nan", "skip"}, default="raise"
        What to do with a row that cannot be calibrated: raise an error that names it, return NaN in
        every column, or drop it, so that chunks have unknown sizes.

    Returns
    -------
    probabilities : dask.array.Array or dask.dataframe.DataFrame
        One chunk for each chunk of the scores. Of a data frame it is one, with its index, and with
        a column for each class, named as the class.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.scale import dask as on_dask
    >>> scores, y = simulated_scores(500)
    >>> calibrator = TemperatureScaling().fit(scores, y)
    >>> scores = scores.copy()
    >>> scores[7, 1] = np.nan
    >>> lazy = on_dask.predict_proba(calibrator, da.from_array(scores), on_bad_row="nan")
    >>> np.flatnonzero(np.isnan(lazy.compute()).any(axis=1))
    array([7])
    """
    check_option("on_bad_row", on_bad_row, ON_BAD_ROW)
    lazy = calibrator.predict_proba(scores)  # checks names and columns at once
    if on_bad_row == "raise":
        return lazy
    dtype = lazy.dtypes.iloc[0] if _is_frame(lazy) else lazy.dtype
    about = scores, dtype, lazy.shape[1], on_bad_row
    return map_rows(to_send(calibrator), "predict_proba", *about)


def map_rows(
    calibrator: Any,
    method: str,
    scores: Any,
    dtype: Any,
    n_columns: int | None,
    on_bad_row: str = "raise",
) -> Any:
    """Return the lazy result of a method that takes rows, one chunk for each of the scores.

    Probabilities of a data frame are one: its columns are those of the scores, in another order.
    """
    if _is_frame(scores) and n_columns is not None:
        classes = calibrator.get_feature_names_out()
        empty = pd.DataFrame(np.empty((0, n_columns), dtype), scores._meta.index, classes)  # noqa: SLF001
        about = calibrator, method, classes, on_bad_row
        return scores.map_partitions(_apply_to_frame, *about, meta=empty)
    matrix, names = to_array(scores), column_names(scores)
    options: dict[str, Any] = {"dtype": dtype, "meta": np.empty((0,), dtype=dtype)}
    if n_columns is None:
        options["drop_axis"] = 1
    else:
        sizes = matrix.chunks[0]
        sizes = (math.nan,) * len(sizes) if on_bad_row == "skip" else sizes
        options["chunks"] = (sizes, (n_columns,))
        options["meta"] = np.empty((0, n_columns), dtype=dtype)
    return matrix.map_blocks(_apply, calibrator, method, names, on_bad_row, **options)


def _apply(
    block: NDArray[Any],
    calibrator: Any,
    method: str,
    names: list[Any] | None,
    on_bad_row: str,
    block_id: tuple[int, ...] = (0,),
) -> NDArray[Any]:
    with chunk_named(_place(block_id[0])):
        return predict_chunk(calibrator, method, block, names, on_bad_row)[0]


def _apply_to_frame(
    part: Any,
    calibrator: Any,
    method: str,
    classes: NDArray[Any],
    on_bad_row: str,
    partition_info: dict[str, Any] | None = None,
) -> Any:
    """Calibrate a partition of a data frame, or of a series."""
    names = column_names(part) if part.ndim == 2 else None
    block = part.to_numpy() if part.ndim == 2 else part.to_numpy()[:, None]
    with chunk_named(_place(partition_info["number"] if partition_info else 0)):
        found, good = predict_chunk(calibrator, method, block, names, on_bad_row)
    index = part.index[good] if len(found) < len(part) else part.index
    return pd.DataFrame(found, index, classes)


def __dir__() -> list[str]:
    return __all__
