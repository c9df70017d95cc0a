"""Spark data frames: sampled where their partitions are, calibrated lazily.

Partitions are read, counted and merged by Spark. All of it goes through data frames,
``mapInArrow`` and ``applyInPandas``, none through RDDs: Spark Connect runs it, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _extras as extras
from calibrant import errors
from calibrant._bad_rows import ON_BAD_ROW, predict_chunk, to_send
from calibrant._gate import NamedMatrix, check_option
from calibrant.scale import Chunks, located, sorted_labels

try:
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.serializers import CPickleSerializer
    from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
    from pyspark.sql import types
except ImportError as error:
    raise extras.needed(error, "calibrant.scale.spark", "spark") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Array, Label, Labels

__all__ = ["predict_proba", "rows"]

FAN_IN = 4
"""Results that a task merges at once, so that nobody holds them all."""

Result = TypeVar("Result")

SERIALIZER = CPickleSerializer()
"""As Spark sends everything else between its own processes."""


def rows(
    df: DataFrame, *, scores: str | Sequence[str], label: str = "label", weight: str | None = None
) -> SparkChunks:
    """Return the rows of a data frame as a distributed calibration set.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Data frame, which a fit reads twice: for the labels, and for the rows.
    scores : list of str, or str
        Columns of the scores, one for each class, or a single column of arrays or Spark vectors.
        A vector such as ``probability`` has the order of a ``StringIndexer``: pass the column that
        it made as ``label``, or a calibrator with ``classes=`` in that order.
    label : str, default="label"
        Column of the labels: text, whole numbers or booleans.
    weight : str, optional
        Column of the weights.

    Returns
    -------
    chunks : SparkChunks
        For ``calibrator.fit(chunks)`` and ``metrics.evaluate(chunks)``.

    Examples
    --------
    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.scale import spark
    >>> given = [(0.9, 0.1, "a"), (0.2, 0.8, "b"), (0.8, 0.2, "b"), (0.3, 0.7, "a")] * 50
    >>> df = session.createDataFrame(given, ["a", "b", "label"])  # doctest: +SKIP
    >>> chunks = spark.rows(df, scores=["a", "b"])  # doctest: +SKIP
    >>> calibrator = FlattenedIsotonic().fit(chunks)  # doctest: +SKIP
    >>> calibrator.classes_.tolist()  # doctest: +SKIP
    ['a', 'b']
    """
    return SparkChunks(df, scores, label, weight)


def predict_proba(
    calibrator: Calibrator,
    df: DataFrame,
    *,
    scores: str | Sequence[str],
    output: str | Sequence[str] = "calibrated",
    on_bad_row: str = "raise",
) -> DataFrame:
    """Add calibrated probabilities to a data frame, lazily.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted one, as it is now.
    df : pyspark.sql.DataFrame
    scores : list of str, or str
        As in ``rows``, of the same kind as at ``fit``.
    output : str or list of str, default="calibrated"
        Name of a new column of arrays, in the order of ``classes_`` as Spark's own classifiers
        have it; or a name for each class, of as many new columns of numbers.
    on_bad_row : {"raise", "nan", "skip"}, default="raise"
        What to do with a row that cannot be calibrated: raise an error that names it, return NaN
        for every class, or drop it.

    Returns
    -------
    df : pyspark.sql.DataFrame
        The columns of ``df`` and the new ones; they are float where all scores are, else double.

    Examples
    --------
    >>> from calibrant import FlattenedIsotonic
    >>> from calibrant.scale import spark
    >>> given = [(0.9, 0.1, "a"), (0.2, 0.8, "b")] * 100
    >>> df = session.createDataFrame(given, ["a", "b", "label"])  # doctest: +SKIP
    >>> calibrator = FlattenedIsotonic().fit(spark.rows(df, scores=["a", "b"]))  # doctest: +SKIP
    >>> spark.predict_proba(calibrator, df, scores=["a", "b"]).count()  # doctest: +SKIP
    200
    """
    check_option("on_bad_row", on_bad_row, ON_BAD_ROW)
    if hasattr(calibrator, "for_group"):
        raise errors.ContainerError(
            f"{type(calibrator).__name__} needs the group of each row, which is not passed here; "
            "calibrate the rows of each group, df.where(df.group == name), with for_group(name)"
        )
    given = Scores.of(df, scores, getattr(calibrator, "n_features_in_", 0))
    given.check_fitted(calibrator)
    # No row is calibrated: this checks names and sizes, and finds the dtype of the result.
    nothing = calibrator.predict_proba(given.named(np.empty((0, given.n_classes), given.dtype)))
    kind = types.FloatType() if nothing.dtype == np.float32 else types.DoubleType()
    new = output_fields(df, output, nothing.shape[1], kind)
    fields = df.schema.fields
    # Spark looks columns up by their names before it sends them, and takes a dot for a field.
    plain = df.toDF(*(f"c{i}" for i in range(len(fields))))
    names = [field.name for field in fields]
    places = [names.index(name) for name in given.columns]
    sent = given.expressions([F.col(f"c{place}") for place in places])
    if all(fields[place].dataType.simpleString() == given.type for place in places):
        sent = []  # they are sent as they are
    else:
        places = list(range(len(fields), len(fields) + len(sent)))
    schema = types.StructType([*fields, *new])
    calibrate = _calibrating(to_send(calibrator), given, places, schema, len(new), on_bad_row)
    number = F.spark_partition_id().alias("place")
    return plain.select("*", *sent, number).mapInArrow(calibrate, schema)


class SparkChunks(Chunks):
    """The rows of a data frame, counted partition by partition; ``rows`` makes it."""

    def __init__(
        self, df: DataFrame, scores: str | Sequence[str], label: str, weight: str | None
    ) -> None:
        self._scores = Scores.of(df, scores)
        self.names, self.n_columns = self._scores.names, self._scores.n_classes
        self._given, self._label, self._weight = df, label, weight
        columns = self._scores.expressions([by_name(name) for name in self._scores.columns])
        columns += [label_column(df, label).alias("y")]
        columns += [] if weight is None else [weight_column(df, weight).alias("w")]
        self._df = df.select(*columns, F.spark_partition_id().alias("place"))

    @cached_property
    def _counts(self) -> dict[Label, int]:
        """The number of rows of each label, which Spark finds; of two more than there may be."""
        used = F.col("y").isNotNull()  # a missing one is refused with its row, when it is counted
        used = used if self._weight is None else used & (F.col("w") != 0)
        counts = self._df.where(used).groupBy("y").count().limit(max(self.n_columns, 2) + 2)
        return {label: n for label, n in _run(counts) if label == label}  # noqa: PLR0124  (NaN)

    def count_labels(self) -> dict[Label, int]:
        """Return the number of rows of each label."""
        return self._counts

    def labels(self) -> Labels:
        """Return the distinct labels."""
        most, labels = max(self.n_columns, 2), [*self._counts]  # metrics take one column
        if len(labels) > most:
            raise errors.LabelError(
                f"column {self._label!r} has more than {most} distinct labels, "
                f"{errors.some_in_words(labels)}; pass one column of scores for each class"
            )
        self._scores.check_order(self._given, self._label)
        return sorted_labels(self._counts)

    @cached_property
    def _n_partitions(self) -> int:
        (last,) = _run(self._df.agg(F.max("place")))[0]
        return 0 if last is None else last + 1

    def reduce(
        self, count: Callable[..., Result], merge: Callable[[Result, Result], Result]
    ) -> Result:
        """Count every partition where it is, and merge a few neighbours at a time."""
        schema = "place long, result binary"
        counting = _counting(count, merge, self._scores, self._label, self._weight)
        counted = self._df.mapInArrow(counting, schema)
        n_left = self._n_partitions
        if n_left == 0:
            raise errors.ShapeError("the data frame has no row; pass at least one")
        while n_left > FAN_IN:  # a few neighbours each, whichever task they come to
            groups = counted.groupBy(F.expr(f"place div {FAN_IN}"))
            counted = groups.applyInPandas(_merging(merge), schema)
            n_left = -(-n_left // FAN_IN)
        results = sorted(_run(counted), key=lambda row: row[0])
        merged: Result = reduce(merge, (SERIALIZER.loads(bytes(data)) for _, data in results))
        return merged

    def map(self, predict: Callable[[Array], object]) -> object:  # noqa: ARG002
        """Refuse: the scores alone are no data frame."""
        raise errors.ContainerError(
            "rows of Spark are calibrated by calibrant.scale.spark.predict_proba(calibrator, df, "
            "scores=...), which adds columns to the data frame"
        )


def _counting(
    count: Callable[..., Result],
    merge: Callable[[Result, Result], Result],
    scores: Scores,
    label: str,
    weight: str | None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that counts the rows of a partition."""
    columns = {"scores": scores.place, "y": label, "sample_weight": weight}

    def count_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results: list[Result] = []
        n_rows = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            number = batch.column("place")[0].as_py()
            with located(f"partition {number}", first_row=n_rows, columns=columns):
                matrix = scores.matrix(batch.columns[: len(scores.columns)])
                w = None if weight is None else to_numpy(batch.column("w"))
                result = count(scores.named(matrix), to_numpy(batch.column("y")), w)
            results = [reduce(merge, [*results, result])]
            n_rows += batch.num_rows
        for result in results:  # of a partition that has rows
            data = SERIALIZER.dumps(result)
            yield pa.RecordBatch.from_pydict({"place": [number], "result": [data]})

    return count_partition


