"""Two classes as one number for each row: the probability, or the margin, of the positive class."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._gate._columns import key

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE_COLUMN = {"positive": "probabilities", "decision": "logits"}
"""Kinds of scores with one number for each row, and the kind of the two columns made of it."""

WORDS_OF_SCORES = frozenset(("p", "pr", "prob", "probs", "proba", "probability", "probabilities"))
WORDS_OF_SCORES |= {"of", "y", "class", "label", "score", "scores", "conf", "confidence"}
WORDS_OF_SCORES |= {"pred", "predicted", "prediction"}
"""Words beside the class in the name of a column of scores."""

YES_OR_NO = {"no": 0, "false": 0, "neg": 0, "negative": 0}
YES_OR_NO |= {"yes": 1, "true": 1, "pos": 1, "positive": 1}
"""What names say of 0 and 1, of -1 and 1, and of False and True."""

LARGEST_OF_FEW_MARGINS = 10.0
"""Numbers from 0 to 100, of which some are larger than this, are percent: margins have signs."""

TWO_COLUMNS = {
    "probabilities": "np.column_stack([1 - p, p])",
    "logits": "np.column_stack([np.zeros_like(z), z])",
}
"""How to make two columns of one, by the kind of the scores."""


def two_column_kind(kind: str) -> str:
    """Return the kind of the rows that maps and solvers see."""
    return ONE_COLUMN.get(kind, kind)


def how_to_pass(kind: str) -> str:
    """Say how one column of a binary problem is passed where two are expected."""
    return f"{errors.names().if_single}; or pass two columns, {TWO_COLUMNS[two_column_kind(kind)]}"


def two_columns(
    column: NDArray[Any], kind: str, limits: tuple[float, float], first_row: int = 0
) -> NDArray[np.float64]:
    """Return [1 - p, p] of probabilities, or log-probabilities of margins: -log(1 + exp(-+z)).

    Log-probabilities are logits, and the same that probabilities have: methods whose result
    depends on a number added to all logits of a row give the same for both.
    """
    values = column[:, 0].astype(np.float64)
    low, high = limits
    bad = ~((values >= low) & (values <= high))
    if kind == "decision":
        bad &= ~np.isinf(values)  # of a probability of exactly 0 or 1
    if bad.any():
        i = int(np.argmax(bad))
        _refuse(values, i, kind, high, first_row + i)
    out = np.empty((len(values), 2))
    if kind == "positive":
        np.subtract(1.0, values, out=out[:, 0])
        out[:, 1] = values
    else:
        np.negative(np.logaddexp(0.0, values), out=out[:, 0])
        np.negative(np.logaddexp(0.0, -values), out=out[:, 1])
    return out


def _refuse(values: NDArray[np.float64], i: int, kind: str, high: float, row: int) -> None:
    """Raise the error about a probability or a margin that is none."""
    place: Any = {"row": row, "value": values[i]}
    names = errors.names()
    if not np.isfinite(values[i]):
        problem, remedy = (
            f"Input {names.scores} contains NaN or infinity",
            "remove or repair the row",
        )
        raise errors.NonFiniteError(problem, **place, remedy=remedy)
    if kind == "decision":
        raise errors.RangeError(f"margins are at most {high:g}", **place, remedy="scale them")
    known = values[np.isfinite(values)]
    is_percent = known.min() >= 0.0 and LARGEST_OF_FEW_MARGINS < known.max() <= 100.0
    remedy = names.if_one_percent if is_percent else names.if_margins
    raise errors.RangeError("a probability must be in [0, 1]", **place, remedy=remedy)


def tells_positive(classes: NDArray[Any]) -> bool:
    """Whether two labels tell by themselves which is positive: 0 and 1, -1 and 1, False and True.

    As in scikit-learn it is the larger one. Sorted by name, "bad" and "good" would make a good risk
    the event.
    """
    known, are_numbers = classes.tolist(), classes.dtype.kind in "biuf"
    return known in ([0, 1], [-1, 1]) if are_numbers else known == ["False", "True"]


@errors.takes_names
def check_positive(
    classes: NDArray[Any],
    name: Any = None,
    *,
    told: bool,
    named: errors.Arguments | None = None,  # noqa: ARG001  (read by takes_names)
) -> None:
    """Refuse a single column that is not known to be of the second class.

    Either the caller was ``told`` the classes, or they tell it. ``name`` is that of the column,
    which may be the name of the other class.
    """
    a, b = (errors.in_words(label) for label in classes)
    names = errors.names()
    if not told and not tells_positive(classes):
        raise errors.LabelError(
            f"{names.scores} has one column, but it is not known whether its class is {a} or {b}",
            remedy=names.if_unknown_positive(a, b),
        )
    if class_of_name(name, classes) == 0:
        raise errors.ColumnNameError(
            f"{names.prefix}the only column is named {name!r}, which says {a}, but is read as the "
            f"column of {b}",
            remedy=f"pass that of {b}, rename this one if it is, or {names.if_of_other(a, b)}",
        )


def class_of_name(name: Any, classes: NDArray[Any]) -> int | None:
    """Return which of two classes the name of a column says: 0 of "p0" and "prob_no"; or None.

    It ends with the name of the class, after words that say that it is a probability. Of 0 and 1
    "no" and "yes" say the same.
    """
    if not isinstance(name, str):
        return None
    labels = [str(key(label)) for label in classes.tolist()]
    if name in labels:
        return labels.index(name)
    own, words = [_words(label) for label in labels], _words(name)
    while words and words[0] in WORDS_OF_SCORES and words not in own:
        words = words[1:]
    if own[0] != own[1] and words in own:
        return own.index(words)
    if tells_positive(classes) and len(words) == 1:
        return YES_OR_NO.get(words[0])
    return None


def _words(name: str) -> list[str]:
    """Return the words and the numbers in a name."""
    return re.findall(r"[^\W\d_]+|\d+", name.casefold())


@errors.takes_names
def check_single_name(
    name: Any,
    fitted: NDArray[Any] | None,
    classes: NDArray[Any],
    who: str,
    named: errors.Arguments | None = None,  # noqa: ARG001  (read by takes_names)
) -> None:
    """Refuse a single column of another name than at the fit, unless it is that of its class."""
    if fitted is None or not isinstance(name, str) or name == fitted[0]:
        return
    if class_of_name(name, classes) != 1:
        raise errors.ColumnNameError(
            f"{errors.names().prefix}the column is named {name!r}, but {who} was fitted to the "
            f"column {fitted[0]!r}",
            remedy=f"if it holds the same scores, rename it or {errors.names().if_renamed}",
        )
