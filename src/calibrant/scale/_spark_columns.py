"""Columns of Spark's data frames: what they may hold, and how messages name their cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql import types

from calibrant import errors
from calibrant._gate import NamedMatrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def to_numpy(column: Any) -> NDArray[Any]:
    """Return a column of Arrow; what is null among numbers is NaN."""
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True)
class Scores:
    """Columns of scores: one for each class, or one that has all of them in arrays."""

    columns: list[str]
    n_classes: int
    dtype: str
    is_array: bool = False
    is_vector: bool = False

    @classmethod
    def of(cls, df: Any, scores: str | Sequence[str], n_classes: int | None = None) -> Scores:
        """Look at the types, and at the first array where nobody says how long they are."""
        if not isinstance(scores, str):
            dtypes = {_dtype(name, _field(df, name).dataType) for name in scores}
            return cls(list(scores), len(scores), max(dtypes, default="f8"))
        kind = _field(df, scores).dataType
        is_vector = type(kind).__name__ == "VectorUDT"
        if not (is_vector or isinstance(kind, types.ArrayType)):
            raise errors.ContainerError(
                f"column {scores!r} is of type {kind.simpleString()}; pass a list of columns, one "
                "for each class, or a column of arrays"
            )
        dtype = "f8" if is_vector else _dtype(scores, kind.elementType)
        arrays = cls([scores], n_classes or 0, dtype, is_array=True, is_vector=is_vector)
        if n_classes is not None:
            return arrays
        (array,) = arrays.expressions([by_name(scores)])
        first = df.where(by_name(scores).isNotNull()).select(F.size(array)).limit(1).collect()
        if not first:
            raise errors.ShapeError(f"column {scores!r} has no array in any row")
        return replace(arrays, n_classes=first[0][0])

    @property
    def names(self) -> list[Any] | None:
        """Names of the classes' columns."""
        return None if self.is_array else self.columns

    def check_order(self, df: Any, label: str) -> None:
        """Refuse labels of a vector of Spark ML unless they are the numbers of its columns.

        Spark's classifiers have classes in the order of a ``StringIndexer``, by frequency. Labels
        are its numbers, or those that a classifier was fitted to without an indexer.
        """
        is_text = isinstance(_field(df, label).dataType, types.StringType)
        indexed = [field.name for field in df.schema.fields if "ml_attr" in field.metadata]
        indexed = [name for name in indexed if "vals" in _field(df, name).metadata["ml_attr"]]
        if self.is_vector and (is_text or (indexed and label not in indexed)):
            raise errors.LabelError(
                f"column {self.columns[0]!r} is a vector of Spark ML, in the order of a "
                f"StringIndexer, which column {label!r} does not tell; pass label= the column that "
                "the indexer made, or a calibrator with classes= in the order of "
                "indexer_model.labels"
            )

    def check_fitted(self, calibrator: object) -> None:
        """Refuse a vector for a calibrator that was fitted to columns with names."""
        if self.is_vector and hasattr(calibrator, "feature_names_in_"):
            raise errors.ColumnNameError(
                f"column {self.columns[0]!r} is a vector without names, but the calibrator was "
                f"fitted to the columns {errors.some_in_words(calibrator.feature_names_in_)}; pass "
                "scores= a column for each class, made with vector_to_array"
            )

    @property
    def place(self) -> str | list[str]:
        """What messages call the scores: the column of arrays, or the column of each class."""
        return self.columns[0] if self.is_array else self.columns

    @property
    def type(self) -> str:
        """Type of a column, in Spark's words, as it is sent to Python."""
        number = "float" if self.dtype == "f4" else "double"
        return f"array<{number}>" if self.is_array else number

    def expressions(self, columns: list[Any]) -> list[Any]:
        """Return what to send to Python for these columns of a data frame."""
        if self.is_vector:
            from pyspark.ml.functions import vector_to_array

            columns = [vector_to_array(column) for column in columns]
        return [column.cast(self.type).alias(f"s{i}") for i, column in enumerate(columns)]

    def named(self, matrix: NDArray[np.generic]) -> Any:
        """Return a matrix with the names of its columns, if they have any."""
        return matrix if self.names is None else NamedMatrix(matrix, self.names)

    def matrix(self, columns: list[Any], *, is_strict: bool = True) -> NDArray[Any]:
        """Return the scores that came from Spark; what is null is NaN.

        So is an array of another length, unless that is refused.
        """
        if not self.is_array:
            return np.column_stack([to_numpy(column) for column in columns])
        (arrays,) = columns
        lengths = np.where(arrays.is_null(), -1, np.diff(arrays.offsets))
        wrong = lengths != self.n_classes
        if np.any(wrong) and not is_strict:
            out = np.full((len(lengths), self.n_classes), np.nan, dtype=self.dtype)
            good = arrays.filter(pa.array(~wrong)).flatten()
            out[~wrong] = to_numpy(good).reshape(-1, self.n_classes)
            return out
        if np.any(wrong):
            i = int(np.argmax(wrong))
            held = "is null" if lengths[i] < 0 else f"has {lengths[i]} scores"
            problem = f"{held}, but needs {self.n_classes}, one for each class"
            raise errors.ShapeError(problem, row=i)
        return to_numpy(arrays.flatten()).reshape(-1, self.n_classes)


