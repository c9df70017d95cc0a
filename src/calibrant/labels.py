"""Read labels and sample weights out of whatever holds them, or say what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, notices
from calibrant.columns import match_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_EXPONENT = 100
"""The heaviest row has a weight between 2**-100 and 2**100."""


def check_labels(
    y: Any,
    n_rows: int,
    n_classes: int,
    *,
    classes: Any = None,
    names: list[Any] | None = None,
    used: NDArray[np.bool_] | None = None,
    named: errors.Arguments = errors.ARGUMENTS,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the column of each label, and the class of each column.

    The classes are, in this order of preference: ``classes``; the distinct labels, if there are
    as many as columns; the names of the columns, if every label is among them; 0 .. k-1, if the
    labels are whole numbers in that range.
    """
    labels, one_hot = _one_dimensional(y, n_rows, n_classes, named)
    used = np.ones(n_rows, dtype=bool) if used is None else used
    if classes is not None:
        known = _check_classes(classes, n_classes)
        return (labels.astype(np.int64) if one_hot else _positions(labels, known, named)), known
    try:
        present = np.unique(labels[used])
    except TypeError as error:
        raise errors.LabelError(
            f"Unknown label type: {named.y} mixes labels of different types ({error}); "
            "make them all of one type"
        ) from error
    for told in (present, _categories(y), _named(names, present, named)):
        if told is not None and len(told) == n_classes and np.isin(present, told).all():
            return _positions(labels, told, named), told
    if len(present) > n_classes:
        raise errors.LabelError(
            f"{named.y} has {len(present)} distinct labels but {named.scores} has {n_classes} "
            "columns; pass one column per class"
        )
    if present.dtype.kind in "iuf" and present[0] >= 0 and present[-1] < n_classes:
        known = np.arange(n_classes).astype(present.dtype)
        return _positions(labels, known, named), known
    raise errors.LabelError(
        f"{named.y} has {len(present)} distinct labels ({errors.some_in_words(present)}) for "
        f"{n_classes} columns, so the columns cannot be told apart; {named.if_untold}"
    )


def _named(
    names: list[Any] | None, present: NDArray[Any], named: errors.Arguments
) -> NDArray[Any] | None:
    """Return the classes that the names of the columns tell, if all of them do."""
    if names is None:
        return None
    match = match_columns(names, present.tolist(), named)
    if match is None or len(match.columns) != len(names):
        return None
    return np.unique(np.array(match.classes, dtype=object if present.dtype.kind in "OT" else None))


def _one_dimensional(
    y: Any, n_rows: int, n_classes: int, named: errors.Arguments
) -> tuple[NDArray[Any], bool]:
    """Return the labels, and whether they are columns from one-hot rows."""
    require_labels(y, named)
    if np.ma.is_masked(y):
        i = int(np.argwhere(np.ma.getmaskarray(y))[0][0])
        raise errors.LabelError(
            f"{named.label(i)} is masked; fill masked labels or drop their rows"
        )
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise errors.ShapeError(
            f"{named.y} has rows of different lengths; pass one label for each of {n_rows} rows: "
            f"{error}"
        ) from error
    if isinstance(y, list | tuple) and labels.dtype.kind in "US":
        plain = np.asarray(y, dtype=object)  # numpy makes text of a missing label
        labels = plain if any(_is_missing(value) for value in plain.ravel()) else labels
    labels = labels + 0 if labels.dtype.kind == "f" else labels  # -0.0 is 0.0
    if labels.dtype.kind == "c":
        raise errors.LabelError(
            f"Complex data not supported: {named.y} is complex; pass class labels"
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        notices.warn(
            errors.DataConversionWarning(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples, ), for example using ravel()."
            )
        )
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or len(labels) != n_rows:
        raise errors.ShapeError(
            f"{named.y} has shape {labels.shape} but {named.scores} has {n_rows} rows; pass one "
            "label per row (inconsistent numbers of samples)"
        )
    refuse_missing(labels, named)
    if labels.dtype.kind == "O":  # numbers in an object array are numbers
        plain = np.array(labels.tolist())
        labels = plain if plain.dtype.kind in "iubf" else labels
    if labels.ndim == 2:
        return _from_one_hot(labels, n_classes, named), True
    if labels.dtype.kind == "f":
        broken = labels != np.floor(labels)
        if broken.any():
            i = int(np.argmax(broken))
            raise errors.LabelError(
                f"Unknown label type: continuous. {named.label(i)} is {labels[i]}; pass class "
                "labels, not probabilities"
            )
    return labels, False


