"""Read labels and sample weights out of whatever holds them, or say what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _notices as notices
from calibrant import errors
from calibrant._gate._columns import match_columns
from calibrant._gate._containers import column_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_EXPONENT = 100  # the heaviest row has a weight between 2**-100 and 2**100


class Labels(NamedTuple):
    """Distinct labels, in any order, and which of them each row has."""

    values: NDArray[Any]
    codes: NDArray[np.int64]

    def present(self, used: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the distinct labels of all rows, or of those that are used, sorted."""
        came = np.zeros(len(self.values), dtype=bool)
        came[self.codes if used is None else self.codes[used]] = True
        try:
            return np.unique(self.values[came])
        except TypeError as error:
            raise errors.LabelError(
                f"Unknown label type: {errors.names().y} mixes labels of different types ({error})",
                remedy="make them all the same type",
            ) from error

    def positions(self, known: NDArray[Any]) -> NDArray[np.int64]:
        """Return the place of the label of each row among the classes."""
        order = np.argsort(known, kind="stable")
        try:
            place = np.minimum(np.searchsorted(known[order], self.values), len(known) - 1)
            is_known = (known[order][place] == self.values)[self.codes]
        except TypeError as error:
            raise errors.LabelError(
                f"labels and classes have different types ({error})",
                remedy="make them the same type",
            ) from error
        if not np.all(is_known):
            i = int(np.argmin(is_known))
            value = errors.in_words(self.values[self.codes[i]])
            problem = f"is {value}, which is not among the classes {errors.some_in_words(known)}"
            raise errors.LabelError(problem, argument="y", row=i)
        return order[place].astype(np.intp)[self.codes]


