"""``calibrant judge``: a judge's grades, held against human grades of some rows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from calibrant._cli.options import PATH, command, output_option, shared, split_names
from calibrant._cli.reading import read_file
from calibrant._cli.showing import show, write_columns

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._files.align import Aligned
    from calibrant._files.request import Request


def numbers(text: str) -> tuple[float, ...]:
    """Split numbers at commas."""
    return tuple(map(float, split_names(text)))


@command()
@click.argument("labelled", type=PATH)
@click.argument("unlabelled", type=PATH)
@click.option("--grade", help="Field or column with the judge's grade, if it has no scores.")
@click.option(
    "--clusters",
    metavar="NAME",
    help="Field or column of LABELLED with what was drawn, if rows were not: their document.",
)
@shared("kind", "normalize", "label", "columns", "ignore", "classes")
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
    request: Request,
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
    import numpy as np

    from calibrant._files.formats import grades_of, read_grades, read_group_column
    from calibrant._files.source import Place
    from calibrant.judge import calibrate_judge

    kind = "probabilities"
    explained: AbstractContextManager[None] = nullcontext()
    if grade is None:
        first, others = _read_scores(labelled, unlabelled, request, clusters)
        human, own, classes, kind = first.y, first.rows.scores, first.classes, first.rows.kind
        explained = first.explained()
    else:
        if request.kind or request.normalize or request.columns or request.ignore:
            raise click.UsageError(
                "--scores, --normalize, --columns and --ignore describe scores; with --grade there "
                "are none"
            )
        human = read_grades(labelled, request.label or "label", "--label-column")
        own, others = (read_grades(path, grade, "--grade") for path in (labelled, unlabelled))
        classes = None
        if request.classes is not None:
            named = np.array(request.classes, dtype=object)
            classes = np.unique(grades_of(named, Place("--classes"))).tolist()
    documents = None if clusters is None else read_group_column(labelled, clusters, "--clusters")
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


def _read_scores(
    labelled: Path, unlabelled: Path, request: Request, clusters: str | None
) -> tuple[Aligned, NDArray[Any]]:
    """Read both files of scores, whose columns are matched by their names."""
    import numpy as np

    from calibrant._files.formats import read_prediction_file
    from calibrant._gate import column_order
    from calibrant.errors import naming

    more = {} if clusters is None else {clusters: "--clusters"}
    first = read_file(labelled, replace(request, more=more))
    # The scores of the labelled rows name those of the others, which may have clusters, too.
    fitted = first.rows.place.names or ()
    second = read_prediction_file(
        unlabelled, replace(request, known_classes=first.classes, fitted=fitted)
    )
    order = None
    if first.classes is not None:
        with naming(second.place):
            order = column_order(second.place.names, np.array(first.classes))
    return first, second.scores if order is None else second.scores[:, order]
