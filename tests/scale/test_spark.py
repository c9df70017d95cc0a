"""Spark data frames: the fits in memory, lazy predictions, errors that name partition and row."""

from __future__ import annotations

import datetime as dt
import doctest
import os
import shutil
import sys
import warnings
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calibrant
from array_chunks import ArrayChunks
from calibrant import errors
from calibrant.datasets import simulated_scores

pytest.importorskip("pyspark")
if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

from pyspark.errors import PythonException
from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from calibrant.scale import spark
from conftest import refuses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The copy keyword is deprecated"),  # in toPandas
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets to the JVM
]

SCORES, Y = simulated_scores(3000)
NAMES = ["ant", "bee", "cow"]
WEIGHT = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.25], len(Y))
FRAME = pd.DataFrame(SCORES, columns=NAMES)
FRAME = FRAME.assign(label=np.array(NAMES)[Y], y=Y, weight=WEIGHT)
NAMED = calibrant.TemperatureScaling().fit(FRAME[NAMES], FRAME["label"])
each_method = pytest.mark.parametrize(
    "name",
    ["FlattenedIsotonic", "NormalizationAwareIsotonic", "TemperatureScaling", "MonotoneSpline"],
)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "250",
}


@pytest.fixture(scope="module")
def session():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2, 2]")  # a task may fail once
        started = reduce(lambda made, pair: made.config(*pair), SETTINGS.items(), builder)
        found = started.getOrCreate()
        found.sparkContext.setLogLevel("OFF")
        yield found
        found.stop()


@pytest.fixture(scope="module")
def table(session, tmp_path_factory):
    """All rows, read from Parquet."""
    path = tmp_path_factory.mktemp("spark") / "rows.parquet"
    FRAME.to_parquet(path)
    return session.read.parquet(str(path))


def in_order(session, frame):
    """The rows in their order, a thousand to a partition."""
    rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    schema = session.createDataFrame(FRAME).schema
    return session.createDataFrame(session.sparkContext.parallelize(rows, 3), schema)


def fit(calibrator, df, **columns):
    """Fit to the rows of a data frame."""
    return calibrator.fit(spark.rows(df, **columns))


def assert_same_sample(found, wanted):
    """The kept rows and their weights have the same bits."""
    for name in ("scores", "class_index", "weight", "unit"):
        assert_array_equal(getattr(found.batch(), name), getattr(wanted.batch(), name))


@each_method
@pytest.mark.parametrize("n_partitions", [1, 3, 16])
def test_a_fit_to_partitions_is_the_fit_in_memory(table, name, n_partitions):
    far, near = (getattr(calibrant, name)() for _ in range(2))
    assert fit(far, table.repartition(n_partitions), scores=NAMES) is far
    near.fit(FRAME[NAMES], FRAME["label"])
    found, wanted = far.predict_proba(FRAME[NAMES]), near.predict_proba(FRAME[NAMES])
    assert_allclose(found, wanted, rtol=0, atol=1e-9)
    chunks = ArrayChunks(SCORES, FRAME["label"].to_numpy(), n_rows=700)
    assert_array_equal(found, getattr(calibrant, name)().fit(chunks).predict_proba(SCORES))
    assert far.classes_.tolist() == NAMES
    assert far.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("n_partitions", [3, 16])
def test_a_sample_is_the_one_of_any_chunks(table, n_partitions):
    chunks = spark.rows(table.repartition(n_partitions), scores=NAMES, weight="weight")
    here = ArrayChunks(SCORES, FRAME["label"].to_numpy(), WEIGHT, n_rows=700)
    far, near = (own.sample(NAMES, max_cells=600) for own in (chunks, here))
    assert (far.n_kept, far.is_complete) == (200, False)
    assert_same_sample(far, near)


