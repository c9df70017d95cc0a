"""Two classes as one number for each row: the probability, or the margin, of the positive class."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors
from calibrant._gate._columns import key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._types import Floats, Labels

ONE_COLUMN = {"positive": "probabilities", "decision": "logits"}
"""Kinds of scores with one number for each row, and the kind of the two columns made of it."""

WORDS_OF_SCORES = frozenset(("p", "pr", "prob", "probs", "proba", "probability", "probabilities"))
WORDS_OF_SCORES |= {"of", "y", "class", "label", "score", "scores", "conf", "confidence"}
WORDS_OF_SCORES |= {"pred", "predicted", "prediction"}
"""Words beside the class in the name of a column of scores."""

WORDS_OF_NO = frozenset(("no", "false", "neg", "negative"))
"""What names say of 0, of -1 and of False."""


def is_single(kind: str) -> bool:
    """Whether scores of this kind are one number for each row."""
    return kind in ONE_COLUMN


def two_column_kind(kind: str) -> str:
    """Return the kind of the rows that maps and solvers see."""
    return ONE_COLUMN.get(kind, kind)


def how_to_pass(kind: str) -> str:
    """Say how one column of a binary problem is passed where two are expected."""
    two = "np.column_stack([1 - p, p])"
    if two_column_kind(kind) == "logits":
        two = "np.column_stack([np.zeros_like(z), z])"
    return f"{errors.names().if_single}; or pass two columns, {two}"


def two_columns(
    column: NDArray[Any], kind: str, limits: tuple[float, float], first_row: int = 0
) -> Floats:
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
        i, names = int(np.argmax(bad)), errors.names()
        if not np.isfinite(values[i]):
            raise errors.NonFiniteError(
                f"Input {names.scores} contains NaN or infinity",
                row=first_row + i,
                value=values[i],
                remedy="remove or repair the row",
            )
        is_margin = kind == "decision"
        raise errors.RangeError(
            f"margins are at most {high:g}" if is_margin else "a probability must be in [0, 1]",
            row=first_row + i,
            value=values[i],
            remedy="scale them" if is_margin else names.if_margins,
        )
    out = np.empty((len(values), 2))
    if kind == "positive":
        np.subtract(1.0, values, out=out[:, 0])
        out[:, 1] = values
    else:
        np.negative(np.logaddexp(0.0, values), out=out[:, 0])
        np.negative(np.logaddexp(0.0, -values), out=out[:, 1])
    return out


def tells_positive(classes: Labels) -> bool:
    """Whether two labels tell by themselves which is positive: 0 and 1, -1 and 1, False and True.

    As in scikit-learn it is the larger one. Sorted by name, "bad" and "good" would make a good risk
    the event.
    """
    known, are_numbers = classes.tolist(), classes.dtype.kind in "biuf"
    return known in ([0, 1], [-1, 1]) if are_numbers else known == ["False", "True"]


def check_positive(classes: Labels, name: object = None, *, told: bool) -> None:
    """Refuse a single column that is not known to be of the second class.

    Either the caller was ``told`` the classes, or they tell it. ``name`` is that of the column,
    which may be the name of the other class.
    """
    a, b = (errors.in_words(label) for label in classes.tolist())
    names = errors.names()
    if not told and not tells_positive(classes):
        raise errors.LabelError(
            f"{names.scores} has one column, but it is not known whether its class is {a} or {b}",
            remedy=names.if_unknown_positive(a, b),
        )
    if names_other_class(name, classes):
        raise errors.ColumnNameError(
            f"{names.prefix}the only column is named {name!r}, which says {a}, but is read as the "
            f"column of {b}",
            remedy=f"pass that of {b}, rename this one if it is, or {names.if_of_other(a, b)}",
        )


def names_other_class(name: object, classes: Labels) -> bool:
    """Whether the name of a column says the first of two classes: "p0", "prob_no".

    It ends with the name of the class, after words that say that it is a probability.
    """
    if not isinstance(name, str):
        return False
    first, second = (str(key(label)) for label in classes.tolist())
    if name in (first, second):
        return name == first
    words, own = _words(name), _words(first)
    while words and words[0] in WORDS_OF_SCORES and words != own:
        words = words[1:]
    says_no = tells_positive(classes) and len(words) == 1 and words[0] in WORDS_OF_NO
    return says_no or (words == own and own != _words(second))


def _words(name: str) -> list[str]:
    """Return the words and the numbers in a name."""
    return re.findall(r"[^\W\d_]+|\d+", name.casefold())


def check_single_name(name: object, fitted: NDArray[Any] | None, who: str) -> None:
    """Refuse a single column of another name than at the fit."""
    if fitted is not None and isinstance(name, str) and name != fitted[0]:
        raise errors.ColumnNameError(
            f"{errors.names().prefix}the column is named {name!r}, but {who} was fitted to the "
            f"column {fitted[0]!r}",
            remedy=f"if it holds the same scores, rename it or {errors.names().if_renamed}",
        )
