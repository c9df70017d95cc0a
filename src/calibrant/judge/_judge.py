"""Calibrate a model that grades answers to human grades of some of them, and plan these.

The grades of the judge are calibrated to those of humans on the labelled rows. The mean human grade
of all rows is estimated by prediction-powered inference (Angelopoulos, Duchi and Zrnic, "PPI++",
2023): the calibrated mean, plus the mean residual of the labelled rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.metrics import cohen_kappa_score

from calibrant import _gate as gate
from calibrant._result import Estimate, Result, doc, result
from calibrant.judge._interval import brief, estimate_mean
from calibrant.judge._rows import find_graded, read_clusters, read_judged, read_values

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._types import Array, Bools, Floats, Labels, Wholes
    from calibrant.metrics import Seed

N_PILOT = 100
"""Labels from which a plan is made: the width of its interval is then known within some 8 %."""


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
    classes: Labels = doc("All grades, sorted.")
    values: Floats = doc("Numeric value of each grade.")
    mean: Estimate = doc("Mean human grade of all rows, and its interval.")
    labelled_mean: Estimate = doc("Mean human grade estimated from the labelled rows alone.")
    judge_mean: float = doc("Mean grade of the uncalibrated judge; NaN if it has other grades.")
    kappa_before: float = doc("Cohen's kappa of judge and humans; NaN if it has other grades.")
    kappa_after: float = doc("Kappa of the most probable calibrated grade, held-out rows.")
    power: float = doc("Weight of the calibrated grades in the estimate; 0 if they do not help.")
    target: str = doc("Whether the mean is that of these rows or of their population.")
    confidence_level: float = doc("Confidence level of the intervals.")
    probabilities: Floats = doc("Calibrated probability of each grade, unlabelled rows.")

    def __repr__(self) -> str:
        """Return a few lines for people."""
        drawn = "" if self.n_clusters is None else f" (of {self.n_clusters} clusters)"
        return (
            f"judge on {self.n_labelled} labelled{drawn} and {self.n_unlabelled} other rows\n"
            f"  mean human grade  {brief(self.mean)} ({100 * self.confidence_level:g} %)\n"
            f"  labels alone      {brief(self.labelled_mean)}\n"
            f"  judge alone       {self.judge_mean:.4g}\n"
            f"  kappa             {self.kappa_before:.3f} -> {self.kappa_after:.3f} calibrated"
        )


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


def _kappa(a: Wholes, b: Wholes) -> float:
    """Return Cohen's kappa; NaN where all grades are equal."""
    return float(cohen_kappa_score(a, b)) if len(np.union1d(a, b)) > 1 else math.nan


@result(repr=False)
class LabelPlan(Result):
    """Rows to be graded next; ``print`` says why."""

    rows: Wholes = doc("Indices of the rows to grade, in their order.")
    n_labelled: int = doc("Rows that have a human grade already.")
    n_needed: int = doc("Rows with a human grade when the plan is carried out.")
    width: float = doc("Wanted width of the interval.")
    width_now: float = doc("Width of the interval of the labels so far; NaN before there are any.")
    expected_width: float = doc(
        "Expected width with ``n_needed`` grades; NaN before there are any."
    )

    def __repr__(self) -> str:
        more = f"grade {len(self.rows):,} more rows"
        if math.isnan(self.width_now):
            return (
                f"No plan yet: {more}, drawn at random, {self.n_needed:,} in all; how wide an "
                "interval is depends on how well judge and humans agree. Then plan again."
            )
        now = f"{self.n_labelled:,} labels give an interval {self.width_now:.4g} wide"
        if len(self.rows) == 0:
            return f"{now}, which is no wider than {self.width:.4g}: no more labels are needed."
        return (
            f"{now}. For one {self.width:.4g} wide, {more}, {self.n_needed:,} in all; "
            f"{self.expected_width:.4g} is expected."
        )


def plan_labels(
    human: ArrayLike,
    judged: ArrayLike,
    width: float,
    *,
    classes: ArrayLike | None = None,
    values: ArrayLike | None = None,
    scores: str = "probabilities",
    confidence_level: float = 0.95,
    random_state: Seed = 0,
) -> LabelPlan:
    """Plan which rows humans should grade next, for an interval of a wanted width.

    Parameters
    ----------
    human : array-like of shape (n_rows,)
        Human grades so far, None or NaN where there is none; of a random sample of the rows, such
        as an earlier plan. With fewer than 100 the plan is to grade 100 first.
    judged : array-like of shape (n_rows,) or (n_rows, n_grades)
        Grades of the judge for all rows, or its probability of each grade.
    width : float
        Wanted width of the interval of the mean human grade of these rows.
    classes, values, scores, confidence_level
        As of :func:`calibrate_judge`.
    random_state : int or numpy Generator, default=0
        Seed of the rows that are drawn.

    Returns
    -------
    LabelPlan
        The rows to grade. Every row is as likely to be drawn as any other, so that their mean
        residual is that of all; they are spread evenly over the grades of the judge.

    Notes
    -----
    The width falls with the number n of labels among N rows as sqrt(1 / n - 1 / N), from that of
    the labels so far.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.judge import plan_labels
    >>> rng = np.random.default_rng(0)
    >>> grade = rng.integers(1, 6, 5000).astype(float)
    >>> judged = np.clip(grade + rng.integers(0, 2, 5000), 1, 5)
    >>> plan = plan_labels(np.full(5000, np.nan), judged, 0.1)
    >>> len(plan.rows)
    100
    >>> human = np.full(5000, np.nan)
    >>> human[plan.rows] = grade[plan.rows]
    >>> plan = plan_labels(human, judged, 0.1, classes=[1, 2, 3, 4, 5])
    >>> plan.n_needed > 100
    True
    """
    gate.check_number("width", width, low=1e-12)
    stored = np.asarray(judged)
    is_graded, _ = find_graded(human, len(stored))
    n_rows, n = len(stored), int(np.count_nonzero(is_graded))
    now = expected = math.nan
    needed = min(N_PILOT, n_rows)
    if n >= needed:
        mean = calibrate_judge(
            human,
            judged,
            classes=classes,
            values=values,
            scores=scores,
            confidence_level=confidence_level,
        ).mean
        now = expected = mean.high - mean.low
        # 1 / n - 1 / N falls to its part at which the width is the wanted one.
        scale = (1.0 / n - 1.0 / n_rows) / now**2 if now > 0.0 else 0.0
        needed = max(n, math.ceil(1.0 / (scale * width**2 + 1.0 / n_rows)))
        if scale > 0.0:
            expected = math.sqrt(max(1.0 / needed - 1.0 / n_rows, 0.0) / scale)
    rows = _draw_evenly(stored, ~is_graded, needed - n, np.random.default_rng(random_state))
    return LabelPlan(rows, n, needed, float(width), now, expected)


def _draw_evenly(judged: Array, is_open: Bools, n_drawn: int, rng: np.random.Generator) -> Wholes:
    """Draw rows with equal chances, at equal distances in the order of the judge's grades."""
    rows = rng.permutation(np.flatnonzero(is_open))
    # Within a grade, by how sure the judge is of it.
    graded, sure = judged[rows], np.zeros(len(rows))
    if judged.ndim > 1:
        graded, sure = graded.argmax(axis=1), graded.max(axis=1)
    order = np.lexsort((sure, np.unique(graded, return_inverse=True)[1]))
    place = (rng.random() + np.arange(n_drawn)) * (len(rows) / max(n_drawn, 1))
    return np.sort(rows[order][np.minimum(place.astype(np.int64), len(rows) - 1)])
