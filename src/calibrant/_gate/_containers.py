"""Read a matrix out of whatever holds one: arrays, lists, data frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._gate._one_column import ONE_COLUMN, how_to_pass

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONLY_SCORES = "pass the scores alone here, and the labels as another argument"


def library(container: Any) -> str:
    """Return the name of the package that a container is of."""
    return type(container).__module__.partition(".")[0]


@dataclass(frozen=True, slots=True, eq=False)
class NamedMatrix:
    """A matrix with names of its columns, where no library of data frames is needed."""

    values: NDArray[Any]
    columns: list[str]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is None:  # numpy 1 knows yes and no alone
            return np.asarray(self.values, dtype=dtype)
        return np.array(self.values, dtype=dtype, copy=copy)


def column_names(scores: Any) -> list[Any] | None:
    """Names of the columns of a data frame or ``NamedMatrix``; None for anything else."""
    if isinstance(scores, NamedMatrix):
        return scores.columns
    home = library(scores)
    is_frame = home in {"pandas", "dask"} or (home == "polars" and hasattr(scores, "to_numpy"))
    names = getattr(scores, "columns" if is_frame else "column_names", None)
    return list(names) if names is not None and (is_frame or home == "pyarrow") else None


def is_single_column(scores: Any) -> bool:
    """Whether scores are one number for each row, as a vector or a single column."""
    try:
        shape = np.shape(scores)
    except ValueError:  # rows of different lengths: ``to_matrix`` says so
        return False
    return len(shape) == 1 or shape[1:] == (1,)


def single_name(scores: Any) -> Any:
    """Name of a series, or of the only column of a data frame, if it has one."""
    names = column_names(scores)
    if names is None:
        return getattr(scores, "name", None) if library(scores) in {"pandas", "polars"} else None
    return names[0] if len(names) == 1 else None


def fitted_names(scores: Any, kind: str) -> list[Any] | None:
    """Names of the columns that a fit keeps, that of a single one included."""
    if kind not in ONE_COLUMN:
        return column_names(scores)
    name = single_name(scores)
    return None if name is None else [name]


def to_matrix(scores: Any, kind: str = "probabilities") -> NDArray[Any]:
    """Return a two-dimensional real array, of any dtype and order; no copy if it is one.

    Scores of one number for each row are a column, also where they are given as a vector.
    """
    array = _to_array(scores)
    name = errors.names().scores
    if array.dtype.kind == "c":
        problem = f"Complex data not supported: {name} has dtype {array.dtype}"
        raise errors.ContainerError(problem, remedy="pass real numbers")
    if array.dtype.kind == "O":
        array = _from_objects(array)
    elif array.dtype.kind not in "fiub":
        remedy = "pass numbers, one column per class"
        remedy += f"; pass {name}.astype(np.float32)" if _is_bfloat16(array) else ""
        raise errors.ContainerError(f"{name} has dtype {array.dtype}", remedy=remedy)
    if kind in ONE_COLUMN:
        return _one_column(array, kind)
    if array.ndim != 2:
        raise errors.ShapeError(
            f"{name} has shape {array.shape}",
            remedy="pass one row per sample and one column per class. Expected 2D array, got "
            f"{array.ndim}D array instead. Reshape your data: {_reshaped(array, kind)}",
        )
    if array.shape[1] == 0:
        raise errors.ShapeError(
            f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required: no columns"
        )
    return array


def _one_column(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return one number for each row as a column."""
    if array.ndim == 1:
        return array[:, None]
    if array.ndim != 2 or array.shape[1] != 1:
        two = f"pass column 1 alone, or use scores={ONE_COLUMN[kind]!r}"
        raise errors.ShapeError(
            f"{errors.names().scores} has shape {array.shape}; scores={kind!r} needs one number "
            f"per row, as a vector or a single column{f': {two}' if array.ndim == 2 else ''}"
        )
    return array


def _reshaped(array: NDArray[Any], kind: str) -> str:
    """Say how to make a matrix of what is none: every pixel of an image is a row."""
    if array.ndim < 3:
        return how_to_pass(kind)
    name, y = errors.names().scores, errors.names().y
    return (
        f"with the {array.shape[1]} classes second, as in (N, C, H, W), pass "
        f"np.moveaxis(np.asarray({name}), 1, -1).reshape(-1, {array.shape[1]}), one row per "
        f"pixel; with the {array.shape[-1]} classes last, pass np.asarray({name}).reshape(-1, "
        f"{array.shape[-1]}); the labels are np.asarray({y}).ravel()"
    )


