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
    ONE_COLUMN,
    check_positive,
    column_order,
    how_to_pass,
    is_single,
    two_column_kind,
    two_columns,
)
from calibrant._gate._containers import fitted_names, to_matrix
from calibrant._gate._labels import check_labels, check_weights, read_groups
from calibrant._gate._plausibility import (
    FEWEST_ROWS_IN_DOUBT,
    count_hits,
    find_wrong_columns,
    find_wrong_kind,
    refuse_other_order,
)
from calibrant._kernels import rows as row_kernels
from calibrant._row_order import deal_rows, order_by_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._types import Bools, Floats, Labels, Wholes

CLIP_TOLERANCE = 1e-4
"""A probability this far outside [0, 1] is rounding, and is clipped; its row is normalised."""

SUM_TOLERANCE = 1e-3
"""A row sum this far from one is rounding, and is normalised; decimals may be a little further."""

LOG_OF_ZERO = math.log(1e-12)
"""An exact zero is read as at most this where the calibration set has none to learn from."""

LARGEST_LOGIT = 1e100  # sums of squares of larger logits would overflow
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
        """Deal rows to folds, by group or at random by content; see ``deal_shares``."""
        return deal_rows(self, n_folds)

    def in_folds(self, n_folds: int) -> tuple[SimplexBatch, Wholes]:
        """Return the rows, merged where they and their folds are equal, and the fold of each."""
        batch = self.merged()
        row, fold, weight = batch.deal(n_folds)
        return replace(batch.take(row), weight=weight), fold

    def with_probabilities(self, probabilities: Floats) -> SimplexBatch:
        """Return the same labels and weights with other scores, which are on the simplex."""
        scores = np.ascontiguousarray(probabilities)
        return replace(self, scores=scores, kind="probabilities")

    def take(self, rows: NDArray[np.generic] | slice) -> SimplexBatch:
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


def check_floor(min_probability: Any, n_classes: int) -> None:
    """Refuse a ``min_probability`` that k classes cannot all have."""
    check_number("min_probability", min_probability, low=0.0, high=1.0)
    if min_probability * n_classes > 1.0:
        most = f"use at most {1 / n_classes:.3g}"
        message = f"min_probability={min_probability} times {n_classes} classes exceeds 1; {most}"
        raise errors.ParameterError(message, argument="min_probability", value=min_probability)


def check_scores(
    scores: object, kind: str = "probabilities", normalize: str | None = None, first_row: int = 0
) -> Floats:
    """Return scores as float64 in C order, on the simplex if they are probabilities.

    One number for each row becomes two columns. Copies only what has to change. ``first_row`` is
    added to row numbers in messages.
    """
    return check_rows(to_matrix(scores, kind), kind, normalize, first_row)


def check_rows(
    matrix: NDArray[Any],
    kind: str = "probabilities",
    normalize: str | None = None,
    first_row: int = 0,
) -> Floats:
    """Return what ``to_matrix`` made of scores as ``check_scores`` returns them."""
    if is_single(kind):
        limits = -LARGEST_LOGIT, LARGEST_LOGIT
        if kind == "positive":
            limits = -CLIP_TOLERANCE, 1.0 + CLIP_TOLERANCE
        matrix = two_columns(matrix, kind, limits, first_row)
        return repair_rows(matrix, two_column_kind(kind), None, first_row)
    if matrix.shape[1] < 2:
        raise errors.ShapeError(
            f"{errors.names().scores} has shape {matrix.shape}, 1 feature(s); at least two classes "
            f"are needed: {how_to_pass(kind)}"
        )
    if matrix.dtype != np.float64 or not matrix.flags.carray or type(matrix) is not np.ndarray:
        matrix = np.require(matrix, np.float64, ["C", "ALIGNED", "ENSUREARRAY"])
    return repair_rows(matrix, kind, normalize, first_row)