@pytest.mark.parametrize("kind", ["int", "tinyint", "double", "decimal(5,0)", "boolean"])
def test_labels_of_every_type_are_found(table, kind):
    two = table.select(
        F.col("ant").alias("p.0"),
        (1 - F.col("ant")).alias("p.1"),
        (F.col("y") > 0).cast("int").cast(kind).alias("la`bel"),
    )
    chunks = spark.rows(two, scores=["p.0", "p.1"], label="la`bel")
    assert chunks.labels().tolist() == [0, 1]
    batch = chunks.sample().batch()
    assert_array_equal(np.bincount(batch.class_index, batch.weight), np.bincount(Y > 0))


@pytest.mark.parametrize("is_vector", [False, True])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_scores_in_one_column(table, is_vector, kind):
    array = F.array(*NAMES).cast(f"array<{kind}>")
    given = table.select("label", (array_to_vector(array) if is_vector else array).alias("scores"))
    # Nothing tells the order of the classes in a vector of Spark ML.
    far = calibrant.TemperatureScaling(classes=NAMES if is_vector else None)
    fit(far, given, scores="scores")
    dtype = np.float32 if kind == "float" else np.float64
    near = calibrant.TemperatureScaling().fit(SCORES.astype(dtype), FRAME["label"])
    assert_allclose(far.predict_proba(SCORES), near.predict_proba(SCORES), rtol=0, atol=1e-9)
    added = spark.predict_proba(far, given, scores="scores").select("calibrated")
    is_narrow = kind == "float" and not is_vector
    (field,) = added.schema.fields
    assert field.dataType.simpleString() == f"array<{'float' if is_narrow else 'double'}>"
    found = np.array([row[0] for row in added.collect()])
    wanted = far.predict_proba(SCORES.astype(dtype).astype(dtype if is_narrow else float))
    assert_array_equal(found, wanted)


def test_probabilities_are_added_to_all_other_columns(table):
    calibrator = calibrant.NormalizationAwareIsotonic().fit(FRAME[NAMES], FRAME["label"])
    others = {
        "a.b": F.col("y"),
        "text": F.when(F.col("y") > 0, F.col("label")),
        "day": F.make_date(F.lit(2024), F.lit(2), F.col("y") + 1),
        "inside": F.struct("y", F.array("label").alias("l.m")),
        "nothing": F.lit(None).cast("double"),
    }
    given = table.select("*", *(column.alias(name) for name, column in others.items()))
    added = spark.predict_proba(calibrator, given, scores=NAMES)
    assert added.columns == [*given.columns, "calibrated"]
    assert [*added.schema.fields][:-1] == given.schema.fields
    rows = added.collect()
    assert [row[:-1] for row in rows] == [tuple(row) for row in given.collect()]
    wanted = calibrator.predict_proba(FRAME[NAMES])
    assert_array_equal(np.array([row[-1] for row in rows]), wanted)
    assert rows[0]["day"] == dt.date(2024, 2, 1 + int(Y[0]))


def test_probabilities_come_to_a_column_for_each_class(table):
    calibrator = NAMED
    narrow = table.select(*(F.col(name).cast("float") for name in NAMES))
    for given, dtype in ((table, "double"), (narrow, "float")):
        added = spark.predict_proba(calibrator, given, scores=NAMES, output=["p1", "p2", "p3"])
        assert added.dtypes[-3:] == [("p1", dtype), ("p2", dtype), ("p3", dtype)]
        frame = FRAME[NAMES].astype({"double": "f8", "float": "f4"}[dtype])
        found = np.array(added.select("p1", "p2", "p3").collect())
        assert_array_equal(found, calibrator.predict_proba(frame))


def test_a_calibrator_is_taken_as_it_is_and_nothing_runs_before_it_is_needed(table):
    calibrator = calibrant.TemperatureScaling().fit(SCORES, Y)
    before = calibrator.predict_proba(SCORES)
    broken = table.withColumn("ant", F.raise_error(F.lit("read")).cast("double"))
    with pytest.warns(errors.CalibrantWarning, match="fitted without feature names"):
        spark.predict_proba(calibrator, broken, scores=NAMES)
    array = broken.select(F.array(*NAMES).alias("s"))
    spark.predict_proba(calibrator, array, scores="s")
    array = table.select(F.array(*NAMES).alias("s"))
    lazy = spark.predict_proba(calibrator, array, scores="s")
    calibrator.fit(SCORES[::2], Y[::2])
    assert_array_equal(np.array([row["calibrated"] for row in lazy.collect()]), before)


