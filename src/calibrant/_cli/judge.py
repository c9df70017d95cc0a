"""``calibrant judge``: a judge's grades, held against human grades of some rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.reading import Reading, file_argument, names, path_argument, reading_options
from calibrant._cli.showing import json_option, show

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant.judge import JudgeReport


def numbers(text: str) -> tuple[float, ...]:
    """Split numbers at commas."""
    return tuple(map(float, names(text)))


LEVEL = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("labelled", type=file_argument)
@click.argument("unlabelled", type=file_argument)
@click.option("--grade", help="Field or column with the judge's grade, if there are no scores.")
@reading_options("kind", "normalize", "label_column", "columns", "ignore", "classes")
@click.option("--values", type=numbers, help="Number that each grade stands for, sorted grades.")
@click.option(
    "--target",
    type=click.Choice(["rows", "population"]),
    default="rows",
    help="Whose mean: of these rows, or of all that they are drawn from.",
)
@click.option("--level", type=LEVEL, default=0.95, help="Confidence level of the intervals.")
@click.option("--seed", default=0, help="Seed of the folds.")
@click.option("-o", "--output", type=path_argument, help="Table of calibrated probabilities.")
@json_option
def judge(
    labelled: Path,
    unlabelled: Path,
    grade: str | None,
    reading: Reading,
    values: tuple[float, ...] | None,
    level: float,
    seed: int,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Calibrate a judge to human grades in LABELLED, and estimate the mean grade of all rows.

    LABELLED has the human grade as its label; UNLABELLED are the other rows.

    \b
    Example:
      calibrant judge graded.jsonl others.jsonl --grade judge --label-column human
    """  # noqa: D301
    from calibrant.judge import calibrate_judge

    options |= {"values": values, "confidence_level": level, "random_state": seed}
    if grade is not None:
        human = _read_column(labelled, reading.label_column or "label")
        own, others = _read_column(labelled, grade), _read_column(unlabelled, grade)
        report = calibrate_judge(human, own, others, **options)
    else:
        report = _judge_scores(labelled, unlabelled, reading, options)
    if output is not None:
        _write(report, output, labelled, unlabelled)
    numbers = report.to_dict()
    del numbers["probabilities"]
    show({"sources": [str(labelled), str(unlabelled)], **numbers}, as_json, repr(report))


def _judge_scores(
    labelled: Path, unlabelled: Path, reading: Reading, options: dict[str, Any]
) -> JudgeReport:
    """Judge by scores of each grade; columns of both files are matched by their names."""
    from calibrant._columns import column_order
    from calibrant._files.predictions import read_prediction_file
    from calibrant.judge import calibrate_judge

    first = reading.read(labelled)
    told: dict[str, Any] = {"kind": reading.kind, "selection": reading.selection}
    second = read_prediction_file(unlabelled, classes=first.classes, **told)
    classes, other = first.classes, second.scores
    if classes is not None and second.place.names is not None:
        import numpy as np

        order = column_order(second.place.names, np.array(classes), named=second.place)
        other = other if order is None else other[:, order]
    with first.explained():
        return calibrate_judge(
            first.y, first.matrix, other, classes=classes, scores=first.kind, **options
        )


def _read_column(path: Path, name: str) -> NDArray[Any]:
    """Read a column of a table, or a field of records; whole numbers are such."""
    import numpy as np

    from calibrant._files.align import read_labels
    from calibrant._files.records import is_log, read_records
    from calibrant._files.text import Place
    from calibrant.errors import PredictionFileError, some_in_words

    of = f"the field or column {name!r}: name the judge's by --grade, the humans' by --label-column"
    if is_log(path):
        records = list(read_records(path))
        for record in records:
            if not isinstance(record.fields.get(name), str | int | float):
                raise PredictionFileError(f"{record.where} has no grade in {of}")
        found = [str(record.fields[name]) for record in records]
        lines = [record.place for record in records]
        return read_labels(np.array(found, dtype=object), Place(path, str(path), lines=lines))
    table = _read_table(path)
    if name not in table.column_names:
        known = some_in_words(table.column_names)
        raise PredictionFileError(f"{path} has the columns {known}, and not {of}")
    found = ["" if value is None else str(value) for value in table.column(name).to_pylist()]
    return read_labels(np.array(found, dtype=object), Place(path, str(path)))


def _read_table(path: Path) -> Any:
    """Read a table whole."""
    from pyarrow import csv, dataset

    from calibrant._files.arrays import decoding
    from calibrant._files.predictions import unknown_format
    from calibrant._files.tables import PARQUET, is_table
    from calibrant._files.text import TEXT, open_text, suffix_of

    if not is_table(path):
        raise unknown_format(path)
    suffix = suffix_of(path)
    with decoding(path, "a table"):
        if suffix not in TEXT:
            return dataset.dataset(
                path, format="parquet" if suffix in PARQUET else "ipc"
            ).to_table()
        with open_text(path) as file:
            return csv.read_csv(file, parse_options=csv.ParseOptions(delimiter=TEXT[suffix]))


def _write(report: JudgeReport, output: Path, *inputs: Path) -> None:
    """Write the probability of each grade, and their mean, for every row that has no label."""
    import pyarrow as pa

    from calibrant._atomic_file import replace_file
    from calibrant._files import tables
    from calibrant._files.apply import open_writer, refuse_inputs
    from calibrant._files.text import suffix_of

    refuse_inputs(output, *inputs)
    if not tables.is_table(output):
        raise click.UsageError(f"{output}: write a table, .csv or .parquet for one")
    columns = {str(c): p for c, p in zip(report.classes, report.probabilities.T, strict=True)}
    table = pa.table(columns | {"mean": report.probabilities @ report.values})
    with replace_file(output) as file:
        writer = open_writer(suffix_of(output), file, table.schema)
        writer.write(table)
        writer.close()
