"""Scores, labels and weights -> ``SimplexBatch``, or an error: the gate of fits and predictions.

Below this module code may assume: float64, C order, finite, rows on the simplex (or bounded
logits), integer labels, positive weights. Nothing given by a caller is ever modified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant import errors
from calibrant._gate._columns import (
    CLIP_TOLERANCE,
    LARGEST_LOGIT,
    ONE_COLUMN,
    SUM_TOLERANCE,
    check_positive,
    column_order,
    fitted_names,
    how_to_pass,
    is_single,
    match_columns,
    refuse_masked,
    to_matrix,
    two_column_kind,
    two_columns,
)
from calibrant._gate._plausibility import (
    refuse_other_index,
    refuse_other_order,
    warn_of_batch,
    warn_of_features,
)
from calibrant._kernels import rows as row_kernels
from calibrant._row_order import deal_shares, order_by_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from calibrant._types import Array, Bools, Floats, Labels, Wholes

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
    present = values[np.unique(codes if used is None else codes[used])]
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    listed = None if categories is None else np.unique(np.asarray(categories))
    match = match_columns(names or [], present.tolist())
    named = None
    if match is not None and len(match.columns) == len(names or []):
        dtype = object if present.dtype.kind in "OT" else None
        named = np.unique(np.array(match.classes, dtype=dtype))
    for told in (present, listed, named):
        if told is not None and len(told) == n_classes and np.isin(present, told).all():
            return _positions(values, codes, told), told
    if len(present) > n_classes:
        say = errors.names()
        raise errors.LabelError(
            f"{say.y} has {len(present)} distinct labels but {say.scores} is for {n_classes} "
            "classes",
            remedy="pass one column per class",
        )
    are_places = present.dtype.kind in ("biuf" if n_classes == 2 else "iuf")
    if are_places and present[0] >= 0 and present[-1] < n_classes:
        known = np.arange(n_classes).astype(present.dtype)
        return _positions(values, codes, known), known
    say = errors.names()
    raise errors.LabelError(
        f"{say.y} has {len(present)} distinct labels ({errors.some_in_words(present)}) for "
        f"{n_classes} columns, so the columns cannot be told apart",
        remedy=say.if_untold,
    )


def _check_classes(classes: object, n_classes: int) -> Labels:
    known, problem = np.array(classes), ""
    if known.ndim != 1 or len(known) != n_classes:
        problem = f"has shape {known.shape}; pass one label for each of the {n_classes} columns"
    elif known.dtype.kind == "O" and len({type(c) for c in known}) > 1:
        listed = errors.some_in_words(known)
        problem = f"has labels of different types, {listed}; make them all the same type"
    elif len(np.unique(known)) != n_classes:
        problem = "has duplicates; every column needs its own label"
    if problem:
        raise errors.ParameterError(f"classes {problem}", argument="classes", value=classes)
    return known


def _positions(values: Array, codes: Wholes, known: Labels) -> Wholes:
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
    require_labels(y)
    refuse_masked(y, "y")
    is_list = isinstance(y, list | tuple)  # of which numpy would make text of None and NaN, too
    labels = np.asarray(y, dtype=object if is_list else None)
    if labels.ndim == 2 and labels.shape[1] == 1:
        words = (
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
        )
        words += "of y to (n_samples, ), for example using ravel()."  # those of scikit-learn
        notices.warn(errors.DataConversionWarning(words))
        labels = labels[:, 0]
    if labels.ndim != 1 or (n_rows is not None and len(labels) != n_rows):
        name = errors.names().y
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
        problem = f"{errors.names().y} has rows of different lengths: {error}"
        raise errors.ShapeError(problem, argument="y") from error
    if labels.dtype.kind == "c":
        problem = f"Complex data not supported: {errors.names().y} is complex"
        raise errors.LabelError(problem, remedy="pass class labels")
    values, codes = _encode(labels)
    if values.dtype.kind == "f":
        is_broken = (values != np.floor(values))[codes]
        if is_broken.any():
            i, problem = int(np.argmax(is_broken)), "Unknown label type: continuous"
            remedy, value = "pass class labels, not probabilities", values[codes[i]]
            raise errors.LabelError(problem, argument="y", row=i, value=value, remedy=remedy)
    return values, codes


def _encode(labels: Labels) -> tuple[Labels, Wholes]:
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


LOG_OF_ZERO = math.log(1e-12)
"""An exact zero is read as at most this where the calibration set has none to learn from."""

CHUNK_BYTES = 1 << 25
SMALL_CHUNK_BYTES = 1 << 20
SMALL_CHUNK_ROWS = 2048
KINDS = ("probabilities", "logits", *ONE_COLUMN)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SimplexBatch:
    """A calibration set, checked: what every solver takes.

    Scores are float64 in C order, on the simplex or logits; ``class_index`` is the column of each
    row's label, and weights are positive.
    """

    scores: Floats
    kind: str
    class_index: Wholes
    weight: Floats
    classes: Labels
    unit: Floats | None = None
    """Weight of one repetition of each row, 1 if None: rows of a sample stand for others as well,
    which are no repetitions and stay in the fold of the row."""
    group: Wholes | None = None
    """Group of each row, if there are any: rows of one image, document or patient, which are held
    out together."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.scores)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def probabilities(self) -> Floats:
        """Rows on the simplex."""
        return self.scores if self.kind == "probabilities" else softmax(self.scores)

    def merged(self) -> SimplexBatch:
        """Merge equal rows, and sort by content: weights are exactly repetitions."""
        index = self.class_index
        if self.group is not None:  # equal rows of two groups stay two rows
            index = index + self.n_classes * self.group
        order, fresh = order_by_columns(self.scores, index, self.weight)
        starts = np.flatnonzero(fresh)
        merged = self.take(order[starts])
        return replace(merged, weight=np.add.reduceat(self.weight[order], starts))

    def deal(self, n_folds: int) -> tuple[Wholes, Wholes, Floats]:
        """Return row, fold and weight of all that ``deal_shares`` deals to folds."""
        share, _ = deal_shares(self, n_folds)
        row, fold = np.nonzero(share)
        return row, fold, share[row, fold]

    def in_folds(self, n_folds: int) -> tuple[SimplexBatch, Wholes]:
        """Return the rows, merged where they and their folds are equal, and the fold of each."""
        batch = self.merged()
        row, fold, weight = batch.deal(n_folds)
        return replace(batch.take(row), weight=weight), fold

    def with_probabilities(self, probabilities: Floats) -> SimplexBatch:
        """Return the same labels and weights with other scores, which are on the simplex."""
        scores = np.ascontiguousarray(probabilities)
        return replace(self, scores=scores, kind="probabilities")

    def take(self, rows: Array | slice) -> SimplexBatch:
        """Return the batch of some of the rows, by index, mask or slice."""
        return replace(
            self,
            scores=self.scores[rows],
            class_index=self.class_index[rows],
            weight=self.weight[rows],
            unit=None if self.unit is None else self.unit[rows],
            group=None if self.group is None else self.group[rows],
        )


