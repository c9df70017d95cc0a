"""Which column belongs to which class, by the names of the columns.

One rule for data frames and files: names equal the labels, or the labels after one prefix that all
of them share (``prob_cat`` for ``cat``).
"""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from calibrant._types import Labels, Wholes

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(?:\.0*)?")
_NUMBER_AT_THE_END = re.compile(r"-?[0-9]{1,18}(?:\.0+)?\Z")


@dataclass(frozen=True, slots=True)
class Match:
    """Columns that are named after classes: their places, and the class of each.

    Classes that no label has are of the labels' type. The prefix is what the names have before the
    class.
    """

    columns: list[int]
    classes: list[Any]
    prefix: str = ""


def key(value: object) -> str:
    """Text that is the same for a label and for the name of its column: 1, 1.0 and "01" agree."""
    text = str(value).strip()
    return str(int(text.partition(".")[0])) if _WHOLE.fullmatch(text) else text


def are_whole(texts: Iterable[str]) -> bool:
    """Whether every text is a whole number, also as pandas writes it (``3.0``)."""
    return all(_WHOLE.fullmatch(text.strip()) for text in texts)


def match_columns(names: Sequence[Any], labels: Sequence[Any]) -> Match | None:
    """Find the columns named after the classes, where the names of all labels are among them.

    There may be more names than labels: of classes that are absent, or of other columns. None if
    the names do not say which column belongs to which label; an error if two sets of columns do.

    >>> match_columns(["fold", "prob_emu", "prob_cat"], ["cat", "emu"])
    Match(columns=[1, 2], classes=['emu', 'cat'], prefix='prob_')
    """
    if not labels:
        return None
    label_of = {key(label): label for label in labels}
    if len(label_of) != len(labels):
        label_of = {str(label): label for label in labels}
    are_numbers = are_whole(label_of)
    groups = (_by_number if are_numbers else _by_text)(names, [*label_of])
    # Two columns of one class, such as p1 and p01, are those of none.
    matches = [
        Match(columns, texts, prefix)
        for prefix, (columns, texts) in groups.items()
        if label_of.keys() <= set(texts) and len(set(texts)) == len(texts)
    ]
    if not matches:
        return None
    first, *others = sorted(matches, key=lambda match: (-len(match.columns), match.prefix))
    for other in others:
        if len(other.columns) == len(first.columns):
            a, b = (names[match.columns[0]] for match in (first, other))
            raise errors.ColumnNameError(
                f"{errors.names().prefix}two sets of columns are named after the classes, {a!r} "
                f"and {b!r}",
                remedy="pass one of them alone",
            )
    kind = type(labels[0]) if are_numbers and type(labels[0]) in (int, float) else str
    classes = [label_of.get(text, kind(text)) for text in first.classes]
    return Match(first.columns, classes, first.prefix)


def _by_number(names: Sequence[Any], _: list[str]) -> dict[str, tuple[list[int], list[str]]]:
    """Return columns and numbers at the end of their names, by what stands before them."""
    groups: dict[str, tuple[list[int], list[str]]] = {}
    for j, name in enumerate(map(str, names)):
        number = _NUMBER_AT_THE_END.search(name)
        if number is None:
            continue
        splits = {(name[: number.start()], number[0])}
        if number[0].startswith("-") and number.start() > 0:
            # A dash is a sign or a part of the prefix: p-1 is of p-1, p0, p1, or of p-1, p-2.
            splits.add((name[: number.start() + 1], number[0][1:]))
        for prefix, text in splits:
            columns, texts = groups.setdefault(prefix, ([], []))
            columns.append(j)
            texts.append(key(text))
    return groups


def _by_text(names: Sequence[Any], labels: list[str]) -> dict[str, tuple[list[int], list[str]]]:
    """Return columns and the rest of their names, by what stands before all of the labels."""
    groups = {"": ([*range(len(names))], [key(name) for name in names])}
    if not all(isinstance(name, str) for name in names):
        return groups
    known, longest = set(names), max(labels, key=lambda label: (len(label), label))
    for prefix in {name.removesuffix(longest) for name in names if name.endswith(longest)} - {""}:
        if all(prefix + label in known for label in labels):
            some = [j for j, name in enumerate(names) if name.startswith(prefix) and name != prefix]
            groups[prefix] = some, [names[j].removeprefix(prefix) for j in some]
    return groups


