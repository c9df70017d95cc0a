"""Which column of a table is what: labels, scores, or something that is carried along."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from calibrant.columns import are_whole
from calibrant.errors import PredictionFileError, number_of, some_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LABEL_NAMES = {"label", "labels", "target", "y", "class"}
INDEX_NAMES = {"", "Unnamed: 0", "__index_level_0__"}
"""What pandas calls an index that was written with the table."""

MISSING = re.compile(r"\s*(?:nan|none|null|na|n/a|<na>|-)?\s*", re.IGNORECASE)
"""How tables write what is not there."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller says of the columns, or leaves open: that of the labels, by its name.

    Columns of scores, and columns that hold none, are names or patterns.
    """

    label: str | None = None
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


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
    names: list[str], samples: Mapping[str, Sequence[str] | None], wish: Wish, where: str
) -> Layout:
    """Tell labels, scores and other columns apart.

    ``samples`` are the first values of each column, empty ones left out; None for a column that is
    text whatever it holds. ``where`` is the file, for messages.
    """
    ignored = _chosen(names, wish.ignore, "--ignore", where)
    ignored |= {name for name in names if name in INDEX_NAMES}
    text = {name for name in names if _is_text(samples[name])}
    free = [name for name in names if name not in ignored]
    label = _label(free, text, samples, wish, where)
    if wish.columns:
        chosen = _chosen(names, wish.columns, "--columns", where) - {label}
        scores = [name for name in names if name in chosen]
    else:
        scores = [name for name in free if name != label and name not in text]
    if len(scores) < 2:
        raise PredictionFileError(
            f"{where} has {number_of(len(scores), 'column')} of scores; at least two classes are "
            "needed, each with a column of numbers (--columns)"
        )
    is_named = label is not None and (wish.label is not None or label.casefold() in LABEL_NAMES)
    return Layout(names, label, is_named, scores, bool(wish.columns))


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
    samples: Mapping[str, Sequence[str] | None],
    wish: Wish,
    where: str,
) -> str | None:
    if wish.label is not None:
        if wish.label not in samples:
            raise PredictionFileError(
                f"{where} has no column {wish.label!r} (--label-column); it has "
                f"{some_in_words(list(samples))}"
            )
        return wish.label
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
