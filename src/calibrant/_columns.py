"""Which column belongs to which class, by the names of the columns.

One rule for data frames and files: names equal the labels, or the labels with one prefix and one
suffix that all of them share (``prob_cat`` for ``cat``).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(?:\.0*)?")
_NUMBER_INSIDE = re.compile(r"[0-9]{1,18}(?:\.0+(?![0-9]))?")


@dataclass(frozen=True, slots=True)
class Match:
    """Columns that are named after classes: their places, and the class of each.

    Classes that no label has are of the labels' type. The prefix and the suffix are what the names
    have before and after the class.
    """

    columns: list[int]
    classes: list[Any]
    prefix: str = ""
    suffix: str = ""


def key(value: Any) -> str:
    """Text that is the same for a label and for the name of its column: 1, 1.0 and "01" agree."""
    text = str(value).strip()
    return str(int(text.partition(".")[0])) if _WHOLE.fullmatch(text) else text


def match_columns(
    names: Sequence[Any], labels: Sequence[Any], named: errors.Arguments = errors.ARGUMENTS
) -> Match | None:
    """Find the columns named after the classes, where the names of all labels are among them.

    There may be more names than labels: of classes that are absent, or of other columns. None if
    the names do not say which column belongs to which label; an error if two sets of columns do.

    >>> match_columns(["fold", "prob_emu", "prob_cat"], ["cat", "emu"])
    Match(columns=[1, 2], classes=['emu', 'cat'], prefix='prob_', suffix='')
    """
    if not labels:
        return None
    own = {key(label): label for label in labels}
    if len(own) != len(labels):
        own = {str(label): label for label in labels}
    are_numbers = all(_WHOLE.fullmatch(text) for text in own)
    exact = _exact(names, own.keys(), are_numbers)
    found = [] if exact is None else [exact]
    if not found and all(isinstance(name, str) for name in names):
        found = _by_numbers(names, own.keys()) if are_numbers else _by_text(names, own.keys())
        if not found and not are_numbers:
            own = {text.casefold(): label for text, label in own.items()}
            if len(own) == len(labels):
                found = _by_text([name.casefold() for name in names], own.keys())
    if not found:
        return None
    best = _the_only(names, found, own.keys(), named)
    kind = type(labels[0]) if are_numbers and type(labels[0]) in (int, float) else str
    classes = [own[text] if text in own else kind(text) for text in best.classes]
    return replace(best, classes=classes)


def _exact(names: Sequence[Any], wanted: AbstractSet[str], are_numbers: bool) -> Match | None:
    """Match names that are the classes themselves; those of no label may be other classes."""
    keys = [key(name) for name in names]
    if len(set(keys)) != len(keys) or not wanted <= set(keys):
        return None
    columns = [j for j, text in enumerate(keys) if not are_numbers or _WHOLE.fullmatch(text)]
    return Match(columns, [keys[j] for j in columns])


def _by_numbers(names: Sequence[str], wanted: AbstractSet[str]) -> list[Match]:
    """Match numbers inside of names, grouped by what stands before and after them."""
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for j, name in enumerate(names):
        for found in _NUMBER_INSIDE.finditer(name):
            starts = {found.start()}
            if name[: found.start()].endswith("-"):
                starts.add(found.start() - 1)
            for start in starts:
                text = key(name[start : found.end()])
                group = groups.setdefault((name[:start], name[found.end() :]), {})
                group[text] = -1 if text in group else j  # -1: twice, which says nothing
    return [
        Match(list(group.values()), list(group), *affixes)
        for affixes, group in groups.items()
        if wanted <= group.keys() and -1 not in group.values()
    ]


def _by_text(names: Sequence[str], wanted: AbstractSet[str]) -> list[Match]:
    """Match labels inside of names, with one prefix and one suffix for all."""
    place = {name: j for j, name in enumerate(names)}
    if len(place) != len(names):
        return []
    longest = max(wanted, key=lambda label: (len(label), label))
    inside_of = re.compile(f"(?={re.escape(longest)})")  # also where occurrences overlap
    affixes = {
        (name[:start], name[start + len(longest) :])
        for name in names
        for start in [found.start() for found in inside_of.finditer(name)]
    }
    matches = []
    for prefix, suffix in affixes:
        if all(f"{prefix}{label}{suffix}" in place for label in wanted):
            size = len(prefix) + len(suffix)
            inside = {
                name[len(prefix) : len(name) - len(suffix)]: j
                for name, j in place.items()
                if len(name) > size and name.startswith(prefix) and name.endswith(suffix)
            }
            matches.append(Match(list(inside.values()), list(inside), prefix, suffix))
    return matches


def _the_only(
    names: Sequence[str], found: list[Match], wanted: AbstractSet[str], named: errors.Arguments
) -> Match:
    """Return the match that takes in most columns, unless another one takes in as many."""
    first, *others = sorted(
        found, key=lambda m: (-len(m.columns), -len(m.prefix), m.prefix, m.suffix)
    )
    own = _places(first, wanted)
    for other in others:
        if len(other.columns) == len(first.columns) and _places(other, wanted) != own:
            a, b = (names[match.columns[0]] for match in (first, other))
            raise errors.ColumnNameError(
                f"{named.prefix}two sets of columns are named after the classes, {a!r} and {b!r}; "
                f"{named.if_named_twice}"
            )
    return first


def _places(match: Match, wanted: AbstractSet[str]) -> dict[str, int]:
    pairs = zip(match.classes, match.columns, strict=True)
    return {text: j for text, j in pairs if text in wanted}


def column_order(
    names: list[Any] | None,
    classes: NDArray[Any],
    *,
    told: bool = True,
    named: errors.Arguments = errors.ARGUMENTS,
) -> NDArray[np.int64] | None:
    """Return the permutation that puts columns named after classes in their order, if any.

    Unless the caller was ``told`` the class of each column, those whose names neither tell their
    classes nor are in sorted order are refused.
    """
    if names is None:
        return None
    if len({isinstance(name, str) for name in names}) > 1:
        raise errors.ColumnNameError(
            f"{named.prefix}column names {errors.some_in_words(names)} are not all text; name "
            "every column after its class, or none"
        )
    order = order_of(names, classes, named)
    if order is None:
        if not told and classes.dtype.kind in "OUST" and not are_sorted(names):
            raise errors.ColumnNameError(
                f"{named.prefix}columns {errors.some_in_words(names)} are neither named after "
                f"the classes {errors.some_in_words(classes.tolist())} nor in sorted order, so "
                f"they cannot be told apart; rename them, or {named.if_untold}"
            )
        return None
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


def order_of(
    names: Sequence[Any], classes: NDArray[Any], named: errors.Arguments = errors.ARGUMENTS
) -> NDArray[np.int64] | None:
    """Return the columns in the order of ``classes``, if all of them are named after classes."""
    if [str(name) for name in names] == [str(c) for c in classes.tolist()]:
        return np.arange(len(names))
    match = match_columns(names, classes.tolist(), named)
    if match is not None and len(match.columns) == len(names) == len(classes):
        place = dict(zip(match.classes, match.columns, strict=True))
        return np.array([place[c] for c in classes.tolist()], dtype=np.int64)
    if all(isinstance(name, str) for name in names):
        _refuse_some(names, {key(c) for c in classes.tolist()}, named.prefix)
    return None


def _refuse_some(names: Sequence[str], wanted: set[str], prefix: str) -> None:
    """Refuse names of which some are those of classes, and others are not."""
    cut = (0, 0)
    if not all(_WHOLE.fullmatch(label) for label in wanted):
        start = _shared_start(names)
        cut = start, _shared_start([name[start:][::-1] for name in names])
    for (start, end), least in (((0, 0), 1), (cut, 2)):
        inside = [key(name[start : len(name) - end]) for name in names]
        known = [name for name, text in zip(names, inside, strict=True) if text in wanted]
        if len(known) < least:
            continue
        unknown = [name for name, text in zip(names, inside, strict=True) if text not in wanted]
        twice = next((text for text, n in Counter(inside).items() if n > 1), "")
        fault = f"{unknown[0]!r} is not" if unknown else f"{twice!r} appears twice"
        raise errors.ColumnNameError(
            f"{prefix}column {known[0]!r} is named after a class but {fault}; name every column "
            "after its class, or none"
        )


def _shared_start(names: Sequence[str]) -> int:
    """Length of the longest prefix of all names that does not end in a letter or digit."""
    low, high = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return len(re.sub(r"[^\W_]+\Z", "", low[:same]))


def are_sorted(names: Sequence[Any]) -> bool:
    """Whether names are in the order in which labels are sorted, or count upwards."""
    if not all(isinstance(name, str) for name in names):
        try:
            return list(names) == sorted(names)
        except TypeError:  # names of several kinds have no order
            return False
    counted = [_natural(name) for name in names]
    return list(names) == sorted(names) or counted == sorted(counted)


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
