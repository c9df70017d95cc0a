"""Read labels and sample weights out of whatever holds them, or say what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import errors
from calibrant._gate._columns import match_columns
from calibrant._gate._containers import refuse_masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant._types import Bools, Floats, Labels, Wholes

LARGEST_EXPONENT = 100  # the heaviest row has a weight between 2**-100 and 2**100


def check_labels(
    y: object,
    n_rows: int,
    n_classes: int,
    *,
    classes: object = None,
    names: Sequence[object] | None = None,
    used: Bools | None = None,
) -> tuple[Wholes, Labels]:
    """Return the column of each label, and the class of each column.

    The classes are, in this order of preference: ``classes``; the distinct labels of the rows that
    are ``used``, if there are as many as columns; the categories of pandas; the names of the
    columns, if every label is among them; 0 .. k-1, if the labels are whole numbers in that range,
    or truth values.
    """
    values, codes = distinct_labels(y, n_rows)
    if classes is not None:
        known = _check_classes(classes, n_classes)
        return _positions(values, codes, known), known
    present, say = values[np.unique(codes if used is None else codes[used])], errors.names()
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    listed = None if categories is None else np.unique(np.asarray(categories))
    for told in (present, listed, _named_classes(names, present)):
        if told is not None and len(told) == n_classes and np.isin(present, told).all():
            return _positions(values, codes, told), told
    if len(present) > n_classes:
        raise errors.LabelError(
            f"{say.y} has {len(present)} distinct labels but {say.scores} is for {n_classes} "
            "classes",
            remedy="pass one column per class",
        )
    are_places = present.dtype.kind in ("biuf" if n_classes == 2 else "iuf")
    if are_places and present[0] >= 0 and present[-1] < n_classes:
        known = np.arange(n_classes).astype(present.dtype)
        return _positions(values, codes, known), known
    raise errors.LabelError(
        f"{say.y} has {len(present)} distinct labels ({errors.some_in_words(present)}) for "
        f"{n_classes} columns, so the columns cannot be told apart",
        remedy=say.if_untold,
    )


def _named_classes(names: Sequence[object] | None, present: Labels) -> Labels | None:
    """Return the classes that the names of the columns tell, if all of them do."""
    match = match_columns(names or [], present.tolist())
    if match is None or len(match.columns) != len(names or []):
        return None
    return np.unique(np.array(match.classes, dtype=object if present.dtype.kind in "OT" else None))


def _check_classes(classes: object, n_classes: int) -> Labels:
    known = np.array(classes)
    if known.ndim != 1 or len(known) != n_classes:
        raise errors.ParameterError(
            f"classes has shape {known.shape}; pass one label for each of the {n_classes} columns"
        )
    if known.dtype.kind == "O" and len({type(c) for c in known}) > 1:
        raise errors.ParameterError(
            f"classes {errors.some_in_words(known)} have different types; make them all the same "
            "type"
        )
    if len(np.unique(known)) != n_classes:
        raise errors.ParameterError("classes has duplicates; every column needs its own label")
    return known


def _positions(values: NDArray[np.generic], codes: Wholes, known: Labels) -> Wholes:
    """Return the place of the label of each row among the classes."""
    order = np.argsort(known, kind="stable")
    try:
        place = np.minimum(np.searchsorted(known[order], values), len(known) - 1)
        is_known = (known[order][place] == values)[codes]
    except TypeError as error:
        raise errors.LabelError(
            f"labels and classes have different types ({error})", remedy="make them the same type"
        ) from error
    if not np.all(is_known):
        i = int(np.argmin(is_known))
        value = errors.in_words(values[codes[i]])
        problem = f"is {value}, which is not among the classes {errors.some_in_words(known)}"
        raise errors.LabelError(problem, argument="y", row=i)
    return order[place].astype(np.intp)[codes]


def distinct_labels(y: object, n_rows: int | None = None) -> tuple[Labels, Wholes]:
    """Return the distinct labels, sorted, and the place of that of each row among them."""
    name = errors.names().y
    require_labels(y)
    refuse_masked(y, name)
    is_list = isinstance(y, list | tuple)  # of which numpy would make text of None and NaN, too
    labels = np.asarray(y, dtype=object if is_list else None)
    if labels.ndim == 2 and labels.shape[1] == 1:
        notices.warn(
            errors.DataConversionWarning(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples, ), for example using ravel()."
            )
        )
        labels = labels[:, 0]
    if labels.ndim != 1 or (n_rows is not None and len(labels) != n_rows):
        rows = "" if n_rows is None else f" but {errors.names().scores} has {n_rows} rows"
        raise errors.ShapeError(
            f"{name} has shape {labels.shape}{rows}",
            remedy="pass one label per row (inconsistent numbers of samples); of one-hot rows "
            f"{name}.argmax(axis=1), or {name}.idxmax(axis=1) of a data frame",
        )
    refuse_missing(labels)
    try:
        labels = np.array(labels.tolist()) if is_list else labels
    except ValueError as error:
        raise errors.ShapeError(f"{name} has rows of different lengths: {error}") from error
    if labels.dtype.kind == "c":
        problem = f"Complex data not supported: {name} is complex"
        raise errors.LabelError(problem, remedy="pass class labels")
    values, codes = _encode(labels)
    if values.dtype.kind == "f":
        is_broken = (values != np.floor(values))[codes]
        if is_broken.any():
            i = int(np.argmax(is_broken))
            raise errors.LabelError(
                "Unknown label type: continuous",
                argument="y",
                row=i,
                value=values[codes[i]],
                remedy="pass class labels, not probabilities",
            )
    return values, codes


def _encode(labels: Labels) -> tuple[NDArray[Any], Wholes]:
    """Return the distinct labels and their places; numbers in an object array are numbers."""
    if labels.dtype.kind != "O":
        values, codes = np.unique(labels, return_inverse=True)
        return values + 0 if values.dtype.kind == "f" else values, codes  # -0.0 is 0.0
    rows = labels.tolist()
    try:
        distinct = sorted(dict.fromkeys(rows))  # objects are slow to compare and to sort
    except TypeError as error:
        raise errors.LabelError(
            f"Unknown label type: {errors.names().y} mixes labels of different types ({error})",
            remedy="make them all the same type",
        ) from error
    places = {value: place for place, value in enumerate(distinct)}
    codes = np.fromiter(map(places.__getitem__, rows), np.intp, len(rows))
    values = np.array(distinct)
    if values.dtype.kind not in "iubf":
        values = np.empty(len(distinct), dtype=object)
        values[:] = distinct
    return values, codes


def require_labels(y: object) -> None:
    """Raise if there are no labels at all."""
    if y is None:
        name = errors.names().y
        raise errors.LabelError(f"requires {name} to be passed, but the target {name} is None")


def refuse_missing(labels: Labels) -> None:
    """Raise where a label is NaN, infinite, None or NA."""
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in labels.ravel().tolist()], dtype=bool)
    else:
        return
    if missing.any():
        i, say = int(np.argmax(missing.reshape(len(labels), -1).any(axis=1))), errors.names()
        problem = f"is {labels[i]}: Input {say.y} contains NaN or infinity"
        raise errors.LabelError(problem, argument="y", row=i, remedy=say.if_missing)


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | np.floating) and not np.isfinite(value)


def check_weights(sample_weight: object, n_rows: int) -> Floats:
    """Return one finite, non-negative float64 weight per row, not all zero."""
    if sample_weight is None:
        return np.ones(n_rows)
    refuse_masked(sample_weight, "sample_weight")
    try:
        weight = np.asarray(sample_weight)
        if weight.dtype.kind == "c":
            raise TypeError("they are complex")  # noqa: TRY301
        weight = np.require(weight, np.float64, ["C", "ALIGNED"])
    except (TypeError, ValueError) as error:
        raise errors.WeightError(f"sample_weight cannot be read as numbers: {error}") from error
    if weight.shape != (n_rows,):
        raise errors.WeightError(
            f"Sample weights must be 1D array or scalar; sample_weight.shape == {weight.shape}, "
            f"expected {(n_rows,)}",
            remedy="pass one number per row",
        )
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        i = int(np.argmax(bad))
        problem = f"is {weight[i]}; weights must be finite and not negative"
        raise errors.WeightError(problem, argument="sample_weight", row=i)
    if not weight.any():
        problem = "sample_weight is zero in every row"
        raise errors.WeightError(problem, remedy="give some rows a positive weight")
    # Products of weights have to stay finite, and a power of two changes no bit of their ratios.
    exponent = int(np.frexp(weight.max())[1])
    excess = exponent - min(max(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT)
    return np.ldexp(weight, -excess) if excess else weight


class _GroupArguments(errors.Arguments):
    y = "groups"
    if_missing = "give rows without a group a name, such as 'unknown'"


def read_groups(groups: Any, n_rows: int) -> tuple[Labels, Wholes]:
    """Return the names of the groups, sorted, and the place of that of each row among them."""
    shape = np.shape(groups)
    if groups is None or shape != (n_rows,):
        what = "are not given" if groups is None else f"have shape {shape}"
        raise errors.ShapeError(
            f"groups {what}, for {errors.number_of(n_rows, 'row')}",
            remedy="pass groups=, a vector with the group of each row",
        )
    with errors.naming(_GroupArguments()):
        return distinct_labels(groups, n_rows)


def find_groups(groups: object, n_rows: int, known: Labels) -> Wholes:
    """Return 1 + the place of the group of each row among those ``known``; 0 of all others."""
    names, codes = read_groups(groups, n_rows)
    if (names.dtype.kind in "iufb") != (known.dtype.kind in "iufb") and n_rows:
        raise errors.LabelError(
            f"groups[0] is {errors.in_words(names[codes[0]])}, but the groups seen at fit are "
            f"{errors.some_in_words(known)}",
            remedy="pass names of the same type",
        )
    place = np.minimum(np.searchsorted(known, names), len(known) - 1)
    return np.where(known[place] == names, place + 1, 0)[codes]