def repair_rows(
    matrix: Floats, kind: str, normalize: str | None = None, first_row: int = 0
) -> Floats:
    """Return rows, float64 in C order, on the simplex if they are probabilities."""
    if kind == "logits":
        worst = row_kernels.scan_range(matrix, -LARGEST_LOGIT, LARGEST_LOGIT, True)
        _refuse(worst, matrix, kind, first_row)
        return matrix
    if normalize == "rows":
        worst = row_kernels.scan_range(matrix, -CLIP_TOLERANCE, math.inf, False)
        _refuse(worst, matrix, kind, first_row)
        repairs = len(matrix)
    else:
        *worst, repairs = row_kernels.scan_probabilities(matrix, CLIP_TOLERANCE, SUM_TOLERANCE)
        _refuse(worst, matrix, kind, first_row)
    if not repairs:
        return matrix
    out = np.empty_like(matrix)
    row_kernels.normalise_rows(matrix, out)
    return out


def _refuse(worst: Any, matrix: Floats, kind: str, first_row: int) -> None:
    """Raise the error about the first bad cell or row that a kernel found, if any."""
    code, i, j, value = worst
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
    if not np.all(used):
        batch = batch.take(used)
    if batch.group is not None and np.all(batch.group == batch.group[0]):
        raise errors.ShapeError(
            "groups has one group; pass at least two, of which some can be held out, or none",
            argument="groups",
        )
    features = find_features(batch) if kind == "logits" and classes is None else None
    if features is not None:
        notices.warn(errors.ScoresKindWarning(features))
    if not is_chunk:
        warn_of_batch(batch)
    return batch


def find_features(batch: SimplexBatch) -> str | None:
    """Say so if numbers would be logits of classes that nobody named, and tell nothing of y."""
    has_label = np.bincount(batch.class_index, minlength=batch.n_classes) > 0
    n_labels = int(has_label.sum())
    if n_labels in (1, batch.n_classes) or batch.n_rows < FEWEST_ROWS_IN_DOUBT:
        return None
    hits, expected, n_rows, top = count_hits(batch.scores, batch.class_index, batch.weight)
    is_by_chance = hits <= expected + 3.0 * math.sqrt(expected * (1.0 - expected) / n_rows)
    # A classifier seldom predicts a class that never comes, if there are rows to show most classes.
    is_elsewhere = n_rows >= batch.n_classes and np.mean(has_label[top]) < 0.5
    if not is_by_chance and not is_elsewhere:
        return None
    names = errors.names()
    return (
        f"{names.scores} has {batch.n_classes} columns for "
        f"{errors.number_of(n_labels, 'distinct label')}, and the largest number of a row tells "
        f"nothing of its label: these look like features, not logits of classes; "
        f"{names.if_features}. If they are logits, {names.if_untold}"
    )


def warn_of_batch(batch: SimplexBatch) -> None:
    """Warn of suspicious input: one class only, wrong columns, logits that are probabilities."""
    index = batch.class_index
    if np.all(index == index[0]):
        only = errors.in_words(batch.classes[index[0]])
        notices.warn(errors.SingleClassWarning(f"every label is {only}; use rows of all classes"))
    warn_of_kind(batch.scores, batch.kind)
    for doubt in (
        find_wrong_kind(batch.scores, batch.kind),
        find_wrong_columns(batch.scores, batch.class_index, batch.weight, batch.classes),
    ):
        if doubt is not None:
            notices.warn(doubt)


def warn_of_kind(scores: Floats, kind: str) -> None:
    """Warn if checked scores that are declared to be logits look like probabilities."""
    if (
        kind == "logits"
        and len(scores)
        and row_kernels.scan_probabilities(scores, CLIP_TOLERANCE, SUM_TOLERANCE)[0]
        == row_kernels.FINE
    ):
        notices.warn(
            errors.ScoresKindWarning(
                "scores='logits', but every row is in [0, 1] and sums to 1: "
                "did you mean scores='probabilities'?"
            )
        )


def chunks(n_rows: int, n_classes: int, most: int | None = None) -> Iterator[slice]:
    """Slices of rows of at most ``CHUNK_BYTES`` bytes and ``most`` rows each."""
    step = max(1, min(CHUNK_BYTES // (8 * n_classes), n_rows if most is None else most))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def small_chunks(n_rows: int, n_classes: int) -> Iterator[slice]:
    """Slices of rows for one thread each, with more rows for methods that work class by class."""
    return chunks(n_rows, n_classes, max(SMALL_CHUNK_BYTES // (8 * n_classes), SMALL_CHUNK_ROWS))
