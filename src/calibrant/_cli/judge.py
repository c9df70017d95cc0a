"""``calibrant judge``: a judge's grades, held against human grades of some rows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import click

from calibrant._cli.options import PATH, command, output_option, shared, split_names
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
@click.argument("unlabelled", type=PATH, required=False)
@click.option("--grade", help="Field or column with the judge's grade, if it has no scores.")
@click.option(
    "--clusters",
    metavar="NAME",
    help="Field or column of LABELLED with what was drawn, if rows were not: their document.",
)
@click.option(
    "--items",
    metavar="NAME",
    help="Field or column with the question of each row, for --groups and --pairs.",
)
@click.option(
    "--pairs",
    metavar="FIRST,SECOND",
    type=split_names,
    help="Fields or columns with the models whose answers were compared, in the order shown.",
)
@click.option(
    "--plan",
    metavar="WIDTH",
    type=click.FloatRange(min=0, min_open=True),
    help="Say which rows to grade for an interval of this width; -o writes them.",
)
@shared("kind", "normalize", "label", "columns", "ignore", "classes", "groups")
@click.option("--values", type=numbers, help="Numbers that the sorted grades stand for.")
@click.option(
    "--target",
    type=click.Choice(["rows", "population"]),
    default="rows",
    help="Estimate the mean of these rows, or of the population they are drawn from.",
)
@output_option("Table of calibrated probabilities, or of the rows of a plan.", required=False)
@shared("level", "seed", "as_json")
def judge(
    labelled: Path,
    unlabelled: Path | None,
    grade: str | None,
    clusters: str | None,
    items: str | None,
    pairs: tuple[str, ...] | None,
    plan: float | None,
    request: Request,
    values: tuple[float, ...] | None,
    target: Literal["rows", "population"],
    level: float,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Calibrate a judge to human grades and estimate their mean.

    The label of a row of LABELLED is its human grade; rows without one are those of UNLABELLED, or
    have a blank label. The mean is that of the human grades of all rows. With --grade, --classes
    names all grades that humans could give, of which the labels may lack some.

    \b
    Example:
      calibrant judge graded.jsonl others.jsonl --grade judge --label-column human
      calibrant judge all.csv --grade judge --label-column human --groups model
    """  # noqa: D301
    from calibrant._files.formats import copy_rows

    _check_options(unlabelled, clusters, items, pairs, plan, request)
    asked = Asked(labelled, values, target, level, seed, request.groups, clusters, items)
    more = dict.fromkeys(pairs or (), "--pairs")
    more |= {clusters: "--clusters"} if clusters else {}
    more |= {items: "--items"} if items else {}
    given = _read(labelled, unlabelled, grade, request, more)
    columns: dict[str, Any] = {}
    with given.explained or nullcontext():
        if pairs is not None:
            result, columns = _compare_pairs(given, asked, *pairs)
        elif request.groups is not None:
            result, columns = _compare_groups(given, asked)
        elif plan is not None:
            result = _plan(given, asked, plan)
        else:
            result, columns = _estimate_mean(given, asked)
    if output is not None and plan is not None:
        copy_rows(labelled, result.rows, output)
    elif output is not None:
        write_columns(output, columns)
    facts = result.to_dict()
    for name in ("probabilities", "win_probability"):  # which -o writes
        facts.pop(name, None)
    sources = [str(path) for path in (labelled, unlabelled) if path is not None]
    show({"sources": sources, **facts}, as_json, repr(result))


def _check_options(
    unlabelled: Path | None,
    clusters: str | None,
    items: str | None,
    pairs: tuple[str, ...] | None,
    plan: float | None,
    request: Request,
) -> None:
    """Refuse options that do not go together."""
    chosen = {"--pairs": pairs, "--groups": request.groups, "--plan": plan}
    asked = [name for name, value in chosen.items() if value is not None]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} answer different questions; give one")
    if asked and unlabelled is not None:
        raise click.UsageError(f"{asked[0]} is for one file, whose other rows have a blank label")
    if clusters is not None and asked:
        raise click.UsageError(f"--clusters is not for {asked[0]}; --items names what is alike")
    if items is not None and asked not in (["--pairs"], ["--groups"]):
        raise click.UsageError("--items is for --groups and --pairs")
    if pairs is not None and len(pairs) != 2:
        raise click.UsageError("--pairs names two columns: --pairs first,second")


@dataclass(frozen=True)
class Given:
    """Grades or scores of a judge for all rows, and human grades of those that have one."""

    grades: NDArray[Any]
    is_graded: NDArray[Any]
    judged: NDArray[Any]
    classes: list[Any] | None = None
    kind: str = "probabilities"
    explained: AbstractContextManager[None] | None = None

    @property
    def human(self) -> NDArray[Any]:
        """Human grade of each row, None where there is none."""
        import numpy as np

        human = np.full(len(self.judged), None, dtype=object)
        human[self.is_graded] = self.grades
        return human


@dataclass(frozen=True)
class Asked:
    """What is asked of the rows of a file."""

    file: Path
    values: tuple[float, ...] | None
    target: Literal["rows", "population"]
    level: float
    seed: int
    groups: str | None
    clusters: str | None
    items: str | None

    def column(self, name: str, option: str) -> NDArray[Any]:
        """Return a column of names."""
        from calibrant._files.formats import read_group_column

        return read_group_column(self.file, name, option)

    def question(self) -> NDArray[Any] | None:
        """Return the question of each row, if there are any."""
        return None if self.items is None else self.column(self.items, "--items")


