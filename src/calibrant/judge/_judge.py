"""Calibrate a model that grades answers to human grades of some of them.

The grades of the judge are calibrated to those of humans on the labelled rows. The mean human grade
of all rows is estimated by prediction-powered inference (Angelopoulos, Duchi and Zrnic, "PPI++",
2023): the calibrated mean, plus the mean residual of the labelled rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.metrics import cohen_kappa_score

from calibrant import _gate as gate
from calibrant import errors
from calibrant._calibrators.composition import fit_part
from calibrant._calibrators.scaling import StructuredScaling
from calibrant._gate import check_labels, refuse_missing
from calibrant._result import Estimate, Result, doc, result
from calibrant.judge._interval import estimate_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from calibrant.metrics import Seed

    Floats = NDArray[np.float64]
    Fit = Callable[[NDArray[np.int64]], Callable[[Any], Floats]]

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


@result(eq=False, repr=False)
class JudgeReport(Result):
    """Agreement of a judge with humans, and the mean human grade of all rows.

    Examples
    --------
    >>> from calibrant.judge import calibrate_judge
    >>> human, judged, unlabelled = [1, 2, 3, 2] * 10, [2, 2, 3, 3] * 10, [2, 3] * 200
    >>> report = calibrate_judge(human, judged, unlabelled)
    >>> report.mean.low < report.mean.value < report.mean.high
    True
    """

    n_labelled: int = doc("Rows with a human grade.")
    n_unlabelled: int = doc("Rows with the judge's grade only.")
    n_clusters: int | None = doc("Clusters of the labelled rows; None if these are independent.")
    classes: NDArray[Any] = doc("All grades, sorted.")
    values: NDArray[Any] = doc("Numeric value of each grade.")
    mean: Estimate = doc("Mean human grade of all rows, and its interval.")
    labelled_mean: Estimate = doc("Mean human grade estimated from the labelled rows alone.")
    judge_mean: float = doc("Mean grade of the uncalibrated judge; NaN if it has other grades.")
    kappa_before: float = doc("Cohen's kappa of judge and humans; NaN if it has other grades.")
    kappa_after: float = doc("Kappa of the most probable calibrated grade, held-out rows.")
    power: float = doc("Weight of the calibrated grades in the estimate; 0 if they do not help.")
    target: str = doc("Whether the mean is that of these rows or of their population.")
    confidence_level: float = doc("Confidence level of the intervals.")
    probabilities: NDArray[Any] = doc("Calibrated probability of each grade, unlabelled rows.")

    def __repr__(self) -> str:
        """Return a few lines for people."""
        drawn = "" if self.n_clusters is None else f" (of {self.n_clusters} clusters)"
        mean, alone = (
            f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"
            for estimate in (self.mean, self.labelled_mean)
        )
        return (
            f"judge on {self.n_labelled} labelled{drawn} and {self.n_unlabelled} other rows\n"
            f"  mean human grade  {mean} ({100 * self.confidence_level:g} %)\n"
            f"  labels alone      {alone}\n"
            f"  judge alone       {self.judge_mean:.4g}\n"
            f"  kappa             {self.kappa_before:.3f} -> {self.kappa_after:.3f} calibrated"
        )


class Judged(NamedTuple):
    """Labelled and other rows of a judge, checked, and how to calibrate some of the labelled."""

    human: NDArray[np.int64]  # place of the grade of each labelled row among all grades
    grades: NDArray[Any]
    labelled: NDArray[Any]
    other: NDArray[Any]
    fit: Fit

    def cross_fit(
        self, clusters: NDArray[np.int64] | None, random_state: Seed
    ) -> tuple[Floats, Floats]:
        """Return probabilities of labelled rows by fits without them, and of all other rows."""
        n, k = len(self.human), len(self.grades)
        folds = _deal_folds(self.human, clusters, np.random.default_rng(random_state))
        held_out, averaged = np.empty((n, k)), np.zeros((len(self.other), k))
        for fold in np.unique(folds):
            predict = self.fit(np.flatnonzero(folds != fold))
            held_out[folds == fold] = predict(self.labelled[folds == fold])
            averaged += predict(self.other) * np.mean(folds == fold)
        return held_out, averaged


def calibrate_judge(
    human: ArrayLike,
    judged: ArrayLike,
    unlabelled: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    values: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    scores: str = "probabilities",
    target: Literal["rows", "population"] = "rows",
    confidence_level: float = 0.95,
    random_state: Seed = 0,
) -> JudgeReport:
    """Calibrate the grades of a judge, and estimate the mean human grade of all rows.

    The labelled rows must be a random sample of all rows, not the hardest or the first ones. 50 to
    500 are usual. Grades are calibrated by a table of human grades by judge grades, probabilities
    by ``StructuredScaling``, in ten folds: no row is graded by a calibrator that was fitted to it.

    Parameters
    ----------
    human : array-like of shape (n_labelled,)
        Human grades: numbers, or other labels together with ``values``. Without ``unlabelled``,
        those of all rows, with None or NaN where there is none.
    judged : array-like of shape (n_labelled,) or (n_labelled, n_grades)
        Grades of the judge for the same rows, on any scale, or its probability of each grade. More
        than 20 different numbers, such as scores from 0 to 1, are put into ten bins of equal count.
    unlabelled : array-like of shape (n_unlabelled,) or (n_unlabelled, n_grades), optional
        Grades or probabilities of the judge for the other rows.
    classes : array-like of shape (n_grades,), optional
        All grades that humans could give. The interval must reach each of them, so name them if
        humans may have given some of them to none of the labelled rows, and if the judge has other
        grades. By default those that humans gave.
    values : array-like of shape (n_grades,), optional
        Numeric value of each grade, in the order of the sorted grades or of ``classes``; not
        needed for grades that are numbers.
    clusters : array-like of shape (n_labelled,), optional
        What was drawn, if labelled rows were not drawn one by one: the document, conversation or
        annotator of each row. Rows of a cluster share a fold, and the interval is that of a sample
        of clusters; below ten of them it is wide.
    scores : {"probabilities", "logits"}, default="probabilities"
        Kind of the scores in a matrix.
    target : {"rows", "population"}, default="rows"
        Whether to estimate the mean of these rows, or of the population they are drawn from, whose
        interval is wider.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    random_state : int or numpy Generator, default=0
        Seed of the folds.

    Returns
    -------
    JudgeReport
        The mean with its interval, agreement before and after, and calibrated probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.judge import calibrate_judge
    >>> rng = np.random.default_rng(0)
    >>> human = rng.integers(1, 6, 1000)
    >>> judged = np.clip(human + rng.integers(0, 2, 1000), 1, 5)  # often a grade too kind
    >>> report = calibrate_judge(human[:100], judged[:100], judged[100:])
    >>> bool(report.mean.low < human.mean() < report.mean.high)
    True
    >>> report.mean.high - report.mean.low < report.labelled_mean.high - report.labelled_mean.low
    True
    """
    gate.check_option("target", target, ("rows", "population"))
    gate.check_number("confidence_level", confidence_level, low=0.0, high=1 - 1e-9)
    if unlabelled is None:
        is_graded, human = find_graded(human, np.shape(judged)[0])
        if clusters is not None:
            clusters = np.asarray(clusters)[is_graded]
        judged, unlabelled = np.asarray(judged)[is_graded], np.asarray(judged)[~is_graded]
    rows = read_judged(human, judged, unlabelled, classes, scores)
    index, grades = rows.human, rows.grades
    if rows.labelled.ndim == 1:
        before, raw = np.ravel(judged), np.ravel(unlabelled)
    else:
        before, raw = grades[rows.labelled.argmax(axis=1)], grades[rows.other.argmax(axis=1)]
    numbers, n = read_values(grades, values), len(index)
    drawn = None if clusters is None else read_clusters(clusters, n)
    held_out, averaged = rows.cross_fit(drawn, random_state)
    y = numbers[index]
    mean, plain, power = estimate_mean(
        y, held_out @ numbers, averaged @ numbers, target, confidence_level, numbers, drawn
    )
    place = {grade: j for j, grade in enumerate(grades.tolist())}
    columns = np.array([place.get(grade, -1) for grade in (*before.tolist(), *raw.tolist())])
    is_known, all_known = bool((columns[:n] >= 0).all()), bool((columns >= 0).all())
    return JudgeReport(
        n_labelled=n,
        n_unlabelled=len(rows.other),
        n_clusters=None if drawn is None else int(drawn.max()) + 1,
        classes=grades,
        values=numbers,
        mean=mean,
        labelled_mean=plain,
        judge_mean=float(numbers[columns].mean()) if all_known else math.nan,
        kappa_before=_kappa(index, columns[:n]) if is_known else math.nan,
        kappa_after=_kappa(index, held_out.argmax(axis=1)),
        power=power,
        target=target,
        confidence_level=float(confidence_level),
        probabilities=rows.fit(np.arange(n))(rows.other),
    )


def find_graded(human: Any, n_rows: int) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which rows have a human grade, neither None nor NaN nor an empty text, and these."""
    stored = np.asarray(human, dtype=object)
    if stored.shape != (n_rows,):
        raise errors.ShapeError(
            f"human has shape {stored.shape}, but judged has {errors.number_of(n_rows, 'row')}; "
            "pass one grade for each row, None where there is none, or unlabelled="
        )
    grades = stored.tolist()
    is_graded = np.array([not is_missing(grade) and grade != "" for grade in grades], bool)
    return is_graded, np.array(stored[is_graded].tolist())