def by_name(name: str) -> Any:
    """Return a column, whatever is in its name."""
    return F.col("`" + name.replace("`", "``") + "`")


def _field(df: Any, name: str) -> Any:
    """Return the field of a column: its type and metadata."""
    fields = [field for field in df.schema.fields if field.name == name]
    if len(fields) != 1:
        raise errors.ColumnNameError(
            f"the data frame has {len(fields) or 'no'} columns {name!r}; its columns are "
            f"{errors.some_in_words(df.columns, 20)}"
        )
    return fields[0]


def _check_type(name: str, kind: Any, kinds: Any, error: type[Exception], wanted: str) -> None:
    if not isinstance(kind, kinds):
        raise error(f"column {name!r} has type {kind.simpleString()}; {wanted}")


def _dtype(name: str, kind: object) -> str:
    """Return the type of scores, which have to be numbers."""
    wanted = "pass numbers, one for each class"
    _check_type(name, kind, types.NumericType, errors.ContainerError, wanted)
    return "f4" if isinstance(kind, types.FloatType) else "f8"


def label_column(df: object, name: str) -> Any:
    """Return the column of the labels, which are of a type that labels can be of."""
    kind = _field(df, name).dataType
    if isinstance(kind, types.DecimalType) and kind.scale == 0:
        return by_name(name).cast("long")
    texts_or_flags = (types.StringType, types.BooleanType)
    numbers = (types.IntegralType, types.FloatType, types.DoubleType)
    wanted = "labels must be text, whole numbers or booleans"
    _check_type(name, kind, texts_or_flags + numbers, errors.LabelError, wanted)
    return by_name(name)


def weight_column(df: object, name: str) -> Any:
    """Return the column of the weights, which are numbers."""
    kind = _field(df, name).dataType
    _check_type(name, kind, types.NumericType, errors.WeightError, "weights must be numbers")
    return by_name(name).cast("double")


def output_fields(df: Any, output: str | Sequence[str], n_classes: int, kind: Any) -> list[Any]:
    """Return the fields of the probabilities."""
    is_one = isinstance(output, str)
    names = [output] if isinstance(output, str) else list(output)
    if not is_one and len(names) != n_classes:
        raise errors.ParameterError(
            f"output has {len(names)} names for {n_classes} classes; pass one for each, or one "
            "name for a column of arrays"
        )
    taken = {name.lower() for name in df.columns}  # Spark takes Label for label
    for name in names:
        if name.lower() in taken:
            raise errors.ParameterError(
                f"output={name!r} is the name of another column; choose a new one"
            )
        taken.add(name.lower())
    return [types.StructField(name, types.ArrayType(kind) if is_one else kind) for name in names]