def _merging(merge: Callable[[Result, Result], Result]) -> Callable[..., object]:
    """Return the function that merges the results of a few partitions, in their order."""

    # Spark reads these types, and knows none that only checkers import.
    def merge_some(place: tuple[int], frame: Any) -> Any:
        counted = frame.sort_values("place")["result"]
        result = reduce(merge, map(SERIALIZER.loads, counted))
        return type(frame)({"place": [place[0]], "result": [SERIALIZER.dumps(result)]})

    return merge_some


def _calibrating(
    calibrator: Calibrator,
    scores: Scores,
    places: list[int],
    schema: types.StructType,
    n_new: int,
    on_bad_row: str,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that adds probabilities to the rows of a partition."""

    def calibrate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n_rows = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            number = batch.columns[-1][0].as_py()
            with located(f"partition {number}", first_row=n_rows, columns={"scores": scores.place}):
                given = [batch.columns[place] for place in places]
                matrix = scores.matrix(given, is_strict=on_bad_row == "raise")
                rows, good = predict_chunk(
                    calibrator, "predict_proba", matrix, scores.names, on_bad_row
                )
            n_rows += batch.num_rows
            if n_new > 1:
                new = [pa.array(column) for column in rows.T]
            else:
                ends = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
                new = [pa.ListArray.from_arrays(ends, rows.ravel())]
            kept = batch.columns[: len(schema.names) - n_new]
            if len(rows) < batch.num_rows:
                kept = [column.filter(pa.array(good)) for column in kept]
            yield pa.RecordBatch.from_arrays([*kept, *new], names=schema.names)

    return calibrate


_REFUSED = re.compile(
    r"^calibrant\.errors\.(\w+): (.+?)\s*(?:SQLSTATE|^\s*at |\Z)", re.MULTILINE | re.DOTALL
)
"""The last line of a traceback of Python's, which Spark may add to."""


def _run(df: DataFrame) -> list[Row]:
    """Return the few rows of a data frame; what was refused in a task is refused here."""
    try:
        few: list[Row] = df.collect()
    except PySparkException as error:
        for name, message in reversed(_REFUSED.findall(str(error))):
            raise getattr(errors, name)(message) from error
        raise
    return few


def __dir__() -> list[str]:
    return __all__


def to_numpy(column: pa.Array) -> Array:
    """Return a column of Arrow; what is null among numbers is NaN."""
    values: Array = column.to_numpy(zero_copy_only=False)
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
    def of(cls, df: DataFrame, scores: str | Sequence[str], n_classes: int | None = None) -> Scores:
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
    def names(self) -> list[Label] | None:
        """Names of the classes' columns."""
        return None if self.is_array else [*self.columns]

    def check_order(self, df: DataFrame, label: str) -> None:
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

    def check_fitted(self, calibrator: Calibrator) -> None:
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

    def expressions(self, columns: list[Column]) -> list[Column]:
        """Return what to send to Python for these columns of a data frame."""
        if self.is_vector:
            from pyspark.ml.functions import vector_to_array

            columns = [vector_to_array(column) for column in columns]
        return [column.cast(self.type).alias(f"s{i}") for i, column in enumerate(columns)]

    def named(self, matrix: Array) -> Array | NamedMatrix:
        """Return a matrix with the names of its columns, if they have any."""
        return matrix if self.names is None else NamedMatrix(matrix, self.names)

    def matrix(self, columns: list[pa.Array], *, is_strict: bool = True) -> Array:
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


def by_name(name: str) -> Column:
    """Return a column, whatever is in its name."""
    return F.col("`" + name.replace("`", "``") + "`")


def _field(df: DataFrame, name: str) -> types.StructField:
    """Return the field of a column: its type and metadata."""
    fields = [field for field in df.schema.fields if field.name == name]
    if len(fields) != 1:
        raise errors.ColumnNameError(
            f"the data frame has {len(fields) or 'no'} columns {name!r}; its columns are "
            f"{errors.some_in_words(df.columns, 20)}"
        )
    return fields[0]


def _check_type(
    name: str,
    kind: types.DataType,
    kinds: type | tuple[type, ...],
    error: type[Exception],
    wanted: str,
) -> None:
    if not isinstance(kind, kinds):
        raise error(f"column {name!r} has type {kind.simpleString()}; {wanted}")


def _dtype(name: str, kind: types.DataType) -> str:
    """Return the type of scores, which have to be numbers."""
    wanted = "pass numbers, one for each class"
    _check_type(name, kind, types.NumericType, errors.ContainerError, wanted)
    return "f4" if isinstance(kind, types.FloatType) else "f8"


def label_column(df: DataFrame, name: str) -> Column:
    """Return the column of the labels, which are of a type that labels can be of."""
    kind = _field(df, name).dataType
    if isinstance(kind, types.DecimalType) and kind.scale == 0:
        return by_name(name).cast("long")
    texts_or_flags = (types.StringType, types.BooleanType)
    numbers = (types.IntegralType, types.FloatType, types.DoubleType)
    wanted = "labels must be text, whole numbers or booleans"
    _check_type(name, kind, texts_or_flags + numbers, errors.LabelError, wanted)
    return by_name(name)


def weight_column(df: DataFrame, name: str) -> Column:
    """Return the column of the weights, which are numbers."""
    kind = _field(df, name).dataType
    _check_type(name, kind, types.NumericType, errors.WeightError, "weights must be numbers")
    return by_name(name).cast("double")


def output_fields(
    df: DataFrame, output: str | Sequence[str], n_classes: int, kind: types.DataType
) -> list[types.StructField]:
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
