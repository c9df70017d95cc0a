"""Calibrate a model that grades answers to human grades of some of them.

The grades of the judge are calibrated to those of humans on the labelled rows. The mean human grade
of all rows is estimated by prediction-powered inference (Angelopoulos, Duchi and Zrnic, "PPI++",
2023): the calibrated mean, plus the mean residual of the labelled rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.metrics import confusion_matrix

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import fit_part
from calibrant._calibrators.structured import StructuredScaling
from calibrant._labels import check_labels, refuse_missing
from calibrant.metrics._result import Estimate, Result, doc, result

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Fit = Callable[[NDArray[np.int64]], Callable[[Any], Floats]]

__all__ = ["calibrate_judge"]

PSEUDO_ROWS = 1.0
"""Rows that each grade of a judge has from the start, dealt as its neighbours' are."""

PRIOR_ROWS = 0.05
"""Residuals as large as the grades allow, of which each judge is suspected from the start."""

FEWEST_LABELS = 20

LARGEST_SCALE, N_BINS = 20, 10
"""Numbers of a judge that are grades each; of more, bins are made."""


def __dir__() -> list[str]:
    return __all__


class _JudgedArguments(errors.Arguments):
    scores, y = "judged", "human"


class _OtherArguments(errors.Arguments):
    scores = "unlabelled"