def is_missing(grade: Any) -> bool:
    """Whether a grade is None, NaN or NA."""
    return grade is None or type(grade).__name__ == "NAType" or grade != grade  # noqa: PLR0124


def read_judged(human: Any, judged: Any, unlabelled: Any, classes: Any, scores: str) -> Judged:
    """Check grades or probabilities of a judge, and human grades of the labelled rows."""
    is_single = np.ndim(judged) == 1 or np.shape(judged)[1:] == (1,)
    rows = (
        _read_grades(human, judged, unlabelled, classes)
        if is_single
        else _read_rows(human, judged, unlabelled, classes, scores)
    )
    if len(rows.human) < FEWEST_LABELS:
        raise errors.ShapeError(
            f"human has {errors.number_of(len(rows.human), 'grade')}; grade at least "
            f"{FEWEST_LABELS} rows"
        )
    return rows


def read_clusters(clusters: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the number of the cluster of each labelled row."""
    stored = np.asarray(clusters)
    if stored.shape != (n_rows,):
        raise errors.ShapeError(
            f"clusters has shape {stored.shape}; pass one for each of the {n_rows} labelled rows"
        )
    with errors.naming(_ClusterArguments()):
        refuse_missing(stored)
    names, drawn = np.unique(stored.astype(str), return_inverse=True)
    if len(names) < 2:
        raise errors.ShapeError(
            f"clusters has the single value {errors.some_in_words(names)}, which says nothing of "
            "others; grade rows of several clusters, of ten or more if possible"
        )
    return drawn


def read_items(items: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the number of the item of each row; without items, each row is one."""
    if items is None:
        return np.arange(n_rows)
    stored = np.asarray(items)
    if stored.shape != (n_rows,):
        raise errors.ShapeError(
            f"items has shape {stored.shape}; pass the item of each of the {n_rows} rows"
        )
    return np.unique(stored.astype(str), return_inverse=True)[1]


def _deal_folds(
    index: NDArray[np.int64], drawn: NDArray[np.int64] | None, rng: Any
) -> NDArray[np.int64]:
    """Deal rows of each grade to folds, or whole clusters: their rows may have one origin."""
    if drawn is not None:
        return np.asarray(rng.permutation(drawn.max() + 1)[drawn] % N_FOLDS)
    shuffled = rng.permutation(len(index))
    folds = np.empty(len(index), dtype=np.int64)
    folds[shuffled[np.argsort(index[shuffled], kind="stable")]] = np.arange(len(index)) % N_FOLDS
    return folds


def _read_rows(human: Any, judged: Any, unlabelled: Any, classes: Any, kind: str) -> Judged:
    """Check probabilities of grades; return them, and how to calibrate some of the rows."""
    with errors.naming(_JudgedArguments()):
        batch = gate.check_batch(judged, human, kind=kind, classes=classes)
    with errors.naming(_OtherArguments()):
        other = gate.check_scores(unlabelled, kind)
    if other.shape[1] != batch.n_classes:
        raise errors.ShapeError(
            f"unlabelled has {other.shape[1]} columns, but judged has {batch.n_classes}; pass one "
            "column per grade in both"
        )

    def fit(rows: NDArray[np.int64]) -> Callable[[Floats], Floats]:
        return fit_part(StructuredScaling(), batch.take(rows)).predict_proba

    return Judged(batch.class_index, batch.classes, batch.scores, other, fit)


def _read_grades(human: Any, judged: Any, unlabelled: Any, classes: Any) -> Judged:
    """Check single grades; return the bins of the judge's, and how to count some rows in a table.

    A bin is a grade; of many numbers, as scores are, each bin has as many of the judge's.
    """
    labelled, other = (np.ravel(np.asarray(given, dtype=object)) for given in (judged, unlabelled))
    both = _read_scale(np.concatenate([labelled, other]), len(labelled))
    index, grades = _read_human(human, len(labelled), classes, both)
    every, places = np.unique(both, return_inverse=True)
    if both.dtype.kind == "f" and len(every) > LARGEST_SCALE:
        every = np.unique(np.quantile(both, np.arange(1, N_BINS) / N_BINS))
        places, every = np.searchsorted(every, both, side="right"), np.append(every, math.inf)
    distance = np.abs(np.subtract.outer(np.arange(len(every)), np.arange(len(every))))

    def fit(rows: NDArray[np.int64]) -> Callable[[Any], Floats]:
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
    human: Any, n_rows: int, classes: Any, both: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
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
        raise errors.LabelError(
            f"the judge has the grades {errors.some_in_words(others)}, which no human gave; pass "
            "classes= (--classes) with all grades that humans could give"
        )
    if len(grades) < 2:
        raise errors.LabelError(
            f"human has the single grade {errors.some_in_words(grades)}, so nothing says how far "
            "another grade may be; pass classes= (--classes) with all grades that humans could give"
        )
    if grades.dtype.kind != "f" or stored.dtype.kind not in "iuf" or stored.ndim > 1:
        with errors.naming(named):
            return check_labels(human, n_rows, len(grades), classes=grades)
    # Labels are no fractions; half grades are found by their texts.
    texts, names = (given.astype(float).astype(str).tolist() for given in (stored, grades))
    with errors.naming(named):
        return check_labels(texts, n_rows, len(grades), classes=names)[0], grades


def _read_scale(both: NDArray[Any], n_labelled: int) -> NDArray[Any]:
    """Return the grades of the judge, all numbers or all text; refuse missing ones."""

    def error(row: int, fault: str) -> errors.LabelError:
        is_labelled = row < n_labelled
        name = f"judged[{row}]" if is_labelled else f"unlabelled[{row - n_labelled}]"
        return errors.LabelError(f"{name} is {both[row]!r:.60}, {fault}; drop these rows")

    grades = both.tolist()
    for row, grade in enumerate(grades):
        if is_missing(grade):
            raise error(row, "a missing grade")
    texts = [i for i, grade in enumerate(grades) if not isinstance(grade, int | float | np.number)]
    if texts and len(texts) < len(grades):
        raise error(texts[0], "text among numbers")
    return both.astype(str if texts else float)


def read_values(grades: NDArray[Any], values: Any) -> Floats:
    """Return the numeric value of each grade."""
    if values is None and grades.dtype.kind not in "iufb":
        raise errors.ParameterError(
            f"the grades {errors.some_in_words(grades)} are not numbers; pass values= with the "
            "number that each of them stands for"
        )
    numbers = np.asarray(grades if values is None else values, dtype=float)
    if numbers.shape != grades.shape or not np.isfinite(numbers).all():
        raise errors.ParameterError(
            f"values={errors.in_words(values)} must be {len(grades)} finite numbers, one for each "
            f"of the grades {errors.some_in_words(grades)}"
        )
    return numbers


def _kappa(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Return Cohen's kappa; NaN where all grades are equal."""
    return float(cohen_kappa_score(a, b)) if len(np.union1d(a, b)) > 1 else math.nan