def output_dtype(scores: Any) -> np.dtype[Any]:
    """Float32 for results on float32 and float16 input, else float64."""
    if isinstance(scores, np.ndarray):  # at once: what follows takes longer than to map a row
        is_narrow = scores.dtype.kind == "f" and scores.dtype.itemsize <= 4
        return np.dtype(np.float32 if is_narrow else np.float64)
    dtypes: Any = [getattr(scores, "dtype", np.dtype(np.float64))]
    if library(scores) == "pyarrow" and hasattr(scores, "schema"):
        dtypes = scores.schema.types
    elif library(scores) in {"pandas", "polars", "dask"} and not hasattr(scores, "dtype"):
        dtypes = getattr(scores, "dtypes", dtypes)
    dtypes = [getattr(dtype, "subtype", dtype) for dtype in dtypes]  # of sparse columns of pandas
    narrow = all(
        str(dtype).rpartition(".")[2].lower() in {"float32", "float16", "float", "halffloat"}
        or (getattr(dtype, "kind", "") == "f" and dtype.itemsize <= 4)
        for dtype in dtypes
    )
    return np.dtype(np.float32 if narrow else np.float64)


def _to_array(scores: Any) -> NDArray[Any]:
    home, name = library(scores), errors.names().scores
    if home == "scipy" and hasattr(scores, "toarray"):
        raise errors.ContainerError(
            f"Sparse data was passed as {name}", remedy=f"use {name}.toarray()"
        )
    if isinstance(scores, np.ma.MaskedArray):
        if np.ma.is_masked(scores):
            row, *rest = map(int, np.argwhere(np.ma.getmaskarray(scores))[0])
            column = rest[0] if rest else None
            remedy = "fill it or drop its row"
            raise errors.DataError("is masked", row=row, column=column, remedy=remedy)
        return scores.data
    if home == "dask":
        raise errors.ContainerError(f"{name} is a dask collection", remedy=f"pass {name}.compute()")
    if home == "pandas":
        return _from_pandas(scores)
    if home == "polars":
        if not hasattr(scores, "to_numpy"):
            raise errors.ContainerError(f"{name} is a lazy frame", remedy=f"pass {name}.collect()")
        return np.asarray(scores.to_numpy())
    if home == "pyarrow":
        columns = getattr(scores, "columns", None)
        if columns is None:
            return np.asarray(scores)
        try:
            return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
        except (TypeError, ValueError) as error:
            raise errors.ContainerError(
                f"{name} has columns that are not numbers: {error}", remedy=ONLY_SCORES
            ) from error
    if home == "torch":
        if _is_bfloat16(scores):
            raise errors.ContainerError(
                f"{name} is a bfloat16 tensor, a type that numpy does not have",
                remedy=f"pass {name}.float(). bfloat16 has three digits, so rows of probabilities "
                "may not sum to 1: pass logits if you can",
            )
        scores = scores.detach()
    elif not (hasattr(scores, "__array__") or isinstance(scores, list | tuple)):
        raise errors.ContainerError(
            f"{name} is a {type(scores).__name__}",
            remedy="pass an array, a data frame or a list of rows",
        )
    try:
        array = np.asarray(scores)
    except TypeError as error:
        raise errors.ContainerError(f"{name} cannot be read as an array: {error}") from error
    except ValueError as error:
        raise errors.ShapeError(f"{name} has rows of different lengths: {error}") from error
    return array


def _is_bfloat16(scores: Any) -> bool:
    """Whether cells are of the type that networks compute with and numpy does not know."""
    return str(scores.dtype).rpartition(".")[2] == "bfloat16"


def _from_pandas(frame: Any) -> NDArray[Any]:
    name = errors.names().scores
    try:
        array = frame.to_numpy()
        if array.dtype.kind == "O":  # nullable and categorical columns
            array = frame.astype(np.float64).to_numpy()
    except (TypeError, ValueError) as error:
        if "NA" in str(error) or "missing" in str(error):
            row, *column = map(int, np.argwhere(frame.isna().to_numpy())[0])
            raise errors.NonFiniteError(
                f"is missing: Input {name} contains NaN",
                row=row,
                column=column[0] if column else None,
                remedy="fill it or drop the row",
            ) from error
        raise errors.ContainerError(
            f"{name} has columns that are not numbers: {error}", remedy=ONLY_SCORES
        ) from error
    return np.asarray(array)


def _from_objects(array: NDArray[Any]) -> NDArray[Any]:
    out = np.empty(array.shape)
    for place, value in np.ndenumerate(array):
        try:
            if isinstance(value, str | bytes | complex):
                raise TypeError(f"it is {type(value).__name__}")  # noqa: TRY301
            out[place] = np.nan if value is None else value
        except (TypeError, ValueError) as error:
            row, *column = place
            # The last words are scikit-learn's, whose checks of estimators look for them.
            raise errors.ContainerError(
                f"no real number; argument must be a string or a number: {error}",
                row=row,
                column=column[0] if column else None,
                value=value,
            ) from error
    return out