def softmax(logits: Floats) -> Floats:
    """Softmax of each row; -inf becomes exactly 0."""
    out = np.empty_like(logits)
    row_kernels.softmax_rows(logits, out)
    return out


def to_logits(scores: Floats, kind: str, zero_logit: float) -> Floats:
    """Finite logits of checked scores; probabilities are logged, zeros bounded."""
    out = np.empty_like(scores)
    if kind == "probabilities":
        row_kernels.log_rows(scores, zero_logit, out)
    else:
        row_kernels.bound_logits(scores, zero_logit, out)
    return out


def check_option(name: str, value: object, allowed: Sequence[object]) -> None:
    """Refuse a parameter that is not one of the documented values."""
    if not any(value is option or value == option for option in allowed):
        known = ", ".join(map(repr, allowed))
        message = f"{name}={errors.in_words(value)} is not known; use one of {known}"
        raise errors.ParameterError(message, argument=name, value=value)


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    whole: bool = False,
    infinite: bool = False,
) -> None:
    """Refuse a parameter that is not a number in [low, high], finite unless allowed otherwise."""
    is_number = isinstance(value, int | np.integer) or (
        not whole and isinstance(value, float | np.floating)
    )
    inside = is_number and (infinite or math.isfinite(value)) and low <= value <= high
    if isinstance(value, bool) or not inside:
        kind = "a whole number" if whole else "a number" if infinite else "a finite number"
        message = f"{name}={errors.in_words(value)} must be {kind} in [{low}, {high}]"
        raise errors.ParameterError(message, argument=name, value=value)


