"""Two classes as one number for each row: the probability, or the margin, of the positive class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE_COLUMN = {"positive": "probabilities", "decision": "logits"}
"""Kinds of scores with one number for each row, and the kind of the two columns made of it."""

TWO_COLUMNS = {
    "probabilities": "np.column_stack([1 - p, p])",
    "logits": "np.column_stack([np.zeros_like(z), z])",
}
"""How to make two columns of one, by the kind of the scores."""


def two_column_kind(kind: str) -> str:
    """Return the kind of the rows that maps and solvers see."""
    return ONE_COLUMN.get(kind, kind)


def how_to_pass(kind: str, named: errors.Arguments = errors.ARGUMENTS) -> str:
    """Say how one column of a binary problem is passed where two are expected."""
    return f"{named.if_single}; or pass two columns, {TWO_COLUMNS[two_column_kind(kind)]}"


def two_columns(
    column: NDArray[Any],
    kind: str,
    limits: tuple[float, float],
    first_row: int = 0,
    named: errors.Arguments = errors.ARGUMENTS,
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
        _refuse(values[i], kind, high, named.cell(first_row + i), named)
    out = np.empty((len(values), 2))
    if kind == "positive":
        np.subtract(1.0, values, out=out[:, 0])
        out[:, 1] = values
    else:
        np.negative(np.logaddexp(0.0, values), out=out[:, 0])
        np.negative(np.logaddexp(0.0, -values), out=out[:, 1])
    return out


def _refuse(value: float, kind: str, high: float, cell: str, named: errors.Arguments) -> None:
    """Raise the error about a probability or a margin that is none."""
    if not np.isfinite(value):
        raise errors.NonFiniteError(
            f"{cell} is {value}: Input {named.scores} contains NaN or infinity; remove or repair "
            "the row"
        )
    if kind == "decision":
        raise errors.RangeError(f"{cell} is {value}: margins are at most {high:g}; scale them")
    raise errors.RangeError(
        f"{cell} is {value}: a probability must be in [0, 1]; {named.if_margins}"
    )


def tells_positive(classes: NDArray[Any]) -> bool:
    """Whether two labels tell by themselves which is positive: 0 and 1, -1 and 1, False and True.

    As in scikit-learn it is the larger one. Sorted by name, "bad" and "good" would make a good risk
    the event.
    """
    known, are_numbers = classes.tolist(), classes.dtype.kind in "biuf"
    return known in ([0, 1], [-1, 1]) if are_numbers else known == ["False", "True"]


def check_positive(
    classes: NDArray[Any],
    name: Any = None,
    *,
    told: bool,
    named: errors.Arguments = errors.ARGUMENTS,
) -> None:
    """Refuse a single column that is not known to be of the second class.

    Either the caller was ``told`` the classes, or they tell it. ``name`` is that of the column,
    which may be the name of the other class.
    """
    a, b = (errors.in_words(label) for label in classes)
    if not told and not tells_positive(classes):
        raise errors.LabelError(
            f"{named.scores} has one column, but it is not known whether its class is {a} or {b}; "
            f"{named.if_unknown_positive(a, b)}"
        )
    if isinstance(name, str) and name == str(classes[0]):
        raise errors.ColumnNameError(
            f"{named.prefix}the only column is named {name!r}, but is read as the column of {b}; "
            f"{named.if_unknown_positive(a, b)}"
        )