BAD = {
    "nan": (1260, "bee", np.nan, "NonFiniteError", "partition 1, row 260: column 'bee' is nan"),
    "label": (251, "label", "dog", "LabelError", "partition 0, row 251: column 'label' is 'dog'"),
    "none": (251, "label", None, "LabelError", "partition 0, row 251: column 'label' is None"),
    "weight": (2500, "weight", -1.0, "WeightError", "partition 2, row 500: column 'weight' is -1"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_told_with_partition_and_row(session, case):
    row, column, value, error, message = BAD[case]
    frame = FRAME.astype({"label": object})
    frame.loc[row, column] = value
    calibrator = calibrant.TemperatureScaling(classes=NAMES)
    with pytest.raises(getattr(errors, error)) as caught:
        fit(calibrator, in_order(session, frame), scores=NAMES, weight="weight")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert not hasattr(calibrator, "map_")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ("array(0.5D, 0.5D)", "column 's' has 2 scores, but needs 3"),
        ("cast(null as array<double>)", "column 's' is null, but needs 3"),
        ("array(0.25D, null, 0.5D)", r"column 's'\[1\] is nan"),
        ("array(0.5D, 1D, 0D)", r"column 's' sums to 1.5, not 1"),
        ("array(2D, -1D, 0D)", r"column 's'\[0\] is 2.0: .*did you mean scores='logits'"),
    ],
)
def test_arrays_that_are_no_distributions_are_told_with_partition_and_row(session, array, message):
    frame = FRAME.assign(y=np.arange(len(FRAME)))
    one = F.when(F.col("y") == 1700, F.expr(array)).otherwise(F.array(*NAMES))
    given = in_order(session, frame).select(one.alias("s"), "label")
    with pytest.raises(errors.DataError, match=f"partition 1, row 700: {message}"):
        fit(calibrant.TemperatureScaling(classes=NAMES), given, scores="s")


def test_bad_rows_are_marked_or_left_out(session):
    calibrator, wanted = NAMED, NAMED.predict_proba(FRAME[NAMES])
    frame = FRAME.assign(y=np.arange(len(FRAME)))
    frame.loc[[17, 2400], "cow"] = np.nan
    frame.loc[1001, NAMES] = 0.0
    given, bad = in_order(session, frame), [17, 1001, 2400]
    good = np.delete(np.arange(len(FRAME)), bad)
    marked = spark.predict_proba(calibrator, given, scores=NAMES, on_bad_row="nan").collect()
    found = np.array([row["calibrated"] for row in marked])
    assert np.flatnonzero(np.isnan(found).all(axis=1)).tolist() == bad
    assert_array_equal(found[good], wanted[good])
    output = [f"p_{name}" for name in NAMES]
    asked = {"scores": NAMES, "output": output, "on_bad_row": "skip"}
    left = spark.predict_proba(calibrator, given, **asked).collect()
    assert [row["y"] for row in left] == good.tolist()
    assert [row["label"] for row in left] == FRAME["label"][good].tolist()
    assert_array_equal([[row[name] for name in output] for row in left], wanted[good])
    said = "NonFiniteError: partition 0, row 17: column 'cow'"
    with pytest.raises(PythonException, match=said):
        spark.predict_proba(calibrator, given.where("y < 1000"), scores=NAMES).collect()
    with refuses("on_bad_row", value="drop"):
        spark.predict_proba(calibrator, given, scores=NAMES, on_bad_row="drop")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"scores": ["ant", "bee", "dog"]}, "ColumnNameError"),
        ({"scores": ["ant", "bee", "label"]}, "ContainerError"),
        ({"scores": "ant"}, "ContainerError"),
        ({"scores": "none"}, "ShapeError"),
        ({"label": "day"}, "LabelError"),
        ({"weight": "label"}, "WeightError"),
    ],
)
def test_columns_that_cannot_be_meant_are_refused(table, changes, error):
    given = table.withColumns({"none": F.lit(None).cast("array<double>"), "day": F.current_date()})
    asked = {"scores": NAMES, "label": "label"} | changes
    with pytest.raises(getattr(errors, error)):
        fit(calibrant.FlattenedIsotonic(), given, **asked)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"scores": NAMES[:2]}, "ShapeError"),
        ({"scores": ["ant", "bee", "y"]}, "ColumnNameError"),
        ({"output": ["a", "b"]}, "ParameterError"),
        ({"output": "Label"}, "ParameterError"),
        ({"output": ["a", "b", "a"]}, "ParameterError"),
    ],
)
def test_predictions_that_cannot_be_made_are_refused_at_once(table, changes, error):
    with pytest.raises(getattr(errors, error)):
        spark.predict_proba(NAMED, table, **({"scores": NAMES} | changes))
    with pytest.raises(errors.NotFittedError):
        spark.predict_proba(calibrant.TemperatureScaling(), table, scores=NAMES)