def check_floor(min_probability: float, n_classes: int) -> None:
    """Refuse a ``min_probability`` that k classes cannot all have."""
    check_number("min_probability", min_probability, low=0.0, high=1.0 / n_classes)


def check_scores(
    scores: object, kind: str = "probabilities", normalize: str | None = None, first_row: int = 0
) -> Floats:
    """Return scores as float64 in C order, on the simplex if they are probabilities.

    One number for each row becomes two columns. Copies only what has to change. ``first_row`` is
    added to row numbers in messages.
    """
    return check_rows(to_matrix(scores, kind), kind, normalize, first_row)


def check_rows(
    matrix: Array, kind: str = "probabilities", normalize: str | None = None, first_row: int = 0
) -> Floats:
    """Return what ``to_matrix`` made of scores as ``check_scores`` returns them."""
    if is_single(kind):
        rows = two_columns(matrix, kind, first_row)
        return repair_rows(rows, two_column_kind(kind), None, first_row)
    if matrix.shape[1] < 2:
        raise errors.ShapeError(
            f"{errors.names().scores} has shape {matrix.shape}, 1 feature(s); at least two classes "
            f"are needed: {how_to_pass(kind)}"
        )
    if matrix.dtype == np.float64 and matrix.flags.carray and type(matrix) is np.ndarray:
        rows = np.asarray(matrix, np.float64)  # itself
    else:
        rows = np.require(matrix, np.float64, ["C", "ALIGNED", "ENSUREARRAY"])
    return repair_rows(rows, kind, normalize, first_row)


def repair_rows(
    matrix: Floats, kind: str, normalize: str | None = None, first_row: int = 0
) -> Floats:
    """Return rows, float64 in C order, on the simplex if they are probabilities."""
    if kind == "logits":
        worst = row_kernels.scan_range(matrix, -LARGEST_LOGIT, LARGEST_LOGIT, True)
        _refuse(matrix, kind, first_row, *worst)
        return matrix
    if normalize == "rows":
        worst = row_kernels.scan_range(matrix, -CLIP_TOLERANCE, math.inf, False)
        _refuse(matrix, kind, first_row, *worst)
        repairs = len(matrix)
    else:
        *worst, repairs = row_kernels.scan_probabilities(matrix, CLIP_TOLERANCE, SUM_TOLERANCE)
        _refuse(matrix, kind, first_row, *worst)
    if not repairs:
        return matrix
    out = np.empty_like(matrix)
    row_kernels.normalise_rows(matrix, out)
    return out


def _refuse(
    matrix: Floats, kind: str, first_row: int, code: int, i: int, j: int, value: float
) -> None:
    """Raise the error about the first bad cell or row that a kernel found, if any."""
    if code == row_kernels.FINE:
        return
    names, row = errors.names(), first_row + i
    if code == row_kernels.NO_MASS:
        problem = f"is {value} in every class: not a distribution"
        raise errors.RangeError(problem, row=row, remedy="remove or repair the row")
    with np.errstate(over="ignore", invalid="ignore"):  # of 1e308 and more
        is_percent = abs(float(np.sum(matrix[i])) - 100.0) <= 1.0
    percent = "; these look like percent: divide them by 100" if is_percent else ""
    if code == row_kernels.BAD_SUM:
        problem = f"sums to {value:.6g}, not 1{percent}"
        raise errors.RangeError(problem, row=row, remedy=names.if_unnormalized)
    if code == row_kernels.NOT_FINITE:
        problem, remedy = (
            f"Input {names.scores} contains NaN or infinity",
            "remove or repair the row",
        )
        raise errors.NonFiniteError(problem, row=row, column=j, value=value, remedy=remedy)
    if kind == "logits":
        problem = f"logits must be between {-LARGEST_LOGIT:g} and {LARGEST_LOGIT:g}"
        raise errors.RangeError(problem, row=row, column=j, value=value, remedy="scale them")
    # The words in brackets are scikit-learn's, whose checks of estimators look for them.
    problem = "probabilities must be in [0, 1] (Negative values in data, or values above one)"
    remedy = f"for features, {names.if_features}"
    remedy = names.if_unnormalized if percent else f"{names.if_logits}; {remedy}"
    raise errors.RangeError(problem + percent, row=row, column=j, value=value, remedy=remedy)


