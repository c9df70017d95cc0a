"""``calibrant judge``: a judge's grades, held against human grades of some rows."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import click

from calibrant._cli.options import PATH, command, output_option, shared, split_names
from calibrant._cli.reading import show, write_columns

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._files.source import Request, Rows
    from calibrant._result import Result
    from calibrant._types import Array, Bools, Labels

Target = Literal["rows", "population"]


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
    target: Target,
    level: float,
    seed: int,
    output: Path | None,
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

    asked = Asked(request.groups, clusters, items, pairs, plan, values, target, level, seed)
    asked.check(unlabelled)
    given = _read(labelled, unlabelled, grade, request, asked.columns)
    with given.explained:
        result, columns = _answer(given, asked)
    facts = result.to_dict()
    if output is not None and plan is not None:
        copy_rows(labelled, columns["row"].tolist(), output)
    elif output is not None:
        write_columns(output, columns)
    for name in ("probabilities", "win_probability"):  # which -o writes
        facts.pop(name, None)
    sources = [str(path) for path in (labelled, unlabelled) if path is not None]
    show({"sources": sources, **facts}, repr(result))


@dataclass(frozen=True)
class Asked:
    """What is asked of the rows of a file."""

    groups: str | None
    clusters: str | None
    items: str | None
    pairs: tuple[str, ...] | None
    plan: float | None
    values: tuple[float, ...] | None
    target: Target
    level: float
    seed: int

    @property
    def columns(self) -> dict[str, str]:
        """Columns of the labelled file beside grades and groups, and the option of each."""
        named = dict.fromkeys(self.pairs or (), "--pairs")
        named |= {self.clusters: "--clusters"} if self.clusters else {}
        return named | ({self.items: "--items"} if self.items else {})

    def check(self, unlabelled: Path | None) -> None:
        """Refuse options that do not go together."""
        chosen = {"--pairs": self.pairs, "--groups": self.groups, "--plan": self.plan}
        asked = [name for name, value in chosen.items() if value is not None]
        if len(asked) > 1:
            raise click.UsageError(f"{' and '.join(asked)} answer different questions; give one")
        if asked and unlabelled is not None:
            raise click.UsageError(
                f"{asked[0]} is for one file, whose other rows have a blank label"
            )
        if self.clusters is not None and asked:
            raise click.UsageError(f"--clusters is not for {asked[0]}; --items names what is alike")
        if self.items is not None and asked not in (["--pairs"], ["--groups"]):
            raise click.UsageError("--items is for --groups and --pairs")
        if self.pairs is not None and len(self.pairs) != 2:
            raise click.UsageError("--pairs names two columns: --pairs first,second")


@dataclass(frozen=True)
class Given:
    """Rows of the labelled file, human grades of those that have one, and what the judge says.

    The judge's grades or scores are those of all rows, also of another file.
    """

    rows: Rows
    grades: Array
    is_graded: Bools
    judged: Array
    classes: Labels | None
    kind: str = "probabilities"
    explained: AbstractContextManager[None] = field(default_factory=nullcontext)

    @property
    def human(self) -> Array:
        """Human grade of each row, None where there is none."""
        import numpy as np

        human = np.full(len(self.judged), None, dtype=object)
        human[self.is_graded] = self.grades
        return human

    def column(self, name: str, option: str) -> Labels:
        """Return a column of names."""
        from calibrant._files.align import groups_of

        return groups_of(self.rows.column(name), self.rows.place, option)


def _answer(given: Given, asked: Asked) -> tuple[Result, dict[str, Array]]:
    """Return what is asked for, and a table to write, or the rows of a plan."""
    import numpy as np

    from calibrant import judge as judges

    items = None if asked.items is None else given.column(asked.items, "--items")
    if asked.pairs is not None:
        first, second = (given.column(name, "--pairs") for name in asked.pairs)
        judged, classes = given.judged, given.classes
        if judged.ndim == 2 and classes is not None:  # A, B and tie are in the order of the words
            judged = judged[:, np.argsort([str(verdict) for verdict in classes])]
        pairs = judges.judge_pairs(
            first,
            second,
            given.human,
            judged,
            items=items,
            confidence_level=asked.level,
            random_state=asked.seed,
        )
        return pairs, {"win_probability": pairs.win_probability}
    if asked.groups is not None:
        compared = judges.compare_judged(
            given.human,
            given.judged,
            given.column(asked.groups, "--groups"),
            items=items,
            classes=given.classes,
            values=asked.values,
            scores=given.kind,
            target=asked.target,
            confidence_level=asked.level,
            random_state=asked.seed,
        )
        means = np.array(compared.means).T
        columns = dict(zip(("mean", "low", "high"), means, strict=True))
        return compared, {"group": np.array(compared.groups), **columns}
    if asked.plan is not None:
        plan = judges.plan_labels(
            given.human,
            given.judged,
            asked.plan,
            classes=given.classes,
            values=asked.values,
            scores=given.kind,
            confidence_level=asked.level,
            random_state=asked.seed,
        )
        return plan, {"row": plan.rows}
    return _estimate_mean(given, asked)


def _estimate_mean(given: Given, asked: Asked) -> tuple[Result, dict[str, Array]]:
    """Estimate the mean of all rows; return it, and calibrated probabilities of the others."""
    from calibrant.judge import calibrate_judge

    documents = None
    if asked.clusters is not None:
        documents = given.column(asked.clusters, "--clusters")
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


def _read(
    labelled: Path,
    unlabelled: Path | None,
    grade: str | None,
    request: Request,
    more: dict[str, str],
) -> Given:
    """Read one file with blank labels, or two; ``more`` names columns of the first one."""
    import numpy as np

    from calibrant._files.align import are_known, grades_of
    from calibrant._files.formats import read_columns
    from calibrant._files.source import Place
    from calibrant.errors import PredictionFileError

    if grade is None:
        return _read_scores(labelled, unlabelled, replace(request, more=more))
    if request.kind or request.normalize or request.columns or request.ignore:
        options = "--scores, --normalize, --columns and --ignore"
        raise click.UsageError(f"{options} describe scores; with --grade there are none")
    label, classes = request.label or "label", None
    if request.classes is not None:
        named = np.array(request.classes, dtype=object)
        classes = np.unique(grades_of(named, Place("--classes")))
    columns = {label: "--label-column", grade: "--grade", **replace(request, more=more).beside}
    rows = read_columns(labelled, columns, label if unlabelled is None else None)
    stored, judged = rows.column(label), grades_of(rows.column(grade), rows.place)
    if unlabelled is None:
        is_graded = are_known(stored)
        if not is_graded.any():
            fault = f"no row has a grade in {label!r} (--label-column)"
            raise PredictionFileError(f"{labelled}: {fault}")
        stored, place = stored[is_graded], rows.place.take(np.flatnonzero(is_graded))
        return Given(rows, grades_of(stored, place), is_graded, judged, classes)
    others = read_columns(unlabelled, {grade: "--grade"})
    judged = np.concatenate([judged, grades_of(others.column(grade), others.place)])
    is_graded = np.arange(len(judged)) < len(stored)
    return Given(rows, grades_of(stored, rows.place), is_graded, judged, classes)


def _read_scores(labelled: Path, unlabelled: Path | None, request: Request) -> Given:
    """Read scores; columns of two files are matched by their names."""
    import numpy as np

    from calibrant._cli.reading import check_normalize, read_file
    from calibrant._files.align import align, are_known
    from calibrant._files.formats import open_source, read_prediction_file
    from calibrant._gate import column_order
    from calibrant.errors import PredictionFileError, naming

    if unlabelled is None:
        source = open_source(labelled, replace(request, may_lack_labels=True))
        check_normalize(labelled, request, source.kind)
        rows = source.read()
        is_graded = np.zeros(0, bool) if rows.labels is None else are_known(rows.labels)
        if not is_graded.any():
            raise PredictionFileError(f"{labelled}: no row has a label, its human grade")
        some = rows.take(np.flatnonzero(is_graded))
        if some.labels is not None and some.labels.dtype == object:
            some = replace(some, labels=np.array(some.labels.tolist()))
        first, judged = align(some, request), rows.scores
    else:
        first = read_file(labelled, request)
        rows = first.rows
        # The scores of the labelled rows name those of the others, which may have clusters, too.
        of_others = replace(
            request, more={}, known_classes=first.classes, fitted=rows.place.names or ()
        )
        second = read_prediction_file(unlabelled, of_others)
        others = second.scores
        if first.classes is not None:
            with naming(second.place):
                order = column_order(second.place.names, np.array(first.classes))
            others = others if order is None else others[:, order]
        judged = np.concatenate([rows.scores, others])
        is_graded = np.arange(len(judged)) < len(first.y)
    classes = None if first.classes is None else np.array(first.classes)
    return Given(rows, first.y, is_graded, judged, classes, rows.kind, first.explained())
