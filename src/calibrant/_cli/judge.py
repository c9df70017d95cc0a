"""``calibrant judge``: a judge's grades, held against human grades of some rows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from calibrant._cli.options import PATH, names, output_option, shared
from calibrant._cli.showing import show, write_columns

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._cli.reading import Reading
    from calibrant._files.align import Aligned


def numbers(text: str) -> tuple[float, ...]:
    """Split numbers at commas."""
    return tuple(map(float, names(text)))


@click.command()
@click.argument("labelled", type=PATH)
@click.argument("unlabelled", type=PATH)
@click.option("--grade", help="Field or column with the judge's grade, if it has no scores.")
@click.option(
    "--clusters",
    metavar="NAME",
    help="Field or column of LABELLED with what was drawn, if rows were not: their document.",
)
@shared("kind", "normalize", "label_column", "columns", "ignore", "classes")
@click.option("--values", type=numbers, help="Numbers that the sorted grades stand for.")
@click.option(
    "--target",
    type=click.Choice(["rows", "population"]),
    default="rows",
    help="Estimate the mean of these rows, or of the population they are drawn from.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    help="Confidence level of the intervals.",
)
@output_option("Table of calibrated probabilities.", required=False)
@shared("seed", "as_json")
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

    documents: Any = None
    kind = "probabilities"
    explained: AbstractContextManager[None] = nullcontext()
    if grade is None:
        beside = {} if clusters is None else {clusters: "--clusters"}
        first, others = _read_scores(labelled, unlabelled, reading, beside)
        human, own, classes, kind = first.y, first.matrix, first.classes, first.kind
        explained = first.explained()
        if clusters is not None:
            documents = groups_of(first.beside[clusters], first.place, option="--clusters")
    else:
        if reading.kind or reading.normalize or reading.columns or reading.ignore:
            raise click.UsageError(
                "--scores, --normalize, --columns and --ignore describe scores; with --grade there "
                "are none"
            )
        human = read_grades(labelled, reading.label_column or "label", "--label-column")
        own, others = (read_grades(path, grade, "--grade") for path in (labelled, unlabelled))
        classes = _declared(reading.classes, human)
        if clusters is not None:
            column, place = read_column(labelled, clusters, "--clusters")
            documents = groups_of(column, place, option="--clusters")
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
        columns = {str(c): p for c, p in zip(report.classes, report.probabilities.T, strict=True)}
        write_columns(output, columns | {"mean": report.probabilities @ report.values})
    result = report.to_dict()
    del result["probabilities"]
    show({"sources": [str(labelled), str(unlabelled)], **result}, as_json, repr(report))


def _declared(grades: tuple[str, ...] | None, human: NDArray[Any]) -> Any:
    """Return the grades that were named on the command line as the humans' are stored."""
    import numpy as np

    if grades is None or human.dtype.kind not in "iuf":
        return grades
    try:
        result = np.sort([float(name) for name in grades])
    except ValueError as error:
        raise click.UsageError(f"--classes {','.join(grades)}: the grades are numbers") from error
    is_whole = human.dtype.kind != "f" and bool((result % 1 == 0).all())
    return result.astype(human.dtype) if is_whole else result


def _read_scores(
    labelled: Path, unlabelled: Path, reading: Reading, beside: dict[str, str]
) -> tuple[Aligned, NDArray[Any]]:
    """Read both files of scores, whose columns are matched by their names."""
    import numpy as np

    from calibrant._files.predictions import read_prediction_file
    from calibrant._gate import column_order
    from calibrant.errors import naming

    first = reading.read(labelled, beside=beside)
    # The scores of the labelled rows name those of the others, which may have clusters, too.
    request = replace(reading.request(), classes=first.classes, fitted=first.place.names or ())
    second = read_prediction_file(unlabelled, request)
    order = None
    if first.classes is not None:
        with naming(second.place):
            order = column_order(second.place.names, np.array(first.classes))
    return first, second.scores if order is None else second.scores[:, order]
