"""Dask arrays and data frames: sampled chunk by chunk, calibrated lazily.

Chunks are read and counted by Dask, wherever its workers are, and merged in the order of chunks.
"""

from __future__ import annotations

import copy
import math
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from calibrant import _extras as extras
from calibrant import errors
from calibrant._bad_rows import ON_BAD_ROW, predict_chunk, to_send
from calibrant._gate import NamedMatrix, check_option, column_names
from calibrant.scale import Chunks, count_each, located

try:
    import dask
    import dask.array as da
    import pandas as pd
except ImportError as error:
    raise extras.needed(error, "calibrant.scale.dask", "dask") from error

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeGuard

    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame, Series
    from dask.delayed import Delayed

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Array, Label, Labels

__all__ = ["predict_proba"]

T = TypeVar("T")

FAN_IN = 2
"""Results that a task merges at once: samples are large, and the task holds all of these."""

LABEL, WEIGHT = "calibrant: label", "calibrant: weight"
"""Columns that are put beside those of the scores."""


class DaskChunks(Chunks):
    """Scores, labels and weights, of which one at least is a Dask collection.

    Rows are chunked alike in all of them; a chunk has all classes.
    """

    def __init__(self, scores: object, y: object, sample_weight: object = None) -> None:
        scores = scores.to_frame() if _is_frame(scores) and len(scores.shape) == 1 else scores
        matrix = to_array(scores)
        if y is None:
            raise errors.LabelError("y is None; pass the labels of the rows")
        self.names = column_names(scores)
        self.n_columns = int(matrix.shape[1])
        others = {LABEL: y} | ({} if sample_weight is None else {WEIGHT: sample_weight})
        if _is_frame(scores) and all(map(_is_frame, others.values())):
            # One frame, which is read once: of two, Dask may cut one into other chunks.
            parts = scores.assign(**others).to_delayed()
            self._scores = [dask.delayed(_take)(part, scores.columns) for part in parts]
            self._y = [part[LABEL] for part in parts]
            self._weight = [dask.delayed(_take)(part, WEIGHT) for part in parts]
        else:
            self._scores = [*matrix.to_delayed().ravel()]
            self._y = _split_as(matrix, y, "y")
            if sample_weight is not None:
                self._weight = _split_as(matrix, sample_weight, "sample_weight")
        if sample_weight is None:
            self._weight = [None] * len(self._scores)

    @cached_property
    def _counts(self) -> Counter[Label]:
        """The number of rows of each label; no score is read for it."""
        parts = enumerate(zip(self._y, self._weight, strict=True))
        return _merged([dask.delayed(_count_labels)(number, *part) for number, part in parts], add)

    def count_labels(self) -> Counter[Label]:
        """Return the number of rows of each label."""
        return self._counts

    def reduce(self, count: Callable[..., T], merge: Callable[[T, T], T]) -> T:
        """Count every chunk where it is, and merge a few neighbours at a time."""
        sent = dask.delayed(count, traverse=False)
        parts = enumerate(zip(self._scores, self._y, self._weight, strict=True))
        columns = self.names or self.n_columns
        counted = [dask.delayed(_count)(sent, columns, number, *part) for number, part in parts]
        return _merged(counted, merge)


def _split_as(matrix: DaskArray, values: object, name: str) -> list[Delayed]:
    """Return the chunks of labels or weights, as those of the scores are."""
    sizes = matrix.chunks[0]
    is_known = not any(map(math.isnan, sizes))
    array: DaskArray | Series = values
    if not (_is_frame(values) or isinstance(values, da.Array)):
        if not is_known:
            raise errors.ShapeError(
                f"scores has chunks of unknown sizes, so {name} cannot be split in the same way; "
                f"call scores.compute_chunk_sizes(), or pass {name} from the same collection"
            )
        array = da.from_array(np.asarray(values), chunks=-1)
    if isinstance(array, da.Array) and is_known and not any(map(math.isnan, array.chunks[0])):
        if array.shape[0] != matrix.shape[0]:
            raise errors.ShapeError(
                f"{name} has {array.shape[0]} rows but scores has {matrix.shape[0]}; pass one "
                "entry per row (inconsistent numbers of samples)"
            )
        array = array.rechunk({0: sizes, **dict.fromkeys(range(1, array.ndim), -1)})
    parts: list[Delayed] = _partitions(array) if _is_frame(array) else [*array.to_delayed().ravel()]
    if len(parts) != matrix.numblocks[0]:
        raise errors.ShapeError(
            f"{name} has {len(parts)} chunks and scores has {matrix.numblocks[0]}, some of unknown "
            "sizes; make both from one collection, or call compute_chunk_sizes() on both as arrays"
        )
    return parts