def assign_classes(
    y: object,
    n_rows: int,
    n_columns: int,
    kind: str,
    *,
    names: Sequence[object] | None,
    classes: object = None,
    used: Bools | None = None,
) -> tuple[Wholes, Labels, Wholes | None]:
    """Return the column of each label, the class of each column, and their order if it changes.

    ``names`` are those of the columns; a single column of two classes has one.
    """
    are_given = classes is not None
    if is_single(kind):
        index, labels = check_labels(y, n_rows, 2, classes=classes, used=used)
        check_positive(labels, names[0] if names else None, are_given=are_given)
        return index, labels, None
    index, labels = check_labels(y, n_rows, n_columns, classes=classes, names=names, used=used)
    return index, labels, column_order(names, labels, are_given=are_given)


def check_batch(
    scores: object,
    y: object,
    sample_weight: object = None,
    *,
    groups: object = None,
    kind: str = "probabilities",
    classes: object = None,
    normalize: str | None = None,
    is_chunk: bool = False,
) -> SimplexBatch:
    """Validate a calibration set; rows of weight zero are as if they were not there.

    Of a chunk nothing is said that can only be said of the whole: who has that warns of it.
    """
    check_option("scores", kind, KINDS)
    check_option("normalize", normalize, (None, "rows"))
    given = to_matrix(scores, kind)
    matrix = check_rows(given, kind, normalize)
    n_rows, n_classes = matrix.shape
    if n_rows == 0:
        raise errors.ShapeError(
            f"{errors.names().scores} has no rows; pass at least one. Found array with 0 sample(s) "
            f"(shape={matrix.shape}) while a minimum of 1 is required."
        )
    weight = check_weights(sample_weight, n_rows)
    names, used = fitted_names(scores, kind), weight > 0
    index, labels, order = assign_classes(
        y, n_rows, n_classes, kind, names=names, classes=classes, used=used
    )
    matrix = matrix if order is None else np.take(matrix, order, axis=1)
    codes = None if groups is None else read_groups(groups, n_rows)[1]
    batch = SimplexBatch(matrix, two_column_kind(kind), index, weight, labels, group=codes)
    refuse_other_order(scores, y, sample_weight, batch.probabilities, batch.class_index)
    refuse_other_index(scores, y, groups, "groups")
    if not np.all(used):
        batch = batch.take(used)
    if batch.group is not None and np.all(batch.group == batch.group[0]):
        problem = "groups has one group; pass at least two, of which some can be held out, or none"
        raise errors.ShapeError(problem, argument="groups")
    if kind == "logits" and classes is None:
        warn_of_features(batch)
    if not is_chunk:
        warn_of_batch(batch)
    return batch


def chunks(n_rows: int, n_classes: int, most: int | None = None) -> Iterator[slice]:
    """Slices of rows of at most ``CHUNK_BYTES`` bytes and ``most`` rows each."""
    step = max(1, min(CHUNK_BYTES // (8 * n_classes), n_rows if most is None else most))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def small_chunks(n_rows: int, n_classes: int) -> Iterator[slice]:
    """Slices of rows for one thread each, with more rows for methods that work class by class."""
    return chunks(n_rows, n_classes, max(SMALL_CHUNK_BYTES // (8 * n_classes), SMALL_CHUNK_ROWS))
