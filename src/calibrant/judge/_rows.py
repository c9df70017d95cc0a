"""Rows of a judge, checked: human grades of some of them, and how to calibrate the judge's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._calibrators.composition import fit_part
from calibrant._calibrators.scaling import StructuredScaling
from calibrant._gate import check_labels, refuse_missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from calibrant._types import Array, Bools, Floats, Labels, Wholes
    from calibrant.metrics import Seed

    Predict = Callable[[Array], Floats]

PSEUDO_ROWS = 1.0
"""Rows added to each grade of a judge, with human grades like those of its neighbours."""

FEWEST_LABELS, N_FOLDS = 20, 10

LARGEST_SCALE, N_BINS = 20, 10
"""Number of grades up to which each is one; scores with more values are put into bins."""


class _JudgedArguments(errors.Arguments):
    scores, y = "judged", "human"


class _OtherArguments(errors.Arguments):
    scores = "unlabelled"


class _ClusterArguments(errors.Arguments):
    y, if_missing = "clusters", "give rows that belong to nothing a cluster of their own"


class Judged(NamedTuple):
    """Labelled and other rows of a judge, checked, and how to calibrate some of the labelled."""

    human: Wholes  # place of the grade of each labelled row among all grades
    grades: Labels
    labelled: Array
    other: Array
    fit: Callable[[Wholes], Predict]

    def cross_fit(self, clusters: Wholes | None, random_state: Seed) -> tuple[Floats, Floats]:
        """Return probabilities of labelled rows by fits without them, and of all other rows."""
        n, k = len(self.human), len(self.grades)
        folds = _deal_folds(self.human, clusters, np.random.default_rng(random_state))
        held_out, averaged = np.empty((n, k)), np.zeros((len(self.other), k))
        for fold in np.unique(folds):
            predict = self.fit(np.flatnonzero(folds != fold))
            held_out[folds == fold] = predict(self.labelled[folds == fold])
            averaged += predict(self.other) * np.mean(folds == fold)
        return held_out, averaged

    def grade(
        self, is_graded: Bools, numbers: Floats, clusters: Wholes | None, random_state: Seed
    ) -> tuple[Floats, Floats]:
        """Return the value of the human grade of every row, NaN without one, and the calibrated."""
        y, graded = np.full(len(is_graded), np.nan), np.empty(len(is_graded))
        held_out, averaged = self.cross_fit(clusters, random_state)
        y[is_graded] = numbers[self.human]
        graded[is_graded], graded[~is_graded] = held_out @ numbers, averaged @ numbers
        return y, graded


def find_graded(human: ArrayLike, n_rows: int) -> tuple[Bools, Array]:
    """Return which rows have a human grade, neither None nor NaN nor an empty text, and these."""
    stored = np.asarray(human, dtype=object)
    if stored.shape != (n_rows,):
        raise errors.ShapeError(
            f"human has shape {stored.shape}, but judged has {errors.number_of(n_rows, 'row')}",
            remedy="pass one grade for each row, None where there is none, or unlabelled=",
            argument="human",
        )
    is_graded = np.array([not is_missing(grade) and grade != "" for grade in stored.tolist()], bool)
    return is_graded, np.array(stored[is_graded].tolist())


def is_missing(grade: object) -> bool:
    """Whether a grade is None, NaN or NA."""
    return grade is None or type(grade).__name__ == "NAType" or grade != grade  # noqa: PLR0124


def read_judged(
    human: ArrayLike,
    judged: ArrayLike,
    unlabelled: ArrayLike,
    classes: ArrayLike | None,
    scores: str,
) -> Judged:
    """Check grades or probabilities of a judge, and human grades of the labelled rows."""
    if np.ndim(judged) == 1 or np.shape(judged)[1:] == (1,):
        rows = _read_grades(human, judged, unlabelled, classes)
    else:
        rows = _read_rows(human, judged, unlabelled, classes, scores)
    if len(rows.human) < FEWEST_LABELS:
        problem = f"human has {errors.number_of(len(rows.human), 'grade')}"
        remedy = f"grade at least {FEWEST_LABELS} rows"
        raise errors.ShapeError(problem, remedy=remedy, argument="human")
    return rows


def read_clusters(clusters: ArrayLike, n_rows: int) -> Wholes:
    """Return the number of the cluster of each labelled row."""
    with errors.naming(_ClusterArguments()):
        refuse_missing(np.asarray(clusters))
    drawn = read_items(clusters, n_rows, "clusters")
    if drawn.max() == 0:
        raise errors.ShapeError(
            f"clusters has the single value {errors.some_in_words(np.asarray(clusters)[:1])}, "
            "which says nothing of others",
            remedy="grade rows of several clusters, of ten or more if possible",
            argument="clusters",
        )
    return drawn


def read_items(items: ArrayLike | None, n_rows: int, argument: str = "items") -> Wholes:
    """Return the number of the item of each row; without items, each row is one."""
    if items is None:
        return np.arange(n_rows)
    stored = np.asarray(items)
    if stored.shape != (n_rows,):
        problem = f"{argument} has shape {stored.shape}"
        remedy = f"pass one for each of the {n_rows} rows"
        raise errors.ShapeError(problem, remedy=remedy, argument=argument)
    return np.unique(stored.astype(str), return_inverse=True)[1]


def _deal_folds(index: Wholes, drawn: Wholes | None, rng: np.random.Generator) -> Wholes:
    """Deal rows of each grade to folds, or whole clusters: their rows may have one origin."""
    if drawn is not None:
        return np.asarray(rng.permutation(drawn.max() + 1)[drawn] % N_FOLDS)
    shuffled = rng.permutation(len(index))
    folds = np.empty(len(index), dtype=np.int64)
    folds[shuffled[np.argsort(index[shuffled], kind="stable")]] = np.arange(len(index)) % N_FOLDS
    return folds


def _read_rows(
    human: ArrayLike, judged: ArrayLike, unlabelled: ArrayLike, classes: object, kind: str
) -> Judged:
    """Check probabilities of grades; return them, and how to calibrate some of the rows."""
    with errors.naming(_JudgedArguments()):
        batch = gate.check_batch(judged, human, kind=kind, classes=classes)
    with errors.naming(_OtherArguments()):
        other = gate.check_scores(unlabelled, kind)
    if other.shape[1] != batch.n_classes:
        problem = f"unlabelled has {other.shape[1]} columns, but judged has {batch.n_classes}"
        remedy = "pass one column per grade in both"
        raise errors.ShapeError(problem, remedy=remedy, argument="unlabelled")

    def fit(rows: Wholes) -> Predict:
        return fit_part(StructuredScaling(), batch.take(rows)).predict_proba

    return Judged(batch.class_index, batch.classes, batch.scores, other, fit)


def _read_grades(
    human: ArrayLike, judged: ArrayLike, unlabelled: ArrayLike, classes: ArrayLike | None
) -> Judged:
    """Check single grades; return the bins of the judge's, and how to count some rows in a table.

    A bin is a grade; of many numbers, as scores are, each bin has as many of the judge's.
    """
    labelled, other = (np.ravel(np.asarray(given, dtype=object)) for given in (judged, unlabelled))
    both = _read_scale(np.concatenate([labelled, other]), len(labelled))
    index, grades = _read_human(human, len(labelled), classes, both)
    every, places = np.unique(both, return_inverse=True)
    if both.dtype.kind == "f" and len(every) > LARGEST_SCALE:
        every = np.unique(np.quantile(both.astype(np.float64), np.arange(1, N_BINS) / N_BINS))
        places, every = np.searchsorted(every, both, side="right"), np.append(every, math.inf)
    distance = np.abs(np.subtract.outer(np.arange(len(every)), np.arange(len(every))))

    def fit(rows: Wholes) -> Predict:
        counts = np.zeros((len(every), len(grades)))
        np.add.at(counts, (places[rows], index[rows]), 1.0)
        share = (counts.sum(axis=0) + 1.0 / len(grades)) / (len(rows) + 1.0)
        # Neighbours tell what is likely: half of what a grade itself would, and so on.
        near = 0.5**distance @ counts + share
        table = counts + PSEUDO_ROWS * near / near.sum(axis=1, keepdims=True)
        table /= table.sum(axis=1, keepdims=True)
        return lambda given: table[given]

    return Judged(index, grades, places[: len(labelled)], places[len(labelled) :], fit)


def _read_human(
    human: ArrayLike, n_rows: int, classes: ArrayLike | None, both: Array
) -> tuple[Wholes, Array]:
    """Return the place of each human grade among all grades, and these."""
    named, stored = _JudgedArguments(), np.asarray(human)
    with errors.naming(named):
        refuse_missing(stored)
    grades = np.unique(stored) if classes is None else np.asarray(classes)
    # If the judge's grades are those of humans, the interval must reach them all; if they are on
    # another scale, it must not. Nothing tells which.
    is_same_kind = (grades.dtype.kind in "iufb") == (both.dtype.kind == "f")
    others = np.setdiff1d(both, grades.astype(both.dtype)) if is_same_kind else np.unique(both)
    if classes is None and len(others):
        problem = f"the judge has the grades {errors.some_in_words(others)}, which no human gave"
        remedy = "pass classes= (--classes) with all grades that humans could give"
        raise errors.LabelError(problem, remedy=remedy, argument="judged")
    if len(grades) < 2:
        raise errors.LabelError(
            f"human has the single grade {errors.some_in_words(grades)}, so nothing says how far "
            "another grade may be",
            remedy="pass classes= (--classes) with all grades that humans could give",
            argument="human",
        )
    if grades.dtype.kind != "f" or stored.dtype.kind not in "iuf" or stored.ndim > 1:
        with errors.naming(named):
            return check_labels(human, n_rows, len(grades), classes=grades)
    # Labels are no fractions; half grades are found by their texts.
    texts, names = (given.astype(float).astype(str).tolist() for given in (stored, grades))
    with errors.naming(named):
        return check_labels(texts, n_rows, len(grades), classes=names)[0], grades


def _read_scale(both: Array, n_labelled: int) -> Array:
    """Return the grades of the judge, all numbers or all text; refuse missing ones."""
    grades = both.tolist()
    is_number = [isinstance(grade, int | float | np.number) for grade in grades]
    has_numbers = any(is_number)
    for row, grade in enumerate(grades):
        fault = "a missing grade" if is_missing(grade) else "text among numbers"
        if is_missing(grade) or (has_numbers and not is_number[row]):
            raise errors.LabelError(
                fault,
                remedy="drop these rows",
                argument="judged" if row < n_labelled else "unlabelled",
                row=row if row < n_labelled else row - n_labelled,
                value=grade,
            )
    return both.astype(float if has_numbers else str)


def read_values(grades: Array, values: ArrayLike | None) -> Floats:
    """Return the numeric value of each grade."""
    if values is None and grades.dtype.kind not in "iufb":
        raise errors.ParameterError(
            f"the grades {errors.some_in_words(grades)} are not numbers; pass values= with the "
            "number of each of them",
            argument="values",
        )
    numbers = np.asarray(grades if values is None else values, dtype=float)
    if numbers.shape != grades.shape or not np.isfinite(numbers).all():
        raise errors.ParameterError(
            f"values={errors.in_words(values)} must be {len(grades)} finite numbers, one for each "
            f"of the grades {errors.some_in_words(grades)}",
            argument="values",
            value=values,
        )
    return numbers
