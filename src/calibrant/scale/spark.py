"""Spark data frames: sampled where their partitions are, calibrated lazily.

Partitions are read, counted and merged by Spark. All of it goes through data frames,
``mapInArrow`` and ``applyInPandas``, none through RDDs: Spark Connect runs it, too.
"""

from __future__ import annotations

import re
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from calibrant import _extras as extras
from calibrant import errors
from calibrant._bad_rows import ON_BAD_ROW, predict_chunk, to_send
from calibrant._gate import check_option
from calibrant.scale._chunks import Chunks, located, sorted_labels

try:
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.serializers import CPickleSerializer
    from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
    from pyspark.sql import types

    from calibrant.scale._spark_columns import (
        Scores,
        by_name,
        label_column,
        output_fields,
        to_numpy,
        weight_column,
    )
except ImportError as error:
    raise extras.needed(error, "calibrant.scale.spark", "spark") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from calibrant._types import Labels

__all__ = ["predict_proba", "rows"]

FAN_IN = 4
"""Results that a task merges at once, so that nobody holds them all."""

Result = TypeVar("Result")

SERIALIZER = CPickleSerializer()
"""As Spark sends everything else between its own processes."""


def rows(
    df: object, *, scores: str | Sequence[str], label: str = "label", weight: str | None = None
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
    calibrator: Any,
    df: Any,
    *,
    scores: str | Sequence[str],
    output: str | Sequence[str] = "calibrated",
    on_bad_row: str = "raise",
) -> Any:
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
        self, df: Any, scores: str | Sequence[str], label: str, weight: str | None
    ) -> None:
        self._scores = Scores.of(df, scores)
        self.names, self.n_columns = self._scores.names, self._scores.n_classes
        self._given, self._label, self._weight = df, label, weight
        columns = self._scores.expressions([by_name(name) for name in self._scores.columns])
        columns += [label_column(df, label).alias("y")]
        columns += [] if weight is None else [weight_column(df, weight).alias("w")]
        self._df = df.select(*columns, F.spark_partition_id().alias("place"))

    @cached_property
    def _counts(self) -> dict[Any, int]:
        """The number of rows of each label, which Spark finds; of two more than there may be."""
        used = F.col("y").isNotNull()  # a missing one is refused with its row, when it is counted
        used = used if self._weight is None else used & (F.col("w") != 0)
        counts = self._df.where(used).groupBy("y").count().limit(max(self.n_columns, 2) + 2)
        return {label: n for label, n in _run(counts) if label == label}  # noqa: PLR0124  (NaN)

    def count_labels(self) -> dict[Any, int]:
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

    def map(self, predict: Callable[[Any], Any]) -> Any:  # noqa: ARG002
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
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function that counts the rows of a partition."""
    columns = {"scores": scores.place, "y": label, "sample_weight": weight}

    def count_partition(batches: Iterable[Any]) -> Iterator[Any]:
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


def _merging(merge: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the function that merges the results of a few partitions, in their order."""

    def merge_some(place: tuple[int], frame: Any) -> Any:
        counted = frame.sort_values("place")["result"]
        result = reduce(merge, map(SERIALIZER.loads, counted))
        return type(frame)({"place": [place[0]], "result": [SERIALIZER.dumps(result)]})

    return merge_some


def _calibrating(
    calibrator: Any, scores: Scores, places: list[int], schema: Any, n_new: int, on_bad_row: str
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function that adds probabilities to the rows of a partition."""

    def calibrate(batches: Iterable[Any]) -> Iterator[Any]:
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


def _run(df: Any) -> list[Any]:
    """Return the few rows of a data frame; what was refused in a task is refused here."""
    try:
        few: list[object] = df.collect()
    except PySparkException as error:
        for name, message in reversed(_REFUSED.findall(str(error))):
            raise getattr(errors, name)(message) from error
        raise
    return few


def __dir__() -> list[str]:
    return __all__
