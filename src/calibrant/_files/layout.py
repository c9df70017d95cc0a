"""Which column of a table is what: labels, scores, or something that is carried along."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from calibrant._columns import are_whole
from calibrant.errors import PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Samples = Mapping[str, Sequence[str] | None]

LABEL_NAMES = {"label", "labels", "target", "y", "y_true", "class"}
PREDICTION_NAMES = {"y_pred", "y_hat", "pred", "prediction", "predicted"}
"""What a classifier decided: neither a label nor a score, unless the caller says so."""

INDEX_NAMES = {"", "Unnamed: 0", "__index_level_0__"}
"""What pandas calls an index that was written with the table."""

MISSING = re.compile(r"\s*(?:nan|none|null|na|n/a|<na>|-)?\s*", re.IGNORECASE)
"""How tables write what is not there."""

MORE_MISSING = ["None", "none", "NONE", "<NA>", "<na>", "n/A", "Na", "-", " "]
"""The same, of cells with scores, beside what Arrow knows."""


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """What the caller says of the columns, or leaves open: that of the labels, by its name.

    Columns of scores, and columns that hold none, are names or patterns. A score that is missing in
    a text table is an error, or NaN where ``takes_missing`` says that bad rows are dealt with.
    """

    label: str | None = None
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    takes_missing: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table are.

    The label column is named if it was asked for, or has the name of one. Where the caller did not
    choose the columns of scores, they are all that hold numbers.
    """

    names: list[str]
    label: str | None
    is_named: bool
    score_names: list[str]
    is_chosen: bool


def make_layout(
    names: list[str],
    samples: Samples,
    selection: ColumnSelection,
    where: str,
) -> Layout:
    """Tell labels, scores and other columns apart.

    ``samples`` are the first values of each column, empty ones left out; None for a column that is
    text whatever it holds. ``where`` is the file, for messages.
    """
    ignored = _chosen(names, selection.ignore, "--ignore", where)
    ignored |= {n for n in names if n in INDEX_NAMES or n.casefold() in PREDICTION_NAMES}
    text = {name for name in names if _is_text(samples[name])}
    free = [name for name in names if name not in ignored]
    label = _label(free, text, samples, selection, where)
    if selection.columns:
        chosen = _chosen(names, selection.columns, "--columns", where) - {label}
        scores = [name for name in names if name in chosen]
    else:
        scores = [name for name in free if name != label and name not in text]
    if len(scores) < 2:
        found = f"one column of scores, {scores[0]!r}" if scores else "no columns of scores"
        raise PredictionFileError(
            f"{where} has {found}; at least two classes are needed, each with a column of numbers "
            "(--columns), also where one is 1 minus the other"
        )
    is_named = label is not None and (
        selection.label is not None or label.casefold() in LABEL_NAMES
    )
    return Layout(names, label, is_named, scores, bool(selection.columns))


def _chosen(names: list[str], patterns: Sequence[str], option: str, where: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        if pattern in names:
            found.add(pattern)
            continue
        matching = {name for name in names if fnmatchcase(name, pattern)}
        if not matching:
            raise PredictionFileError(
                f"{where} has no column {pattern!r} ({option}); it has {some_in_words(names)}"
            )
        found |= matching
    return found


def _label(
    free: list[str],
    text: set[str],
    samples: Samples,
    selection: ColumnSelection,
    where: str,
) -> str | None:
    if selection.label is not None:
        if selection.label not in samples:
            raise PredictionFileError(
                f"{where} has no column {selection.label!r} (--label-column); it has "
                f"{some_in_words(list(samples))}"
            )
        return selection.label
    if "label" in free:
        return "label"
    usual = [name for name in free if name.casefold() in LABEL_NAMES]
    named = [name for name in usual if name in text or are_whole(samples[name] or ())]
    if len(named) > 1:
        named = [name for name in named if name in text] or named
    if len(named) > 1:
        raise PredictionFileError(
            f"{where}: columns {some_in_words(named)} may all hold the labels; choose one by "
            "--label-column"
        )
    if named:
        return named[0]
    others = [name for name in free if name in text]
    return others[0] if len(others) == 1 else None


def _is_text(sample: Sequence[str] | None) -> bool:
    """Whether no value is a number, not even one with a decimal comma or a sign of percent."""
    if sample is None:
        return True
    spoken = [text for text in sample if not MISSING.fullmatch(text)]
    return bool(spoken) and not any(
        is_number(text.rstrip("% ").replace(",", ".")) for text in spoken
    )


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
