"""Which column belongs to which class, by the names of the columns.

One rule for data frames and files: names equal the labels, or the labels after one prefix that all
of them share (``prob_cat`` for ``cat``).
"""

from __future__ import annotations

import os.path
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(?:\.0*)?")
_ENDS_IN_NUMBER = re.compile(r"(.*?[^0-9])(-?)([0-9]{1,18}(?:\.0+)?)")


@dataclass(frozen=True, slots=True)
class Match:
    """Columns that are named after classes: their places, and the class of each.

    Classes that no label has are of the labels' type. The prefix is what the names have before the
    class.
    """

    columns: list[int]
    classes: list[Any]
    prefix: str = ""


def key(value: Any) -> str:
    """Text that is the same for a label and for the name of its column: 1, 1.0 and "01" agree."""
    text = str(value).strip()
    return str(int(text.partition(".")[0])) if _WHOLE.fullmatch(text) else text


@errors.takes_names
def match_columns(
    names: Sequence[Any],
    labels: Sequence[Any],
    named: errors.Arguments | None = None,  # noqa: ARG001  (read by takes_names)
) -> Match | None:
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
    are_numbers = all(_WHOLE.fullmatch(text) for text in label_of)
    matches = _without_prefix(names, label_of, are_numbers)
    if not matches and all(isinstance(name, str) for name in names):
        matches = (_after_prefix_numbers if are_numbers else _after_prefix)(names, label_of)
    if not matches:
        return None
    first, *others = sorted(matches, key=lambda match: (-len(match.columns), match.prefix))
    for other in others:
        if len(other.columns) == len(first.columns):
            a, b = (names[match.columns[0]] for match in (first, other))
            raise errors.ColumnNameError(
                f"{errors.names().prefix}two sets of columns are named after the classes, {a!r} "
                f"and {b!r}",
                remedy=errors.names().if_named_twice,
            )
    kind = type(labels[0]) if are_numbers and type(labels[0]) in (int, float) else str
    classes = [label_of.get(text, kind(text)) for text in first.classes]
    return Match(first.columns, classes, first.prefix)


def _without_prefix(
    names: Sequence[Any], wanted: Mapping[str, Any], are_numbers: bool
) -> list[Match]:
    """Match names that are the classes themselves; those of no label may be other classes."""
    keys = [key(name) for name in names]
    if len(set(keys)) != len(keys) or not wanted.keys() <= set(keys):
        return []
    columns = [j for j, text in enumerate(keys) if not are_numbers or _WHOLE.fullmatch(text)]
    return [Match(columns, [keys[j] for j in columns])]


def _after_prefix_numbers(names: Sequence[str], wanted: Mapping[str, Any]) -> list[Match]:
    """Match numbers at the end of names, grouped by what stands before them."""
    groups: dict[str, dict[str, int]] = {}
    for j, name in enumerate(names):
        found = _ENDS_IN_NUMBER.fullmatch(name)
        if found is not None:
            prefix, sign, number = found.groups()
            # A dash is a sign or a part of the prefix: p-1 is one of p-1, p0, p1, or of p-1, p-2.
            for before, inside in {(prefix, sign + number), (prefix + sign, number)}:
                groups.setdefault(before, {}).setdefault(key(inside), j)
    return [
        Match([*group.values()], [*group], prefix)
        for prefix, group in groups.items()
        if wanted.keys() <= group.keys()
    ]


def _after_prefix(names: Sequence[str], wanted: Mapping[str, Any]) -> list[Match]:
    """Match labels at the end of names, where one prefix stands before all of them."""
    place = {name: j for j, name in enumerate(names)}
    longest = max(wanted, key=lambda label: (len(label), label))
    matches = []
    for prefix in {name.removesuffix(longest) for name in names if name.endswith(longest)}:
        if len(place) == len(names) and all(prefix + label in place for label in wanted):
            inside = {
                name.removeprefix(prefix): j
                for name, j in place.items()
                if name.startswith(prefix) and name != prefix
            }
            matches.append(Match([*inside.values()], [*inside], prefix))
    return matches


@errors.takes_names
def column_order(
    names: list[Any] | None,
    classes: NDArray[Any],
    *,
    told: bool = True,
    named: errors.Arguments | None = None,  # noqa: ARG001  (read by takes_names)
) -> NDArray[np.int64] | None:
    """Return the permutation that puts columns named after classes in their order, if any.

    Unless the caller was ``told`` the class of each column, those whose names neither tell their
    classes nor are in sorted order are refused.
    """
    if names is None:
        return None
    order = order_of(names, classes)
    if order is None:
        if not told and classes.dtype.kind in "OUST" and not are_sorted(names):
            raise errors.ColumnNameError(
                f"{errors.names().prefix}columns {errors.some_in_words(names)} are neither named "
                f"after the classes {errors.some_in_words(classes.tolist())} nor in sorted order, "
                "so they cannot be told apart",
                remedy=f"rename them, or {errors.names().if_untold}",
            )
        return None
    return changed_order(order, names)


def changed_order(order: NDArray[np.int64], names: Sequence[Any]) -> NDArray[np.int64] | None:
    """Return an order of columns with a warning, or None if it is the one that they have."""
    if np.array_equal(order, np.arange(len(order))):
        return None
    wanted = [str(names[j]) for j in order[:5]]
    notices.warn(
        errors.ColumnOrderWarning(
            "columns are named after the classes but in another order; they were reordered to "
            f"{wanted}{'...' if len(order) > 5 else ''}"
        )
    )
    return order


@errors.takes_names
def order_of(
    names: Sequence[Any],
    classes: NDArray[Any],
    named: errors.Arguments | None = None,  # noqa: ARG001  (read by takes_names)
) -> NDArray[np.int64] | None:
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
    """Refuse names of which some are those of classes, and others are not."""
    # What all names begin with, up to the last sign that is no letter or digit.
    shared = re.sub(r"[^\W_]+\Z", "", os.path.commonprefix(list(names)))  # noqa: RUF071  (texts)
    for start, least in ((0, 1), (len(shared), 2)):
        inside = [key(name[start:]) for name in names]
        is_class = [text in wanted for text in inside]
        if sum(is_class) < least:
            continue
        if all(is_class):
            twice = next((text for text, n in Counter(inside).items() if n > 1), "")
            fault = f"{twice!r} appears twice"
        else:
            fault = f"{names[is_class.index(False)]!r} is not"
        raise errors.ColumnNameError(
            f"{errors.names().prefix}column {names[is_class.index(True)]!r} is named after a "
            f"class but {fault}",
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
    counted = [_natural(text) for text in texts]
    return texts == sorted(texts) or counted == sorted(counted)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Key that sorts p2 before p10."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]


def are_whole(texts: Iterable[str]) -> bool:
    """Whether every text is a whole number, also as pandas writes it (``3.0``)."""
    return all(_WHOLE.fullmatch(text.strip()) for text in texts)