@errors.takes_names
def check_labels(
    y: Any,
    n_rows: int,
    n_classes: int,
    *,
    classes: Any = None,
    names: list[Any] | None = None,
    used: NDArray[np.bool_] | None = None,
    is_single: bool = False,
    named: errors.Arguments | None = None,  # noqa: ARG001  (read by takes_names)
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the column of each label, and the class of each column.

    The classes are, in this order of preference: ``classes``; the distinct labels, if there are
    as many as columns; the names of the columns, if every label is among them; 0 .. k-1, if the
    labels are whole numbers in that range, or truth values. Of two classes there may be a single
    column, that of the second one. The columns of one-hot data frames are read by their names.
    """
    labels, one_hot = _one_dimensional(y, n_rows, n_classes)
    known = None if classes is None else _check_classes(classes, n_classes)
    hot = _hot_names(y, known, names) if one_hot else None
    if hot is not None:
        labels = Labels(_numbers_if_any(hot), labels.codes)
    if known is not None:
        if one_hot and hot is None:
            return labels.codes, known
        return labels.positions(known), known
    present, say = labels.present(used), errors.names()
    # Categories of pandas, and columns of one-hot frames, are classes also where no row has them.
    is_list = hot is not None or hasattr(getattr(y, "dtype", None), "categories")
    every = np.unique(labels.values) if is_list else None
    for told in (present, every, _named_classes(names, present)):
        if told is not None and len(told) == n_classes and np.isin(present, told).all():
            return labels.positions(told), told
    if len(present) > n_classes:
        columns = "one column, which is for two classes" if is_single else f"{n_classes} columns"
        raise errors.LabelError(
            f"{say.y} has {len(present)} distinct labels but {say.scores} has {columns}",
            remedy="pass one column per class",
        )
    if (
        present.dtype.kind in ("biuf" if n_classes == 2 else "iuf")
        and present[0] >= 0
        and present[-1] < n_classes
    ):
        known = np.arange(n_classes).astype(present.dtype)
        return labels.positions(known), known
    raise errors.LabelError(
        f"{say.y} has {len(present)} distinct labels ({errors.some_in_words(present)}) for "
        f"{n_classes} columns, so the columns cannot be told apart",
        remedy=say.if_untold,
    )


def _named_classes(names: list[Any] | None, present: NDArray[Any]) -> NDArray[Any] | None:
    """Return the classes that the names of the columns tell, if all of them do."""
    match = match_columns(names or [], present.tolist())
    if match is None or len(match.columns) != len(names or []):
        return None
    return np.unique(np.array(match.classes, dtype=object if present.dtype.kind in "OT" else None))


def _hot_names(y: Any, known: NDArray[Any] | None, names: list[Any] | None) -> list[Any] | None:
    """Return the class of each column of a one-hot data frame; None if they have no names.

    They are the names, or what these have after the prefix before the ``known`` classes, or the
    ``names`` of the columns of scores: "species_cat" is the column of "cat".
    """
    columns = column_names(y)
    wanted = list(names or []) if known is None else known.tolist()
    if columns is None or (
        known is not None and columns == [*range(len(columns))] != sorted(wanted)
    ):
        return None  # pandas numbers columns without names
    match = match_columns(columns, wanted)
    if match is not None and len(match.columns) == len(columns) == len(wanted):
        return [match.classes[match.columns.index(j)] for j in range(len(columns))]
    is_named = known is not None or (
        names is not None and match_columns(names, columns) is not None
    )
    if not is_named and columns != np.unique(_numbers_if_any(columns)).tolist():
        say = errors.names()
        raise errors.ColumnNameError(
            f"{say.prefix}the one-hot columns of {say.y}, {errors.some_in_words(columns)}, are not "
            f"in sorted order, and those of {say.scores} are not named after classes, so they "
            "cannot be matched",
            remedy=say.if_untold,
        )
    return columns


def _one_dimensional(y: Any, n_rows: int, n_classes: int) -> tuple[Labels, bool]:
    """Return the labels, and whether they are columns from one-hot rows."""
    require_labels(y)
    encoded, name = of_pandas(y), errors.names().y
    if encoded is not None and len(encoded.codes) == n_rows:
        return _refuse_fractions(encoded), False
    if np.ma.is_masked(y):
        i = int(np.argwhere(np.ma.getmaskarray(y))[0][0])
        remedy = "fill masked labels or drop their rows"
        raise errors.LabelError("is masked", argument="y", row=i, remedy=remedy)
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise errors.ShapeError(
            f"{name} has rows of different lengths; pass one label for each of {n_rows} rows: "
            f"{error}"
        ) from error
    is_text = isinstance(y, list | tuple) and labels.dtype.kind in "US"
    if is_text and any(map(_is_missing, _distinct(list(y)))):  # of which numpy makes text
        labels = np.asarray(y, dtype=object)
    labels = labels + 0 if labels.dtype.kind == "f" else labels  # -0.0 is 0.0
    if labels.dtype.kind == "c":
        problem = f"Complex data not supported: {name} is complex"
        raise errors.LabelError(problem, remedy="pass class labels")
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
            f"{name} has shape {labels.shape} but {errors.names().scores} has {n_rows} rows",
            remedy="pass one label per row (inconsistent numbers of samples)",
        )
    refuse_missing(labels)
    if labels.dtype.kind == "O" and (labels.ndim == 2 or _holds_rows(labels)):
        labels = np.array(labels.tolist())
    if labels.ndim == 2:
        return Labels(np.arange(n_classes), _from_one_hot(labels, n_classes)), True
    return _refuse_fractions(encode(labels)), False


def _holds_rows(labels: NDArray[Any]) -> bool:
    """Whether an object array holds a one-hot row in each cell, as a column of lists does."""
    is_row = len(labels) > 0 and isinstance(labels[0], list | tuple | np.ndarray)
    return is_row and np.asarray(labels[0]).dtype.kind in "iubf"


def _refuse_fractions(labels: Labels) -> Labels:
    """Raise where a label is a number with a fraction; return the labels."""
    if labels.values.dtype.kind == "f":
        is_broken = (labels.values != np.floor(labels.values))[labels.codes]
        if is_broken.any():
            i = int(np.argmax(is_broken))
            value = labels.values[labels.codes[i]]
            raise errors.LabelError(
                "Unknown label type: continuous",
                argument="y",
                row=i,
                value=value,
                remedy="pass class labels, not probabilities",
            )
    return labels


def _from_one_hot(labels: NDArray[Any], n_classes: int) -> NDArray[Any]:
    if labels.shape[1] != n_classes:
        name = errors.names().y
        raise errors.ShapeError(
            f"{name} has {errors.number_of(labels.shape[1], 'column')} but {errors.names().scores} "
            f"has {n_classes}",
            remedy=f"pass labels in one column (of a data frame {name}.idxmax(axis=1)), or one-hot "
            "rows",
        )
    bad = ~(((labels == 0) | (labels == 1)).all(axis=1) & (labels.sum(axis=1) == 1))
    if bad.any():
        i = int(np.argmax(bad))
        problem = "Unknown label type: not one-hot, as each row needs exactly one 1"
        raise errors.LabelError(problem, argument="y", row=i, value=labels[i])
    hot: NDArray[np.int64] = np.argmax(labels, axis=1)
    return hot


def require_labels(y: Any) -> None:
    """Raise if there are no labels at all."""
    if y is None:
        name = errors.names().y
        raise errors.LabelError(f"requires {name} to be passed, but the target {name} is None")


def refuse_missing(labels: NDArray[Any]) -> None:
    """Raise where a label is NaN, infinite, None or NA."""
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        rows = labels.ravel().tolist()
        if not any(map(_is_missing, _distinct(rows))):
            return
        missing = np.array([_is_missing(value) for value in rows], dtype=bool)
    else:
        return
    if missing.any():
        i, say = int(np.argmax(missing.reshape(len(labels), -1).any(axis=1))), errors.names()
        problem = f"is {labels[i]}: Input {say.y} contains NaN or infinity"
        raise errors.LabelError(problem, argument="y", row=i, remedy=say.if_missing)


def _distinct(rows: list[Any]) -> list[Any]:
    """Return each label once, or all of them if they cannot be told apart at once."""
    try:
        return list(dict.fromkeys(rows))
    except TypeError:  # such as a list, which is no label
        return rows


def encode(labels: NDArray[Any]) -> Labels:
    """Return the distinct labels of an array; numbers in an object array are numbers."""
    if labels.dtype.kind != "O":
        return Labels(*np.unique(labels, return_inverse=True))
    rows = labels.tolist()
    values = _distinct(rows)  # objects are slow to compare and to sort
    codes = np.arange(len(rows))
    if len(values) < len(rows):
        places = {value: place for place, value in enumerate(values)}
        codes = np.fromiter(map(places.__getitem__, rows), np.intp, len(rows))
    return Labels(_numbers_if_any(values), codes)


def _numbers_if_any(values: list[Any]) -> NDArray[Any]:
    plain = np.array(values)
    if plain.dtype.kind in "iubf":
        return plain
    kept = np.empty(len(values), dtype=object)
    kept[:] = values
    return kept


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | np.floating) and not np.isfinite(value)


def of_pandas(y: Any) -> Labels | None:
    """Return the labels of a pandas categorical, or text of pandas', if none is missing."""
    if not type(y).__module__.startswith("pandas"):
        return None
    dtype = getattr(y, "dtype", None)
    values = getattr(dtype, "categories", None)
    if values is not None:
        codes = getattr(y, "cat", y).codes
    elif type(dtype).__name__ == "StringDtype":
        codes, values = y.factorize()
    else:
        return None
    if np.any(codes < 0):  # a missing one is refused with its row
        return None
    return Labels(_numbers_if_any(np.asarray(values).tolist()), np.asarray(codes, np.intp))


def _check_classes(classes: Any, n_classes: int) -> NDArray[Any]:
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


def check_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    """Return one finite, non-negative float64 weight per row, not all zero."""
    if sample_weight is None:
        return np.ones(n_rows)
    if np.ma.is_masked(sample_weight):
        i = int(np.argwhere(np.ma.getmaskarray(sample_weight))[0][0])
        raise errors.WeightError(
            "is masked", argument="sample_weight", row=i, remedy="fill it or drop its row"
        )
    try:
        weight = np.asarray(sample_weight)
        if weight.dtype.kind == "c":
            raise TypeError("they are complex")  # noqa: TRY301
        weight = np.require(weight, np.float64, ["C", "ALIGNED"])
    except (TypeError, ValueError) as error:
        raise errors.WeightError(f"sample_weight cannot be read as numbers: {error}") from error
    if weight.ndim != 1:
        raise errors.WeightError(
            f"Sample weights must be 1D array or scalar; sample_weight has shape {weight.shape}",
            remedy="pass one number per row",
        )
    if len(weight) != n_rows:
        raise errors.WeightError(
            f"sample_weight.shape == {weight.shape}, expected {(n_rows,)}: one weight per row"
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


def read_groups(groups: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
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


def distinct_labels(y: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct labels, sorted, and the place of that of each row among them."""
    labels, _ = _one_dimensional(y, n_rows, 0)
    names = labels.present()
    return names, labels.positions(names)


def find_groups(groups: Any, n_rows: int, known: NDArray[Any]) -> NDArray[np.int64]:
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
