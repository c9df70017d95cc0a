"""Read a matrix out of whatever holds one: arrays, lists, data frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._gate._columns import how_to_pass, is_single, two_column_kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


def library(container: object) -> str:
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


def column_names(scores: object) -> list[Any] | None:
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


def single_name(scores: object) -> Any:
    """Name of a series, or of the only column of a data frame, if it has one."""
    names = column_names(scores)
    if names is None:
        return getattr(scores, "name", None) if library(scores) in {"pandas", "polars"} else None
    return names[0] if len(names) == 1 else None


def fitted_names(scores: object, kind: str) -> list[Any] | None:
    """Names of the columns that a fit keeps, that of a single one included."""
    if not is_single(kind):
        return column_names(scores)
    name = single_name(scores)
    return None if name is None else [name]


def to_matrix(scores: object, kind: str = "probabilities") -> NDArray[Any]:
    """Return a two-dimensional real array, of any dtype and order; no copy if it is one.

    Scores of one number for each row are a column, also where they are given as a vector.
    """
    array, name = _to_array(scores), errors.names().scores
    if array.dtype.kind not in "fiub":
        # The first words are scikit-learn's, whose checks of estimators look for them.
        problem = "Complex data not supported: " if array.dtype.kind == "c" else ""
        raise errors.ContainerError(
            f"{problem}{name} has dtype {array.dtype}",
            remedy="pass real numbers, float32 or float64, one column per class",
        )
    if is_single(kind):
        return _one_column(array, kind)
    if array.ndim != 2:
        remedy = how_to_pass(kind)
        if array.ndim > 2:
            remedy = (
                f"make a row of each pixel: np.moveaxis(np.asarray({name}), 1, -1).reshape(-1, "
                f"{array.shape[1]}) if the second dimension is the classes, as in (N, C, H, W)"
            )
        raise errors.ShapeError(
            f"{name} has shape {array.shape}",
            remedy="pass one row per sample and one column per class. Expected 2D array, got "
            f"{array.ndim}D array instead. Reshape your data: {remedy}",
        )
    if array.shape[1] == 0:
        raise errors.ShapeError(
            f"0 feature(s) (shape={array.shape}) while a minimum of 1 is required: no columns"
        )
    return array


def _one_column(array: NDArray[np.generic], kind: str) -> NDArray[Any]:
    """Return one number for each row as a column."""
    if array.ndim == 1:
        return array[:, None]
    if array.ndim != 2 or array.shape[1] != 1:
        raise errors.ShapeError(
            f"{errors.names().scores} has shape {array.shape}; scores={kind!r} needs one number "
            "per row, as a vector or a single column",
            remedy=f"pass column 1 alone, or use scores={two_column_kind(kind)!r}",
        )
    return array


def output_dtype(scores: object) -> np.dtype[Any]:
    """Float32 for results on float32 and float16 input, else float64."""
    dtypes = [getattr(scores, "dtype", np.dtype(np.float64))]
    if library(scores) in {"pandas", "polars", "dask"} and not hasattr(scores, "dtype"):
        dtypes = list(getattr(scores, "dtypes", dtypes))
    narrow = all(
        str(dtype).lower().endswith(("float32", "float16", "f4", "f2")) for dtype in dtypes
    )
    return np.dtype(np.float32 if narrow else np.float64)


def refuse_masked(given: object, name: str) -> None:
    """Refuse masked arrays: numpy would read what is behind the mask."""
    if isinstance(given, np.ma.MaskedArray):
        raise errors.ContainerError(
            f"{name} is a masked array", remedy="drop the masked rows, and pass its .data"
        )


def _to_array(scores: Any) -> NDArray[Any]:
    """Return an array of whatever dtype and shape; refuse what numpy would misread."""
    home, name = library(scores), errors.names().scores
    refuse_masked(scores, name)
    if home == "scipy" and hasattr(scores, "toarray"):
        raise errors.ContainerError(
            f"Sparse data was passed as {name}", remedy=f"use {name}.toarray()"
        )
    if home == "dask" or type(scores).__name__ == "LazyFrame":
        raise errors.ContainerError(
            f"{name} is not in memory", remedy=f"pass {name}.compute(), or .collect() of polars"
        )
    if not (hasattr(scores, "__array__") or isinstance(scores, list | tuple)):
        raise errors.ContainerError(
            f"{name} is a {type(scores).__name__}",
            remedy="pass an array, a data frame or a list of rows",
        )
    try:
        if home == "torch":
            scores = scores.detach()
        array = np.asarray(scores)
        if array.dtype.kind == "O" and home == "pandas":  # nullable and categorical columns
            array = scores.to_numpy(np.float64, na_value=np.nan)
        elif array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        is_ragged = "inhomogeneous" in str(error)
        raise (errors.ShapeError if is_ragged else errors.ContainerError)(
            f"{name} has {'rows of different lengths' if is_ragged else 'no real number'}: {error}",
            remedy="pass an array of numbers, one column per class and none of labels",
        ) from error
    return array