def test_no_rows_are_refused(table):
    chunks = spark.rows(table.where("false"), scores=NAMES)
    with pytest.raises(errors.ShapeError):
        calibrant.FlattenedIsotonic(classes=NAMES).fit(chunks, None)


def test_the_examples_run(session):
    examples = [e for e in doctest.DocTestFinder().find(spark) if e.examples]
    assert examples
    for example in examples:
        for line in example.examples:
            line.options.pop(doctest.SKIP, None)
        example.globs["session"] = session
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        assert runner.run(example).failed == 0


def test_a_vector_of_spark_ml_is_read_in_the_order_of_its_indexer(session):
    """The most frequent class comes first there, whatever its name is."""
    rng = np.random.default_rng(0)
    kinds = np.repeat(["setosa", "arctica", "mariana"], [500, 300, 200])
    features = rng.normal(size=(1000, 2)) + 1.5 * np.column_stack(
        [kinds == "arctica", kinds == "mariana"]
    )
    given = pd.DataFrame({"a": features[:, 0], "b": features[:, 1], "kind": kinds})
    df = session.createDataFrame(given.sample(frac=1.0, random_state=0))
    stages = [
        StringIndexer(inputCol="kind", outputCol="number"),
        VectorAssembler(inputCols=["a", "b"], outputCol="features"),
        LogisticRegression(labelCol="number"),
    ]
    predicted = Pipeline(stages=stages).fit(df).transform(df)
    told = {"scores": "probability", "label": "kind"}
    labels, order = predicted.select("kind").toPandas()["kind"], ["setosa", "arctica", "mariana"]
    rows = np.stack(predicted.select("probability").toPandas()["probability"].map(np.array))
    wanted = calibrant.FlattenedIsotonic(classes=order).fit(rows, labels).predict_proba(rows)
    with pytest.raises(errors.LabelError, match="StringIndexer"):
        fit(calibrant.FlattenedIsotonic(), predicted, **told)
    ordered = fit(calibrant.FlattenedIsotonic(classes=order), predicted, **told)
    numbered = fit(calibrant.FlattenedIsotonic(), predicted, scores="probability", label="number")
    for calibrator in (ordered, numbered):
        out = spark.predict_proba(calibrator, predicted, scores="probability").toPandas()
        assert_allclose(np.stack(out["calibrated"]), wanted, atol=1e-12)
    named = calibrant.FlattenedIsotonic().fit(FRAME[NAMES], FRAME["label"])
    with pytest.raises(errors.ColumnNameError):
        spark.predict_proba(named, predicted, scores="probability")


def test_a_calibrator_of_groups_is_refused_with_a_remedy(session):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grouped = calibrant.GroupedCalibrator(calibrant.TemperatureScaling()).fit(
            FRAME[NAMES], FRAME["label"], groups=np.resize(["north", "south"], len(FRAME))
        )
    df = session.createDataFrame(FRAME[:10])
    with pytest.raises(errors.ContainerError, match="for_group"):
        spark.predict_proba(grouped, df, scores=NAMES)
