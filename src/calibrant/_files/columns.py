"""Which columns of a table hold the labels, the scores, or something else."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from calibrant._gate import ONE_COLUMN, are_whole
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Samples = Mapping[str, Sequence[str] | None]

LABEL_NAMES = {"label", "labels", "target", "y", "y_true", "class"}
PREDICTION_NAMES = {"y_pred", "y_hat", "pred", "prediction", "predicted"}
"""Columns of what a classifier decided: neither a label nor a score, unless they are chosen."""

INDEX_NAMES = {"", "Unnamed: 0", "__index_level_0__"}
"""Names that pandas gives to an index that was written with the table."""

MISSING = re.compile(r"\s*(?:nan|none|null|na|n/a|<na>|-)?\s*", re.IGNORECASE)
"""How tables write that there is no value."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks of a file, and says about it.

    ``part`` is "val" or "test" of an npz file with arrays of both, and an error for other files;
    ``usual_part`` is read where none is asked for. An npz file tells the kind of its scores by the
    names of its arrays; other files hold probabilities unless ``kind`` says otherwise. ``labels``
    is a npy file with the labels, for scores in a npy file; ``classes`` are those of a log.

    Of a table, ``label`` names the column of labels; ``columns`` and ``ignore`` are names or
    patterns of columns that hold scores, and that hold none. ``beside`` are columns that are read,
    too, and the option that names each; ``reads_others`` says that all others are, since they are
    written again, and ``reads_scores`` whether scores are. ``fitted`` are the columns that a model
    was fitted to: a table that has all of them may have other numbers beside them. ``options`` are
    what names the columns of scores and of labels, for messages.
    """

    part: str | None = None
    usual_part: str | None = None
    kind: str | None = None
    labels: Path | None = None
    classes: Sequence[Any] | None = None
    label: str | None = None
    columns: Sequence[str] = ()
    ignore: Sequence[str] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    reads_others: bool = False
    reads_scores: bool = True
    fitted: Sequence[str] = ()
    options: tuple[str, str] = ("--columns", "--label-column")

    def read_of(self, layout: Layout) -> list[str]:
        """Return the columns of a table to read."""
        needed = {layout.label, *self.beside}
        needed |= {*layout.score_names} if self.reads_scores else set()
        return [name for name in layout.names if self.reads_others or name in needed]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table are.

    Where the caller did not choose the columns of scores, they are all that hold numbers.
    """

    names: list[str]
    label: str | None
    score_names: list[str]
    is_chosen: bool


def make_layout(names: list[str], samples: Samples, request: Request, where: str) -> Layout:
    """Tell labels, scores and other columns apart.

    ``samples`` are the first values of each column, empty ones left out; None for a column that is
    text whatever it holds. ``where`` is the file, for messages.
    """
    ignored = _chosen(names, request.ignore, "--ignore", where) | INDEX_NAMES
    for name, option in request.beside.items():
        if name not in names:
            raise no_column(where, name, option, names)
        ignored.add(name)
    ignored |= {name for name in names if name.casefold() in PREDICTION_NAMES}
    text = {name for name in names if _is_text(samples[name])}
    free = [name for name in names if name not in ignored]
    label = _label(names, free, text, samples, request, where)
    scores = [name for name in free if name != label and name not in text]
    if request.columns:
        chosen = _chosen(names, request.columns, request.options[0], where)
        scores = [name for name in names if name in chosen and name != label]
    elif request.fitted and {*request.fitted} <= {*scores}:
        scores = [name for name in scores if name in request.fitted]
    _check_number(scores, samples, request, where)
    return Layout(names, label, scores, bool(request.columns))


def _check_number(scores: list[str], samples: Samples, request: Request, where: str) -> None:
    """Refuse no column, or one that was not said to be, and may not be, of the positive class."""
    if len(scores) > 1 or (scores and request.kind in ONE_COLUMN):
        return
    problem = "no columns of scores"
    if scores:
        if request.kind is None and (request.columns or not are_whole(samples[scores[0]] or [""])):
            return
        problem = f"one column of scores, {scores[0]!r}"
    raise PredictionFileError(
        f"{where} has {problem}; write a column of numbers for each of two or more classes "
        "(--columns), or for two classes one column with --scores positive, or --scores decision "
        "for margins"
    )


def _chosen(names: list[str], patterns: Sequence[str], option: str, where: str) -> set[str]:
    """Return the columns that an option names, exactly or by patterns."""
    result: set[str] = set()
    for pattern in patterns:
        exact = [name for name in names if name == pattern]
        matching = exact or [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise no_column(where, pattern, option, names)
        result.update(matching)
    return result


def no_column(where: str, name: str, option: str, names: Sequence[str]) -> PredictionFileError:
    """Return the error about a column that an option names and a file has not."""
    return PredictionFileError(
        f"{where} has no column {name!r} ({option}); it has {some_in_words(names)}"
    )


def _label(
    names: list[str],
    free: list[str],
    text: set[str],
    samples: Samples,
    request: Request,
    where: str,
) -> str | None:
    """Return the column of labels: as asked for, by its name, or the only one of text."""
    if request.label is not None:
        if request.label not in names:
            raise no_column(where, request.label, request.options[1], names)
        return request.label
    if "label" in free:
        return "label"
    # A class may be called y: numbers with fractions are its scores.
    named = [
        name
        for name in free
        if name.casefold() in LABEL_NAMES and (name in text or are_whole(samples[name] or ()))
    ]
    if len(named) > 1:
        raise PredictionFileError(
            f"{where}: columns {some_in_words(named)} may all hold the labels; choose one with "
            "--label-column"
        )
    # What a model calibrates has no labels mostly: a column of text is something else.
    others = [] if request.reads_others else [name for name in free if name in text]
    return named[0] if named else others[0] if len(others) == 1 else None


def _is_text(sample: Sequence[str] | None) -> bool:
    """Whether no value is a number, not even one with a decimal comma or a sign of percent."""
    if sample is None:
        return True
    known = [text for text in sample if not MISSING.fullmatch(text)]
    return bool(known) and not any(is_number(own.rstrip("% ").replace(",", ".")) for own in known)


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_header(head: list[str], where: str) -> None:
    """Refuse a header in which a name is missing or there twice."""
    if "" in head[1:]:  # the first one may be the index that pandas wrote
        place = head.index("", 1)
        raise PredictionFileError(f"{where}: column {place + 1} has no name; add one")
    name, times = Counter(head).most_common(1)[0] if head else ("", 0)
    if times > 1:
        raise PredictionFileError(f"{where}: column name {name!r} appears twice; rename one")