def _from_one_hot(labels: NDArray[Any], n_classes: int, named: errors.Arguments) -> NDArray[Any]:
    if labels.shape[1] != n_classes:
        raise errors.ShapeError(
            f"{named.y} has {errors.number_of(labels.shape[1], 'column')} but {named.scores} "
            f"has {n_classes}; pass labels in one column, or one-hot rows"
        )
    bad = ~(((labels == 0) | (labels == 1)).all(axis=1) & (labels.sum(axis=1) == 1))
    if bad.any():
        i = int(np.argmax(bad))
        raise errors.LabelError(
            f"Unknown label type: {named.label(i)} = {labels[i]} is not one-hot: exactly one 1 "
            "per row"
        )
    hot: NDArray[np.int64] = np.argmax(labels, axis=1)
    return hot


def require_labels(y: Any, named: errors.Arguments = errors.ARGUMENTS) -> None:
    """Raise if there are no labels at all."""
    if y is None:
        raise errors.LabelError(
            f"requires {named.y} to be passed, but the target {named.y} is None"
        )


def refuse_missing(labels: NDArray[Any], named: errors.Arguments = errors.ARGUMENTS) -> None:
    """Raise where a label is NaN, infinite, None or NA."""
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in labels.ravel()], dtype=bool)
    else:
        return
    if missing.any():
        i = int(np.argmax(missing.reshape(len(labels), -1).any(axis=1)))
        raise errors.LabelError(
            f"{named.label(i)} is {labels[i]}: Input {named.y} contains NaN or infinity; drop rows "
            "without a label"
        )


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | np.floating) and not np.isfinite(value)


def _categories(y: Any) -> NDArray[Any] | None:
    """Return the categories that a pandas categorical names, present or not."""
    if not type(y).__module__.startswith("pandas"):
        return None
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    return None if categories is None else np.sort(np.asarray(categories))


def _check_classes(classes: Any, n_classes: int) -> NDArray[Any]:
    known = np.array(classes)
    if known.ndim != 1 or len(known) != n_classes:
        raise errors.ParameterError(
            f"classes has shape {known.shape}; one label for each of {n_classes} columns is needed"
        )
    if known.dtype.kind == "O" and len({type(c) for c in known}) > 1:
        raise errors.ParameterError(
            f"classes {errors.some_in_words(known)} are of different types; make them all of one "
            "type"
        )
    if len(np.unique(known)) != n_classes:
        raise errors.ParameterError("classes has duplicates; every column needs its own label")
    return known


def _positions(
    labels: NDArray[Any], known: NDArray[Any], named: errors.Arguments
) -> NDArray[np.int64]:
    order = np.argsort(known, kind="stable")
    try:
        place = np.minimum(np.searchsorted(known[order], labels), len(known) - 1)
        found = known[order][place] == labels
    except TypeError as error:
        raise errors.LabelError(
            f"labels and classes are of different types ({error}); make them alike"
        ) from error
    if not np.all(found):
        i = int(np.argmin(found))
        raise errors.LabelError(
            f"{named.label(i)} is {errors.in_words(labels[i])}, which is not among the classes "
            f"{errors.some_in_words(known)}"
        )
    return order[place].astype(np.int64)


def check_weights(
    sample_weight: Any, n_rows: int, named: errors.Arguments = errors.ARGUMENTS
) -> NDArray[np.float64]:
    """Return one finite, non-negative float64 weight per row, not all zero."""
    if sample_weight is None:
        return np.ones(n_rows)
    if np.ma.is_masked(sample_weight):
        i = int(np.argwhere(np.ma.getmaskarray(sample_weight))[0][0])
        raise errors.WeightError(f"{named.weight(i)} is masked; fill it or drop its row")
    try:
        weight = np.asarray(sample_weight)
        if weight.dtype.kind == "c":
            raise TypeError("they are complex")  # noqa: TRY301
        weight = np.require(weight, np.float64, ["C", "ALIGNED"])
    except (TypeError, ValueError) as error:
        raise errors.WeightError(f"sample_weight cannot be read as numbers: {error}") from error
    if weight.ndim != 1:
        raise errors.WeightError(
            f"Sample weights must be 1D array or scalar; sample_weight has shape {weight.shape}, "
            "one number per row is needed"
        )
    if len(weight) != n_rows:
        raise errors.WeightError(
            f"sample_weight.shape == {weight.shape}, expected {(n_rows,)}: one weight per row"
        )
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        i = int(np.argmax(bad))
        raise errors.WeightError(
            f"{named.weight(i)} is {weight[i]}; weights are finite and not negative"
        )
    if not weight.any():
        raise errors.WeightError("sample_weight is zero in every row; nothing is left to fit")
    # So many rows, or so little of one, are as good as any more: products stay finite, and a power
    # of two changes no bit of the ratios.
    exponent = int(np.frexp(weight.max())[1])
    excess = exponent - min(max(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT)
    return np.ldexp(weight, -excess) if excess else weight