@result(eq=False, repr=False)
class JudgeReport(Result):
    """What a judge is worth, and the mean human grade of all rows.

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
    classes: NDArray[Any] = doc("The human grades, sorted.")
    values: NDArray[Any] = doc("Number that each grade stands for.")
    mean: Estimate = doc("Mean human grade of all rows, and its interval.")
    labelled_mean: Estimate = doc("Mean human grade estimated from the labelled rows alone.")
    judge_mean: float = doc("Mean grade of the uncalibrated judge; NaN if it has other grades.")
    kappa_before: float = doc("Cohen's kappa of judge and humans; NaN if it has other grades.")
    kappa_after: float = doc("Kappa of the most probable calibrated grade, held-out rows.")
    weighted_kappa_before: float = doc("Quadratically weighted kappa of judge and humans.")
    weighted_kappa_after: float = doc("Of the calibrated grade nearest to the mean.")
    labels_to_halve: int | None = doc(
        "Number of labels that halves the interval; None if no number does."
    )
    power: float = doc("Weight of the calibrated grades in the estimate; 0 if they do not help.")
    target: str = doc("Whether the mean is that of these rows or of their population.")
    confidence_level: float = doc("Confidence level of the intervals.")
    probabilities: NDArray[Any] = doc("Calibrated probability of each grade, unlabelled rows.")

    def __repr__(self) -> str:
        """Return a few lines that say it."""
        kappas = self.weighted_kappa_before, self.weighted_kappa_after
        level = f"{100 * self.confidence_level:g} %"
        more = "more labels cannot halve it"
        if self.labels_to_halve is not None:
            more = f"{self.labels_to_halve} labels would halve it"
        lines = [
            f"judge on {self.n_labelled} labelled and {self.n_unlabelled} other rows",
            f"  mean human grade  {_in_words(self.mean)} ({level}, {more})",
            f"  labels alone      {_in_words(self.labelled_mean)}",
            f"  judge alone       {self.judge_mean:.4g}",
            f"  kappa             {self.kappa_before:.3f} -> {self.kappa_after:.3f} calibrated",
            "  quadratic         {:.3f} -> {:.3f}".format(*kappas),
        ]
        return "\n".join(lines)


def _in_words(estimate: Estimate) -> str:
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


def calibrate_judge(
    human: Any,
    judged: Any,
    unlabelled: Any,
    *,
    classes: Any = None,
    values: Any = None,
    scores: str = "probabilities",
    calibrator: Calibrator | None = None,
    target: str = "rows",
    confidence_level: float = 0.95,
    n_folds: int = 10,
    random_state: Any = 0,
) -> JudgeReport:
    """Calibrate the grades of a judge, and estimate the mean human grade of all rows.

    The labelled rows must be a random sample of all rows, not the hardest or the first ones. 50 to
    500 are usual.

    Parameters
    ----------
    human : array-like of shape (n_labelled,)
        Human grades: numbers, or other labels together with ``values``.
    judged : array-like of shape (n_labelled,) or (n_labelled, n_grades)
        Grades of the judge for the same rows, on any scale, or its probability of each grade. More
        than 20 different numbers, such as scores from 0 to 1, are put into ten bins of equal count.
    unlabelled : array-like of shape (n_unlabelled,) or (n_unlabelled, n_grades)
        Grades or probabilities of the judge for the other rows.
    classes : array-like of shape (n_grades,), optional
        All grades; needed if ``human`` lacks one.
    values : array-like of shape (n_grades,), optional
        Number that each grade stands for, in the order of the sorted grades or of ``classes``; not
        needed for grades that are numbers.
    scores : {"probabilities", "logits"}, default="probabilities"
        Kind of the scores in a matrix.
    calibrator : Calibrator, optional
        Calibrator of probabilities; by default ``StructuredScaling()``. Grades alone are calibrated
        by a table of human grades by judge grades.
    target : {"rows", "population"}, default="rows"
        Whether to estimate the mean of these rows, or of the population they are drawn from, whose
        interval is wider.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    n_folds : int, default=10
        Number of folds; rows are graded by calibrators that were not fitted to them.
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
    simplex.check_option("target", target, ("rows", "population"))
    simplex.check_number("confidence_level", confidence_level, low=0.0, high=1 - 1e-9)
    simplex.check_number("n_folds", n_folds, low=2, whole=True)
    if np.ndim(judged) == 1 or np.shape(judged)[1:] == (1,):
        index, grades, own, other, fit = _read_grades(human, judged, unlabelled, classes)
        before, raw = np.ravel(judged), np.ravel(unlabelled)
    else:
        index, grades, own, other, fit = _read_rows(
            human, judged, unlabelled, classes, scores, calibrator
        )
        before, raw = grades[own.argmax(axis=1)], grades[other.argmax(axis=1)]
    numbers = _read_values(grades, values)
    n, k = len(index), len(grades)
    if n < FEWEST_LABELS:
        raise errors.ShapeError(
            f"human has {errors.number_of(n, 'row')}; grade at least {FEWEST_LABELS} rows"
        )
    rng = np.random.default_rng(random_state)
    shuffled = rng.permutation(n)
    folds = np.empty(n, dtype=np.int64)
    folds[shuffled[np.argsort(index[shuffled], kind="stable")]] = np.arange(n) % n_folds
    held_out, averaged = np.empty((n, k)), np.zeros((len(other), k))
    for fold in np.unique(folds):
        predict = fit(np.flatnonzero(folds != fold))
        held_out[folds == fold] = predict(own[folds == fold])
        averaged += predict(other) * np.mean(folds == fold)
    y = numbers[index]
    mean, plain, power, more = _estimate(
        y, held_out @ numbers, averaged @ numbers, target, confidence_level, numbers
    )
    nearest = np.abs((held_out @ numbers)[:, None] - numbers).argmin(axis=1)
    other_grade, square = 1.0 - np.eye(k), np.subtract.outer(numbers, numbers) ** 2
    place = {grade: j for j, grade in enumerate(grades.tolist())}
    told = np.array([place.get(grade, -1) for grade in (*before.tolist(), *raw.tolist())])
    is_known, all_known = bool((told[:n] >= 0).all()), bool((told >= 0).all())
    return JudgeReport(
        n_labelled=n,
        n_unlabelled=len(other),
        classes=grades,
        values=numbers,
        mean=mean,
        labelled_mean=plain,
        judge_mean=float(numbers[told].mean()) if all_known else math.nan,
        kappa_before=_kappa(index, told[:n], other_grade) if is_known else math.nan,
        kappa_after=_kappa(index, held_out.argmax(axis=1), other_grade),
        weighted_kappa_before=_kappa(index, told[:n], square) if is_known else math.nan,
        weighted_kappa_after=_kappa(index, nearest, square),
        labels_to_halve=more,
        power=power,
        target=target,
        confidence_level=float(confidence_level),
        probabilities=fit(np.arange(n))(other),
    )