def _merged(parts: Sequence[Delayed], merge: Callable[[T, T], T]) -> T:
    """Compute delayed results, and merge a few neighbours at a time, in their order."""

    def merge_some(some: Sequence[T]) -> T:
        # A task keeps what it was given, and merging may change the first: that is copied.
        return reduce(merge, some[1:], copy.copy(some[0]))

    level, merging = list(parts), dask.delayed(merge_some)
    while len(level) > 1:
        level = [merging(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    result: T = dask.compute(level[0])[0]
    return result


def _count_labels(number: int, y: Labels, weight: object) -> Counter[Label]:
    with located(f"chunk {number}"):
        return count_each(None, y, weight)


def _count(
    count: Callable[..., T],
    columns: Sequence[object] | int,
    number: int,
    scores: Array,
    y: Labels,
    weight: Array | None,
) -> T:
    """Count a chunk, given the names of the columns or their number."""
    with located(f"chunk {number}"):
        if isinstance(columns, list):
            return count(NamedMatrix(np.asarray(scores), columns), y, weight)
        if scores.shape[1] != columns:  # Dask does not check the shapes of chunks
            raise errors.ShapeError(f"scores has {scores.shape[1]} columns, but needs {columns}")
        return count(scores, y, weight)


def _is_frame(given: object) -> TypeGuard[DataFrame | Series]:
    """Whether something is a data frame or a series of Dask's."""
    return hasattr(given, "npartitions") and not isinstance(given, da.Array)


def _partitions(frame: DataFrame | Series) -> list[Delayed]:
    """Return the partitions of a frame as it has them.

    Dask reads several at once where few of the columns are asked for: a frame's scores and its
    labels, or what was calibrated of it, would be cut in two ways.
    """
    simple = frame.simplify() if hasattr(frame, "simplify") else frame  # no other column is read
    parts: list[Delayed] = simple.to_delayed(optimize_graph=False)
    return parts


def _take(part: pd.DataFrame, columns: object = None) -> Array:
    """Return columns of a partition, without their index."""
    values: Array = (part if columns is None else part[columns]).to_numpy()
    return values


def to_array(scores: object) -> DaskArray:
    """Return a Dask array with all classes in a chunk."""
    matrix = scores
    if _is_frame(scores):  # a chunk for each partition
        dtype, shape = scores._meta.to_numpy().dtype, (math.nan, *scores.shape[1:])  # noqa: SLF001
        taken = map(dask.delayed(_take), _partitions(scores))
        chunks = [da.from_delayed(part, shape, dtype) for part in taken]
        matrix = da.concatenate(chunks, allow_unknown_chunksizes=True)
    if not isinstance(matrix, da.Array):
        raise errors.ContainerError(
            f"scores is a {type(scores).__name__}, but the labels are a Dask collection; call "
            "compute() on the labels, or make scores one with dask.array.from_array"
        )
    if matrix.ndim == 1:  # of the positive class of two
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise errors.ShapeError(
            f"scores has {matrix.ndim} dimensions; pass one row per sample and one column per class"
        )
    if matrix.numblocks[1] != 1:
        raise errors.ShapeError(
            f"scores has its columns in {matrix.numblocks[1]} chunks; a chunk needs all classes: "
            "scores.rechunk({1: -1})"
        )
    if math.isnan(matrix.shape[1]):
        raise errors.ShapeError(
            "scores has an unknown number of columns; call scores.compute_chunk_sizes()"
        )
    return matrix


def predict_proba(
    calibrator: Calibrator, scores: DaskArray | DataFrame, *, on_bad_row: str = "raise"
) -> DaskArray | DataFrame:
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
        One chunk for each chunk of the scores. The prediction of a data frame is a data frame with
        the same index, and a column for each class, named as the class.

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
    sent = to_send(calibrator)
    return map_rows(sent, "predict_proba", scores, dtype, lazy.shape[1], on_bad_row)


def map_rows(
    calibrator: Calibrator,
    method: str,
    scores: object,
    dtype: np.dtype[np.generic],
    n_columns: int | None,
    on_bad_row: str = "raise",
) -> DaskArray | DataFrame:
    """Return the lazy result of a method that takes rows, one chunk for each of the scores.

    Probabilities of a data frame are one: its columns are those of the scores, in another order.
    """
    if _is_frame(scores) and n_columns is not None:
        classes = calibrator.get_feature_names_out()
        empty = pd.DataFrame(np.empty((0, n_columns), dtype), scores._meta.index, classes)  # noqa: SLF001
        return scores.map_partitions(
            _apply_to_frame, calibrator, method, classes, on_bad_row, meta=empty
        )
    matrix, names = to_array(scores), column_names(scores)
    sizes = tuple(math.nan if on_bad_row == "skip" else size for size in matrix.chunks[0])
    return matrix.map_blocks(
        _apply,
        calibrator,
        method,
        names,
        on_bad_row,
        drop_axis=1 if n_columns is None else None,
        chunks=None if n_columns is None else (sizes, (n_columns,)),
        meta=np.empty((0,) if n_columns is None else (0, n_columns), dtype=dtype),
    )


def _apply(
    block: Array,
    calibrator: Calibrator,
    method: str,
    names: list[Label] | None,
    on_bad_row: str,
    block_id: tuple[int, ...] = (0,),
) -> Array:
    """Calibrate a chunk of an array."""
    with located(f"chunk {block_id[0]}"):
        return predict_chunk(calibrator, method, block, names, on_bad_row)[0]


def _apply_to_frame(
    part: pd.DataFrame | pd.Series,
    calibrator: Calibrator,
    method: str,
    classes: Labels,
    on_bad_row: str,
    partition_info: Mapping[str, object] | None = None,
) -> pd.DataFrame:
    """Calibrate a partition of a data frame, or of a series."""
    names = column_names(part) if part.ndim == 2 else None
    block = part.to_numpy() if part.ndim == 2 else part.to_numpy()[:, None]
    with located(f"chunk {partition_info['number'] if partition_info else 0}"):
        rows, good = predict_chunk(calibrator, method, block, names, on_bad_row)
    index = part.index[good] if len(rows) < len(part) else part.index
    return pd.DataFrame(rows, index, classes)


def __dir__() -> list[str]:
    return __all__
