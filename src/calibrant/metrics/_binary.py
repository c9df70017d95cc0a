"""``binary_summary``: AUC, predicted over observed positives, calibration slope and intercept.

Each is a function of the distinct predictions of the positive class, with their weights and labels:
so a weight is a repetition, and the order of rows changes nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, stdtr, stdtrit

from calibrant import _threads as threads
from calibrant import errors
from calibrant._predictions import EventCells, in_memory, usual_column
from calibrant._result import Estimate, Result, doc, result
from calibrant._text import percents
from calibrant.metrics._intervals import check_level
from calibrant.metrics._recalibration import find_separation, fit_recalibration

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label
    from calibrant.scale import Chunks

FEWEST_OF_A_CLASS = 20
"""Rows of each class from which on the intervals hold: docs/evidence/intervals.md."""

FEWEST_IF_PREDICTED = 15
"""The same if as many were predicted: else samples that happen to have more would be chosen."""

ALPHA = 0.05  # level of the findings, which Bonferroni's correction divides by the number of tests
SHOWN = {
    "auc": ("AUC", ".3f"),
    "predicted_over_observed": ("predicted/observed", ".3f"),
    "slope": ("slope", ".2f"),
    "intercept": ("intercept", "+.2f"),
}
"""Title and format of each number, in the order of tables."""


@result()
class BinarySummary(Result):
    """Result of :func:`binary_summary`; ``print`` shows a table."""

    auc: Estimate = doc("Share of pairs of a positive and a negative row in the right order.")
    predicted_over_observed: Estimate = doc("Mean prediction divided by the share of positives.")
    slope: Estimate = doc("b of logit(q) = a + b logit(p); below 1 if p is too extreme.")
    intercept: Estimate = doc("a of the same: log-odds of a positive label where p is 1/2.")
    predicted: float = doc("Mean prediction.")
    observed: float = doc("Share of the positive class.")
    n_positive: float = doc("Weight of the positive rows.")
    n_negative: float = doc("Weight of the others.")
    findings: tuple[str, ...] = doc(
        "Of 'reversed', 'over-predicted', 'under-predicted', 'too extreme' and 'too timid': those "
        "that are more than chance at 5 %, corrected for three tests."
    )
    missing: tuple[str, ...] = doc("Why numbers are NaN, or have no interval; a sentence each.")
    confidence_level: float = doc("Confidence level of the intervals.")
    positive: Any = doc("Label of the positive class.")

    def estimates(self) -> dict[str, Estimate]:
        """Return the four numbers by name, in the order of tables."""
        return {name: getattr(self, name) for name in SHOWN}

    def texts(self) -> dict[str, tuple[str, str]]:
        """Return each number and its interval as they are printed, by title; "" is for none."""
        return {
            SHOWN[name][0]: _texts(name, estimate) for name, estimate in self.estimates().items()
        }

    def describe(self) -> list[str]:
        """Describe the findings, a sentence each."""
        name = errors.in_words(self.positive)
        said, seen = percents(self.predicted, self.observed)
        ratio, slope, auc = (
            _texts(field, getattr(self, field))[0]
            for field in ("predicted_over_observed", "slope", "auc")
        )
        seen_as = f"({said} predicted, {seen} observed; ratio {ratio})"
        words = {
            "reversed": f"The predictions are reversed: AUC {auc}, below 0.5 by more than chance. "
            f"Rows of class {name} have lower probabilities than others: check whether the column "
            "is that of the other class.",
            "over-predicted": f"Class {name} is over-predicted {seen_as}.",
            "under-predicted": f"Class {name} is under-predicted {seen_as}.",
            "too extreme": f"The predictions are too extreme: slope {slope}, where 1 is right.",
            "too timid": f"The predictions are too timid: slope {slope}, where 1 is right.",
        }
        return [words[finding] for finding in self.findings]

    def __str__(self) -> str:
        lines = [f"{'':<20}{'value':>10}   {100 * self.confidence_level:g} % interval"]
        lines += [f"{t:<20}{v:>10}   {i}".rstrip() for t, (v, i) in self.texts().items()]
        return "\n".join([*lines, *self.missing, *self.describe()])


def _texts(name: str, estimate: Estimate) -> tuple[str, str]:
    """Return a number and its interval as they are printed."""
    spec = SHOWN[name][1]
    value, low, high = ("-" if math.isnan(v) else format(v, spec) for v in estimate)
    return value, "" if math.isnan(estimate.low) else f"{low} to {high}"


def binary_summary(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> BinarySummary:
    """Compute what a classifier of two classes is judged by beside its calibration error.

    AUC says whether positive rows get higher probabilities, predicted over observed positives
    (calibration in the large) whether probabilities are right on average, and slope and intercept
    of Cox's recalibration, logit(q) = a + b logit(p), whether they are too extreme (b < 1), too
    timid (b > 1) or reversed (b < 0). Calibrated predictions have a ratio and a slope of 1.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label
        As in :func:`evaluate`.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A weight is a repetition: weight 2 counts a row twice, also in intervals.

    Returns
    -------
    BinarySummary
        Four numbers as (value, low, high), and what is wrong with the predictions.

    Notes
    -----
    Intervals are DeLong's on the scale of the log-odds for the AUC, that of the logarithm for the
    ratio, and profile likelihood for slope and intercept, with Student's t. They need 20 rows of
    each class, or 15 both observed and predicted; without, there is none, and ``missing`` says why.
    How often they hold: docs/evidence/intervals.md.

    Probabilities within 1e-12 of 0 or 1 have the log-odds of 1e-12. Where scores separate the
    classes the slope is infinite, and its interval has a low end only.

    References
    ----------
    .. [1] E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the Areas under Two or
       More Correlated Receiver Operating Characteristic Curves", Biometrics 44, 1988.
    .. [2] D. R. Cox, "Two further applications of a model for binary regression", Biometrika 45,
       1958.
    .. [3] B. Van Calster et al., "Calibration: the Achilles heel of predictive analytics", BMC
       Medicine 17, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import binary_summary
    >>> rng = np.random.default_rng(0)
    >>> log_odds = rng.normal(-2, 1, 2000)
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-log_odds))
    >>> result = binary_summary(y, 1 / (1 + np.exp(-2 * log_odds)))  # twice as far from 0
    >>> result.slope.low < 0.5 < result.slope.high
    True
    >>> result.findings
    ('under-predicted', 'too extreme')
    """
    check_level(confidence_level)
    rows = in_memory(y_true, y_proba, sample_weight, classes, pos_label)
    if usual_column(rows.n_classes) is None:
        raise errors.ShapeError(
            f"y_proba has {rows.n_classes} classes, but binary_summary needs two; pass the column "
            "of one class and y_true == that class"
        )
    return summarise_rows(rows, float(confidence_level))


def summarise_rows(rows: Predictions, level: float) -> BinarySummary:
    """Return the summary of predictions for two classes."""
    cells, positive = EventCells.of_rows(rows.events(1)), rows.classes[1:].tolist()[0]
    with threads.few_blas_threads(0):  # whose number would change the last bits
        n_rows = float(cells.weight.sum())
        n_positive = float(cells.hits.sum())
        n_negative = max(n_rows - n_positive, 0.0)
        said, seen = float(cells.weight @ cells.values) / n_rows, n_positive / n_rows
        fewest = min(n_positive, n_negative, *(n_rows * share for share in (said, 1.0 - said)))
        why = _why_missing(cells, n_positive, n_negative, fewest, positive)
        quantile = math.nan if "rows" in why else level
        auc, ratio = _auc(cells, n_positive, n_negative), _ratio(cells, said, seen, n_rows)
        slope, intercept, slope_p_value = fit_recalibration(cells, quantile)
        # Where classes are separated the AUC has no standard error, but the slope tells as much.
        auc_p_value = slope_p_value if slope.value == -math.inf else auc.p_value(0.5)
        tests = auc_p_value, ratio.p_value(1.0), slope_p_value
        is_off = [p < ALPHA / len(tests) and "rows" not in why for p in tests]
        findings = ["reversed"] if is_off[0] and auc.value < 0.5 else []
        if is_off[1]:
            findings.append("over-predicted" if said > seen else "under-predicted")
        if is_off[2] and "reversed" not in findings:
            findings.append("too extreme" if slope.value < 1.0 else "too timid")
    return BinarySummary(
        auc=auc.estimate(quantile),
        predicted_over_observed=ratio.estimate(quantile),
        slope=slope,
        intercept=intercept,
        predicted=said,
        observed=seen,
        n_positive=n_positive,
        n_negative=n_negative,
        findings=tuple(findings),
        missing=tuple(why.values()),
        confidence_level=level,
        positive=positive,
    )


def _why_missing(
    cells: EventCells, n_positive: float, n_negative: float, fewest: float, positive: object
) -> dict[str, str]:
    """Say why numbers or intervals are missing, if any are."""
    name = errors.in_words(positive)
    observed = min(n_positive, n_negative)
    if observed <= 0.0:
        other = "no row" if n_positive <= 0.0 else "every row"
        return {"rows": f"No AUC, slope and intercept: {other} is of class {name}."}
    if len(cells.values) == 1:
        why = {"equal": "No slope and intercept: all predictions are equal."}
    elif find_separation(cells):
        why = {
            "separable": "No intercept, and no interval of the AUC: the predictions separate "
            "the classes."
        }
    else:
        why = {}
    if observed < FEWEST_OF_A_CLASS and fewest < FEWEST_IF_PREDICTED:
        which = f"class {name}" if n_positive <= n_negative else f"classes other than {name}"
        why["rows"] = (
            f"No intervals: {observed:g} rows of {which} are too few; {FEWEST_OF_A_CLASS} are "
            f"needed, or {FEWEST_IF_PREDICTED} both observed and predicted."
        )
    return why


class Transformed(NamedTuple):
    """A number, and the scale on which it has nearly Student's distribution.

    With t its quantile and s the standard error on that scale, the interval of a value v is
    backward(forward(v) -+ t s).
    """

    value: float
    forward: Callable[[float], float]
    backward: Callable[[float], float]
    error: float
    """Standard error on that scale."""
    n_free: float
    """Degrees of freedom."""

    def estimate(self, level: float) -> Estimate:
        """Return the number with its interval; none without a standard error or a level."""
        if not (self.error > 0.0 and math.isfinite(self.error)) or math.isnan(level):
            return Estimate(self.value)
        reach = float(stdtrit(self.n_free, (1.0 + level) / 2.0)) * self.error if level else 0.0
        middle = self.forward(self.value)
        ends = (float(self.backward(middle + side * reach)) for side in (-1, 1))
        return Estimate(self.value, *ends)

    def p_value(self, truth: float) -> float:
        """Return the two-sided p-value of a true value."""
        if not (self.error > 0.0 and math.isfinite(self.error)):
            return math.nan
        gap = abs(self.forward(self.value) - self.forward(truth))
        return float(2.0 * stdtr(self.n_free, -gap / self.error))


def _moments(terms: Floats, weight: Floats, total: float) -> tuple[float, float, float]:
    """Return mean of terms, variance of that mean, and the variance of that variance."""
    mean = float(weight @ terms) / total
    squares = (terms - mean) ** 2
    second, fourth = float(weight @ squares) / total, float(weight @ squares**2) / total
    if second <= 0.0 or total <= 1.0:
        return mean, 0.0, 0.0
    kurtosis = fourth / second**2
    variance = second / (total - 1.0)
    # Var(s^2) = sigma^4 ((kurtosis - 1) / n + 2 / (n (n - 1))): few large terms say little of it.
    return mean, variance, variance**2 * (kurtosis - 1.0 + 2.0 / (total - 1.0)) / total


def _auc(cells: EventCells, n_positive: float, n_negative: float) -> Transformed:
    """AUC by DeLong, on the scale of the log-odds."""
    if min(n_positive, n_negative) <= 0.0:
        return Transformed(math.nan, logit, expit, math.nan, math.nan)
    positive, negative = cells.hits, cells.weight - cells.hits
    below = (np.cumsum(negative) - 0.5 * negative) / n_negative
    above = 1.0 - (np.cumsum(positive) - 0.5 * positive) / n_positive
    value, *of_positive = _moments(below, positive, n_positive)
    _, *of_negative = _moments(above, negative, n_negative)
    value = min(max(value, 0.0), 1.0)
    variance, doubt = (a + b for a, b in zip(of_positive, of_negative, strict=True))
    slope = value * (1.0 - value)
    error = math.sqrt(variance) / slope if slope > 0.0 else math.nan
    return Transformed(value, logit, expit, error, _degrees(variance, doubt))


def _ratio(cells: EventCells, said: float, seen: float, n_rows: float) -> Transformed:
    """Predicted over observed positives, on the scale of the logarithm."""
    value = said / seen if seen > 0.0 else math.inf
    if not 0.0 < value < math.inf:
        return Transformed(value, math.log, math.exp, math.nan, math.nan)
    # The mean of p - ratio * y is zero; its rows of y = 1 come after those of y = 0.
    terms = np.concatenate([cells.values, cells.values - value])
    weight = np.concatenate([cells.weight - cells.hits, cells.hits])
    _, variance, doubt = _moments(terms, weight, n_rows)
    error = math.sqrt(variance) / said
    return Transformed(value, math.log, math.exp, error, _degrees(variance, doubt))


def _degrees(variance: float, doubt: float) -> float:
    """Degrees of freedom by Satterthwaite: those of a variance that is as uncertain."""
    return max(2.0 * variance**2 / doubt, 1.0) if doubt > 0.0 else 1e9