def _read_rows(
    human: Any, judged: Any, unlabelled: Any, classes: Any, kind: str, calibrator: Any
) -> tuple[NDArray[np.int64], NDArray[Any], Floats, Floats, Fit]:
    """Check probabilities of grades; return them, and how to calibrate some of the rows."""
    batch = simplex.check_batch(judged, human, kind=kind, classes=classes, named=_JudgedArguments())
    other = simplex.check_scores(unlabelled, kind, named=_OtherArguments())
    if other.shape[1] != batch.n_classes:
        raise errors.ShapeError(
            f"unlabelled has {other.shape[1]} columns, but judged has {batch.n_classes}; pass one "
            "column per grade in both"
        )
    base = StructuredScaling() if calibrator is None else calibrator
    if not isinstance(base, Calibrator):
        raise errors.ParameterError(f"calibrator={errors.in_words(base)} is not a calibrator")

    def fit(rows: NDArray[np.int64]) -> Callable[[Floats], Floats]:
        return fit_part(base, batch.take(rows)).predict_proba

    return batch.class_index, batch.classes, batch.scores, other, fit


def _read_grades(
    human: Any, judged: Any, unlabelled: Any, classes: Any
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any], NDArray[Any], Fit]:
    """Check single grades; return the bins of the judge's, and how to count some rows in a table.

    A bin is a grade; of many numbers, as scores are, each bin has as many of the judge's.
    """
    own, other = (np.ravel(np.asarray(given, dtype=object)) for given in (judged, unlabelled))
    index, grades = _read_human(human, len(own), classes)
    both = _read_scale(np.concatenate([own, other]), len(own))
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

    return index, grades, places[: len(own)], places[len(own) :], fit


