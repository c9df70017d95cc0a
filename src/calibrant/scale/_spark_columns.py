"""Columns of Spark's data frames: what they may hold, and how messages name their cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql import types

from calibrant import errors
from calibrant._containers import NamedMatrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Scores:
    """Columns of scores: one for each class, or one that has all of them in arrays."""

    columns: list[str]
    n_classes: int
    dtype: str
    is_array: bool = False
    is_vector: bool = False
    classes: list[str] | None = None  # of a vector, where something tells them

    @classmethod
    def of(cls, df: Any, scores: str | Sequence[str], n_classes: int | None = None) -> Scores:
        """Look at the types, and at the first array where nobody says how long they are."""
        if not isinstance(scores, str):
            dtypes = {_dtype(name, _kind(df, name)) for name in scores}
            return cls(list(scores), len(scores), max(dtypes, default="f8"))
        kind = _kind(df, scores)
        is_vector = type(kind).__name__ == "VectorUDT"
        if not (is_vector or isinstance(kind, types.ArrayType)):
            raise errors.ContainerError(
                f"column {scores!r} is of type {kind.simpleString()}; pass a list of columns, one "
                "for each class, or a column of arrays"
            )
        dtype = "f8" if is_vector else _dtype(scores, kind.elementType)
        found = cls([scores], n_classes or 0, dtype, is_array=True, is_vector=is_vector)
        if n_classes is not None:
            return found
        (array,) = found.expressions([by_name(scores)])
        first = df.where(by_name(scores).isNotNull()).select(F.size(array)).limit(1).collect()
        if not first:
            raise errors.ShapeError(f"column {scores!r} has no array in any row")
        return replace(found, n_classes=first[0][0])

    @property
    def names(self) -> list[Any] | None:
        """Names of the classes' columns."""
        return self.classes if self.is_array else self.columns

    def named_by_indexer(self, df: Any, label: str) -> Scores:
        """Return these scores with the classes of a vector, of which the labels are the texts.

        Spark's classifiers have them in the order of a ``StringIndexer``, by frequency.
        """
        if not (self.is_vector and isinstance(_kind(df, label), types.StringType)):
            return self
        orders = _indexed(df, self.n_classes)
        return replace(self, classes=orders[0]) if len(orders) == 1 else self

    def in_order_of(self, df: Any, calibrator: Any) -> Scores:
        """Return these scores with the classes of a vector, as a calibrator knows them."""
        if not (self.is_vector and hasattr(calibrator, "feature_names_in_")):
            return self
        known = calibrator.feature_names_in_.tolist()
        orders = [order for order in _indexed(df, self.n_classes) if {*order} == {*known}]
        return replace(self, classes=orders[0] if len(orders) == 1 else known)

    def check_order(self, labels: list[Any], label: str) -> None:
        """Refuse texts as labels of a vector whose order nothing tells."""
        is_told = self.classes is not None and {*labels} <= {*self.classes}
        if self.is_vector and not is_told and any(isinstance(one, str) for one in labels):
            raise errors.LabelError(
                f"column {self.columns[0]!r} is a vector of Spark ML, in the order of a "
                f"StringIndexer, and no column tells which of {errors.some_in_words(labels)} in "
                f"column {label!r} comes first; keep the column that it made, or pass "
                "classes=indexer_model.labels to the calibrator"
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

    def named(self, matrix: NDArray[Any]) -> Any:
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
            raise errors.ShapeError(
                f"scores[{i}] {held}, but needs {self.n_classes}, one for each class"
            )
        return to_numpy(arrays.flatten()).reshape(-1, self.n_classes)


def _indexed(df: Any, n_classes: int) -> list[list[str]]:
    """Return the orders of so many texts that columns made by a ``StringIndexer`` tell."""
    found = [field.metadata.get("ml_attr", {}).get("vals") for field in df.schema.fields]
    orders = {tuple(texts) for texts in found if texts is not None and len(texts) == n_classes}
    return sorted(map(list, orders))


def by_name(name: str) -> Any:
    """Return a column, whatever is in its name."""
    return F.col("`" + name.replace("`", "``") + "`")


def _kind(df: Any, name: str) -> Any:
    """Return the type of a column."""
    found = [field.dataType for field in df.schema.fields if field.name == name]
    if len(found) != 1:
        raise errors.ColumnNameError(
            f"the data frame has {len(found) or 'no'} columns {name!r}; its columns are "
            f"{errors.some_in_words(df.columns, 20)}"
        )
    return found[0]


def _refuse_others(name: str, kind: Any, kinds: Any, error: Any, wanted: str) -> None:
    """Refuse a column of another type."""
    if not isinstance(kind, kinds):
        raise error(f"column {name!r} has type {kind.simpleString()}; {wanted}")


def _dtype(name: str, kind: Any) -> str:
    """Return the type of scores, which have to be numbers."""
    wanted = "pass numbers, one for each class"
    _refuse_others(name, kind, types.NumericType, errors.ContainerError, wanted)
    return "f4" if isinstance(kind, types.FloatType) else "f8"


def label_column(df: Any, name: str) -> Any:
    """Return the column of the labels, which are of a type that labels can be of."""
    kind = _kind(df, name)
    if isinstance(kind, types.DecimalType) and kind.scale == 0:
        return by_name(name).cast("long")
    plain = (
        types.StringType,
        types.IntegralType,
        types.BooleanType,
        types.FloatType,
        types.DoubleType,
    )
    wanted = "labels must be text, whole numbers or booleans"
    _refuse_others(name, kind, plain, errors.LabelError, wanted)
    return by_name(name)


def weight_column(df: Any, name: str) -> Any:
    """Return the column of the weights, which are numbers."""
    kind = _kind(df, name)
    _refuse_others(name, kind, types.NumericType, errors.WeightError, "weights must be numbers")
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


def to_numpy(column: Any) -> NDArray[Any]:
    """Return a column that came from Spark; what is null among numbers is NaN."""
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found