def _estimate_mean(given: Given, asked: Asked) -> tuple[Any, dict[str, Any]]:
    """Estimate the mean of all rows; return it, and calibrated probabilities of the others."""
    from calibrant.judge import calibrate_judge

    documents = None
    if asked.clusters is not None:
        documents = asked.column(asked.clusters, "--clusters")
        documents = documents[given.is_graded[: len(documents)]]
    result = calibrate_judge(
        given.grades,
        given.judged[given.is_graded],
        given.judged[~given.is_graded],
        classes=given.classes,
        values=asked.values,
        clusters=documents,
        scores=given.kind,
        target=asked.target,
        confidence_level=asked.level,
        random_state=asked.seed,
    )
    columns = {str(c): p for c, p in zip(result.classes, result.probabilities.T, strict=True)}
    return result, columns | {"mean": result.probabilities @ result.values}


def _compare_groups(given: Given, asked: Asked) -> tuple[Any, dict[str, Any]]:
    """Compare groups, such as models; return the result, and a table of means."""
    from calibrant.judge import compare_judged

    result = compare_judged(
        given.human,
        given.judged,
        asked.column(str(asked.groups), "--groups"),
        items=asked.question(),
        classes=given.classes,
        values=asked.values,
        scores=given.kind,
        target=asked.target,
        confidence_level=asked.level,
        random_state=asked.seed,
    )
    means, lows, highs = zip(*result.means, strict=True)
    return result, {"group": result.groups, "mean": means, "low": lows, "high": highs}


def _compare_pairs(
    given: Given, asked: Asked, first: str, second: str
) -> tuple[Any, dict[str, Any]]:
    """Compare models by pairs of answers; return the result, and the chance of each first one."""
    import numpy as np

    from calibrant.judge import judge_pairs

    judged, classes = given.judged, given.classes
    if judged.ndim == 2 and classes is not None:  # A, B and tie are in the order of the words
        judged = judged[:, np.argsort([str(verdict) for verdict in classes])]
    result = judge_pairs(
        asked.column(first, "--pairs"),
        asked.column(second, "--pairs"),
        given.human,
        judged,
        items=asked.question(),
        confidence_level=asked.level,
        random_state=asked.seed,
    )
    return result, {"win_probability": result.win_probability}


def _plan(given: Given, asked: Asked, width: float) -> Any:
    """Plan which rows to grade."""
    from calibrant.judge import plan_labels

    return plan_labels(
        given.human,
        given.judged,
        width,
        classes=given.classes,
        values=asked.values,
        scores=given.kind,
        confidence_level=asked.level,
        random_state=asked.seed,
    )


def _read(
    labelled: Path,
    unlabelled: Path | None,
    grade: str | None,
    request: Request,
    more: dict[str, str],
) -> Given:
    """Read one file with blank labels, or two; ``more`` names columns of the first one."""
    import numpy as np

    from calibrant._files.formats import grades_of, read_grades, read_some_grades
    from calibrant._files.source import Place

    if grade is None:
        first, is_graded, judged = _read_scores(labelled, unlabelled, request, more)
        kind = first.rows.kind
        return Given(first.y, is_graded, judged, first.classes, kind, first.explained())
    if request.kind or request.normalize or request.columns or request.ignore:
        raise click.UsageError(
            "--scores, --normalize, --columns and --ignore describe scores; with --grade there "
            "are none"
        )
    label, classes = request.label or "label", None
    if request.classes is not None:
        named = np.array(request.classes, dtype=object)
        classes = np.unique(grades_of(named, Place("--classes"))).tolist()
    if unlabelled is None:
        is_graded, human = read_some_grades(labelled, label, "--label-column")
        return Given(human, is_graded, read_grades(labelled, grade, "--grade"), classes)
    human = read_grades(labelled, label, "--label-column")
    own, others = (read_grades(path, grade, "--grade") for path in (labelled, unlabelled))
    is_graded = np.arange(len(own) + len(others)) < len(own)
    return Given(human, is_graded, np.concatenate([own, others]), classes)


def _read_scores(
    labelled: Path, unlabelled: Path | None, request: Request, more: dict[str, str]
) -> tuple[Aligned, NDArray[Any], NDArray[Any]]:
    """Read scores; columns of two files are matched by their names."""
    import numpy as np

    from calibrant._cli.reading import check_normalize, read_file
    from calibrant._files.align import align
    from calibrant._files.formats import are_known, open_source, read_prediction_file
    from calibrant._gate import column_order
    from calibrant.errors import PredictionFileError, naming

    if unlabelled is None:
        source = open_source(labelled, replace(request, may_lack_labels=True, more=more))
        check_normalize(labelled, request, source.kind)
        rows = source.read()
        is_graded = np.zeros(0, bool) if rows.labels is None else are_known(rows.labels)
        if not is_graded.any():
            raise PredictionFileError(f"{labelled}: no row has a label, its human grade")
        places = np.flatnonzero(is_graded)
        some = replace(rows.take(places), place=rows.place.take(places))
        if some.labels is not None and some.labels.dtype == object:
            some = replace(some, labels=np.array(some.labels.tolist()))
        return align(some, request), is_graded, rows.scores
    first = read_file(labelled, replace(request, more=more))
    # The scores of the labelled rows name those of the others, which may have clusters, too.
    fitted = first.rows.place.names or ()
    second = read_prediction_file(
        unlabelled, replace(request, known_classes=first.classes, fitted=fitted)
    )
    others = second.scores
    if first.classes is not None:
        with naming(second.place):
            order = column_order(second.place.names, np.array(first.classes))
        others = others if order is None else others[:, order]
    is_graded = np.arange(len(first.y) + len(others)) < len(first.y)
    return first, is_graded, np.concatenate([first.rows.scores, others])