def _read_human(human: Any, n_rows: int, classes: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Place of each human grade among all of them; half grades are told apart as text."""
    named, stored = _JudgedArguments(), np.asarray(human)
    refuse_missing(stored, named)
    known = np.unique(stored) if classes is None else np.asarray(classes)
    if known.dtype.kind != "f" or stored.dtype.kind not in "iuf" or stored.ndim > 1:
        return check_labels(human, n_rows, len(known), classes=known, named=named)
    texts, names = (given.astype(float).astype(str).tolist() for given in (stored, known))
    return check_labels(texts, n_rows, len(known), classes=names, named=named)[0], known


def _read_scale(both: NDArray[Any], n_labelled: int) -> NDArray[Any]:
    """Grades of the judge, all numbers or all text; none is missing."""

    def error(row: int, fault: str) -> errors.DataError:
        of_labelled = row < n_labelled
        name = f"judged[{row}]" if of_labelled else f"unlabelled[{row - n_labelled}]"
        return errors.LabelError(f"{name} is {both[row]!r:.60}, {fault}; drop these rows")

    is_text = [not isinstance(grade, int | float | np.number) for grade in both.tolist()]
    for row, grade in enumerate(both.tolist()):
        if grade is None or type(grade).__name__ == "NAType" or grade != grade:  # noqa: PLR0124
            raise error(row, "a missing grade")
    if any(is_text) and not all(is_text):
        texts = np.flatnonzero(is_text).tolist()
        row = next((row for row in texts if not _is_number(both[row])), texts[0])
        raise error(row, "text among numbers")
    return both.astype(str if any(is_text) else float)


def _is_number(text: Any) -> bool:
    try:
        return math.isfinite(float(text))
    except (TypeError, ValueError):
        return False


def _read_values(grades: NDArray[Any], values: Any) -> Floats:
    """Numbers that grades stand for."""
    if values is None and grades.dtype.kind not in "iufb":
        raise errors.ParameterError(
            f"the grades {errors.some_in_words(grades)} are not numbers; pass values= with the "
            "number that each of them stands for"
        )
    found = np.asarray(grades if values is None else values, dtype=float)
    if found.shape != grades.shape or not np.isfinite(found).all():
        raise errors.ParameterError(
            f"values={errors.in_words(values)} must be {len(grades)} finite numbers, one for each "
            f"of the grades {errors.some_in_words(grades)}"
        )
    return found


def _estimate(
    y: Floats, held_out: Floats, other: Floats, target: str, level: float, numbers: Floats
) -> tuple[Estimate, Estimate, float, int | None]:
    """Estimate the mean by both ways; return also the power, and the labels that halve its width.

    With e = y - power f, the unlabelled rows have the mean grade power mean(f) + mean(e) but for a
    variance s_e^2 / n + s_e^2 / N: of all n + N rows this is (1 - n / (n + N)) s_e^2 / n. The
    variance of a mean of the population has s_y^2 / (n + N) besides. The power is that of the least
    s_e from 0 to 1; a degree of freedom is paid for it. The mean is within the values of grades.
    """
    n, m = len(y), len(y) + len(other)
    low, high = float(numbers.min()), float(numbers.max())
    spread = float(held_out.var())
    power = float(np.mean((held_out - held_out.mean()) * y)) / spread if spread else 0.0
    power = min(max(power, 0.0), 1.0)
    of_rows = float(y.var(ddof=1)) / m if target == "population" else 0.0

    def interval(power: float, n_fitted: int) -> tuple[Estimate, float, float]:
        rest = y - power * held_out
        beyond = power * (float(other.mean()) if len(other) else 0.0) + rest.mean()
        value = float(n / m * y.mean() + (1.0 - n / m) * beyond)
        quantile = float(stats.t.ppf(0.5 + level / 2, n - n_fitted))
        residual = _residual_variance(rest, n_fitted, high - low, -math.log1p(-level) / quantile)
        half = quantile * math.sqrt((1.0 / n - 1.0 / m) * residual + of_rows)
        inside = (min(max(x, low), high) for x in (value, value - half, value + half))
        return Estimate(*inside), half, residual

    (plain, half, own), (tuned, narrow, residual) = interval(0.0, 1), interval(power, 2)
    if narrow >= half or tuned.high - tuned.low > plain.high - plain.low:
        tuned, power, residual = plain, 0.0, own
    goal = ((1.0 / n - 1.0 / m) * residual + of_rows) / 4.0 - of_rows
    more = None
    if n < m and residual > 0.0 and goal / residual + 1.0 / m > 0.0:
        more = math.ceil(1.0 / (goal / residual + 1.0 / m))
    return tuned, plain, power, more if more is None or more <= m else None


def _residual_variance(rest: Floats, n_fitted: int, span: float, rule: float) -> float:
    """Variance of residuals, and that of those few large ones which the rows may not have shown.

    Where all residuals are 0, up to -log(1 - level) rows of the size of the span may be expected,
    and none of them seen (the rule of three): a variance of rule^2 span^2 / n is added, with which
    the interval ends just there. Residuals that were seen tell their own size, sum e^4 / sum e^2,
    in which the span counts as PRIOR_ROWS of a row.
    """
    square = (rest - rest.mean()) ** 2
    total = float(square.sum()) + PRIOR_ROWS * span**2
    size = (float(square @ square) + PRIOR_ROWS * span**4) / total if total else 0.0
    return float(square.sum()) / (len(rest) - n_fitted) + rule**2 * size / len(rest)


def _kappa(a: NDArray[Any], b: NDArray[Any], cost: Floats) -> float:
    """Cohen's kappa: 1 less the mean cost of pairs over that of chance; NaN where that is 0."""
    table = confusion_matrix(a, b, labels=np.arange(len(cost))).astype(float)
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    expected = float((cost * chance).sum())
    return 1.0 - float((cost * table).sum()) / expected if expected else math.nan
