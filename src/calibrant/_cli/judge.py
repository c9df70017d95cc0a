"""``calibrant judge``: a judge's grades, held against human grades of some rows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import Reading, file_argument, names, reading_options
from calibrant._cli.showing import json_option, show, write_columns

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.align import Aligned
    from calibrant.judge import JudgeReport


def numbers(text: str) -> tuple[float, ...]:
    """Split numbers at commas."""
    return tuple(map(float, names(text)))


LEVEL = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("labelled", type=file_argument)
@click.argument("unlabelled", type=file_argument)
@click.option("--grade", help="Field or column with the judge's grade, if it has no scores.")
@click.option(
    "--clusters",
    metavar="NAME",
    help="Field or column of LABELLED with what was drawn, if rows were not: their document.",
)
@reading_options("kind", "normalize", "label_column", "columns", "ignore", "classes")
@click.option("--values", type=numbers, help="Numbers that the sorted grades stand for.")
@click.option(
    "--target",
    type=click.Choice(["rows", "population"]),
    default="rows",
    help="Estimate the mean of these rows, or of the population they are drawn from.",
)
@click.option("--level", type=LEVEL, default=0.95, help="Confidence level of the intervals.")
@click.option("--seed", default=0, help="Seed of the folds.")
@click.option("-o", "--output", type=OutputPath(), help="Table of calibrated probabilities.")
@json_option
def judge(
    labelled: Path,
    unlabelled: Path,
    grade: str | None,
    clusters: str | None,
    reading: Reading,
    values: tuple[float, ...] | None,
    target: Literal["rows", "population"],
    level: float,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Calibrate a judge to human grades and estimate their mean.

    The label of a row of LABELLED is its human grade; UNLABELLED has the rows without one. The mean
    is that of the human grades of all rows. With --grade, --classes names all grades that humans
    could give, of which the labels may lack some.

    \b
    Example:
      calibrant judge graded.jsonl others.jsonl --grade judge --label-column human
    """  # noqa: D301
    from calibrant._files.predictions import read_column, read_grades
    from calibrant._files.values import groups_of
    from calibrant.judge import calibrate_judge

    documents, kind = None, "probabilities"
    explained: AbstractContextManager[None] = nullcontext()
    if clusters is not None:
        column, place = read_column(labelled, clusters, "--clusters")
        documents = groups_of(column, place, option="--clusters")
    if grade is not None:
        if words := reading.words("kind", "normalize", "columns", "ignore"):
            raise click.UsageError(f"{words[0]} describes scores; with --grade there are none")
        human = read_grades(labelled, reading.label_column or "label", "--label-column")
        own, others = (read_grades(path, grade, "--grade") for path in (labelled, unlabelled))
        classes = _declared(reading.classes, human)
    else:
        beside = {} if clusters is None else {clusters: "--clusters"}
        first, others = _read_scores(labelled, unlabelled, reading, beside)
        human, own, classes, kind = first.y, first.matrix, first.classes, first.kind
        explained = first.explained()
    with explained:
        report = calibrate_judge(
            human,
            own,
            others,
            classes=classes,
            values=values,
            clusters=documents,
            scores=kind,
            target=target,
            confidence_level=level,
            random_state=seed,
        )
    if output is not None:
        _write(report, output)
    numbers = report.to_dict()
    del numbers["probabilities"]
    show({"sources": [str(labelled), str(unlabelled)], **numbers}, as_json, repr(report))


def _declared(names: tuple[str, ...] | None, human: Any) -> Any:
    """Return the grades that were named on the command line as the humans' are stored."""
    import numpy as np

    if names is None or human.dtype.kind not in "iuf":
        return names
    try:
        grades = np.sort([float(name) for name in names])
    except ValueError as error:
        raise click.UsageError(f"--classes {','.join(names)}: the grades are numbers") from error
    is_whole = human.dtype.kind != "f" and bool((grades % 1 == 0).all())
    return grades.astype(human.dtype) if is_whole else grades


def _read_scores(
    labelled: Path, unlabelled: Path, reading: Reading, beside: dict[str, str]
) -> tuple[Aligned, NDArray[Any]]:
    """Read scores of each grade; columns of both files are matched by their names."""
    import numpy as np

    from calibrant._files.predictions import read_prediction_file
    from calibrant._gate import column_order

    first = reading.read(labelled, beside=beside)
    # The scores of the labelled rows name those of the others, which may have clusters, too.
    request = replace(reading.request(), classes=first.classes, fitted=first.place.names or ())
    second = read_prediction_file(unlabelled, request)
    order = None
    if first.classes is not None:
        order = column_order(second.place.names, np.array(first.classes), named=second.place)
    return first, second.scores if order is None else second.scores[:, order]


def _write(report: JudgeReport, output: Path) -> None:
    """Write the probability of each grade, and their mean, for every row that has no label."""
    columns = {str(c): p for c, p in zip(report.classes, report.probabilities.T, strict=True)}
    write_columns(output, columns | {"mean": report.probabilities @ report.values})