def column_order(names: list[Any] | None, classes: Labels, *, told: bool = True) -> Wholes | None:
    """Return the permutation that puts columns named after classes in their order, if any.

    It comes with a warning. Unless the caller was ``told`` the class of each column, those whose
    names neither tell their classes nor are in sorted order are refused.
    """
    order = None if names is None else order_of(names, classes)
    if names is None or order is None:
        if names and not told and classes.dtype.kind in "OUST" and not are_sorted(names):
            raise errors.ColumnNameError(
                f"{errors.names().prefix}columns {errors.some_in_words(names)} are neither named "
                f"after the classes {errors.some_in_words(classes.tolist())} nor in sorted order, "
                "so they cannot be told apart",
                remedy=f"rename them, or {errors.names().if_untold}",
            )
        return None
    return changed_order(order, names)


def changed_order(order: Wholes, names: Sequence[Any]) -> Wholes | None:
    """Return an order of columns with a warning, or None if it is the one that they have."""
    if np.array_equal(order, np.arange(len(order))):
        return None
    notices.warn(
        errors.ColumnOrderWarning(
            "columns are named after the classes but in another order; they were reordered to "
            f"[{errors.some_in_words([str(names[j]) for j in order])}]"
        )
    )
    return order


def order_of(names: Sequence[Any], classes: Labels) -> Wholes | None:
    """Return the columns in the order of ``classes``, if all of them are named after classes."""
    if len({isinstance(name, str) for name in names}) > 1:
        raise errors.ColumnNameError(
            f"{errors.names().prefix}column names {errors.some_in_words(names)} are not all text",
            remedy="name every column after its class, or none",
        )
    if [str(name) for name in names] == [str(c) for c in classes.tolist()]:
        return np.arange(len(names))
    match = match_columns(names, classes.tolist())
    if match is not None and len(match.columns) == len(names) == len(classes):
        place = dict(zip(match.classes, match.columns, strict=True))
        return np.array([place[c] for c in classes.tolist()], dtype=np.int64)
    if all(isinstance(name, str) for name in names):
        _refuse_some(names, {key(c) for c in classes.tolist()})
    return None


def _refuse_some(names: Sequence[str], wanted: set[str]) -> None:
    """Refuse names of which some are those of classes, and others are not, or are so twice."""
    # What all names begin with, up to the last sign that is no letter or digit.
    shared = re.sub(r"[^\W_]+\Z", "", os.path.commonprefix(list(names)))  # noqa: RUF071  (texts)
    for start, least in ((0, 1), (len(shared), 2)):
        is_class = [key(name[start:]) in wanted for name in names]
        if sum(is_class) >= least:
            raise errors.ColumnNameError(
                f"{errors.names().prefix}column {names[is_class.index(True)]!r} is named after a "
                f"class, but the columns {errors.some_in_words(names)} are not one for each class",
                remedy="name every column after its class, or none",
            )


def feature_names(names: list[Any] | None) -> dict[str, Any]:
    """``feature_names_in_`` as scikit-learn sets it: names that are text, or none."""
    if not names or not all(isinstance(name, str) for name in names):
        return {}
    return {"feature_names_in_": np.array(names, dtype=object)}


def check_names(names: list[Any] | None, fitted: NDArray[Any] | None, who: str) -> None:
    """Compare names with those of the fit, in scikit-learn's words; ``who`` is the estimator."""
    given = feature_names(names).get("feature_names_in_")
    if given is None or fitted is None:
        if given is not fitted:
            now = "does not have valid" if given is None else "has"
            then = "without" if fitted is None else "with"
            notices.warn(
                errors.CalibrantWarning(
                    f"X {now} feature names, but {who} was fitted {then} feature names"
                )
            )
        return
    if given.tolist() == fitted.tolist():
        return
    faults = "".join(
        f"{fault}:\n" + "".join(f"- {name}\n" for name in sorted(found)[:5])
        for fault, found in (
            ("Feature names unseen at fit time", set(given) - set(fitted)),
            ("Feature names seen at fit time, yet now missing", set(fitted) - set(given)),
        )
        if found
    )
    raise errors.ColumnNameError(
        "The feature names should match those that were passed during fit.\n"
        + (faults or "Feature names must be in the same order as they were in fit.\n")
    )


def are_sorted(names: Sequence[Any]) -> bool:
    """Whether names are in the order in which labels are sorted, or count upwards."""
    texts = list(map(str, names))
    return texts == sorted(texts) or texts == sorted(texts, key=_natural)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Key that sorts p2 before p10."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
