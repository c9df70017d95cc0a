"""``binary_summary``: AUC, predicted over observed positives, calibration slope and intercept.

Each is a function of the distinct predictions of the positive class, with their weights and labels:
so a weight is a repetition, and the order of rows changes nothing.

Slope and intercept of logit(q) = a + b x are those of Cox's recalibration of log-odds x. With l the
log-likelihood of the labels, the deviance of a slope b is that of the best intercept,

    D(b) = 2 (max_{a, b'} l(a + b' x) - max_a l(a + b x)),

and likewise for an intercept. The interval of a slope holds those with D(b) <= t^2, where t is
Student's quantile.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, stdtr, stdtrit

from calibrant import _threads as threads
from calibrant import errors
from calibrant._predictions import EventCells, log_odds, source_of, usual_column
from calibrant._result import Estimate, Result, doc, result
from calibrant._solvers.one_vs_rest import FREE, minimise_logistic
from calibrant._text import percents
from calibrant.metrics._intervals import check_level

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

MOST_CELLS_PROFILED = 1 << 12
"""Number of distinct predictions above which neighbours are merged for the deviances."""

WIDTH = 0.01  # distance of log-odds within which predictions are merged then
FEWEST_DEGREES = 4.0  # least degrees of freedom of Student's quantile
FARTHEST = 1e4  # slope or intercept beyond which the end of an interval is infinite
LONGEST_STEP = 10.0  # longest step of Newton's method for the best intercept or slope
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
    positive: Label = doc("Label of the positive class.")

    def estimates(self) -> dict[str, Estimate]:
        """Return the four numbers by name, in the order of tables."""
        return {name: getattr(self, name) for name in SHOWN}

    def texts(self) -> dict[str, tuple[str, str]]:
        """Return each number and its interval as they are printed, by title; "" is for none."""
        result = {}
        for name, estimate in self.estimates().items():
            title, spec = SHOWN[name]
            value, low, high = ("-" if math.isnan(v) else format(v, spec) for v in estimate)
            result[title] = value, "" if math.isnan(estimate.low) else f"{low} to {high}"
        return result

    def describe(self) -> list[str]:
        """Describe the findings, a sentence each."""
        name = errors.in_words(self.positive)
        said, seen = percents(self.predicted, self.observed)
        auc, ratio, slope, _ = (value for value, _ in self.texts().values())
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
    rows = source_of(y_true, y_proba, sample_weight, classes, pos_label).in_memory()
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


def fit_recalibration(cells: EventCells, level: float) -> tuple[Estimate, Estimate, float]:
    """Fit slope and intercept, and test a slope of 1; a level of NaN is for no intervals."""
    nothing = Estimate(math.nan)
    x = log_odds(cells.values)
    if x[0] == x[-1] or not 0.0 < cells.hits.sum() < cells.weight.sum():
        return nothing, nothing, math.nan
    model = RecalibrationLikelihood(x, cells.weight, cells.hits)
    side = find_separation(cells)
    if side:
        slope, best = Estimate(side * math.inf), model.supremum()
        reach = float(stdtrit(FEWEST_DEGREES, (1.0 + level) / 2.0))
        if math.isfinite(reach):
            end = _find_end(model.slope_deviance(best), 0.0, -side, 1.0, reach)
            slope = Estimate(slope.value, *sorted((end, slope.value)))
        return slope, nothing, model.p_value(best, FEWEST_DEGREES)
    negative = np.maximum(cells.weight - cells.hits, 0.0)
    theta, _ = minimise_logistic(x[None], cells.hits, negative, FREE)
    b, a = map(float, theta)
    slope, intercept = Estimate(b), Estimate(a)
    best, q = model.log_likelihood(a + b * model.x), expit(a + b * model.x)
    curvature = model.weight * q * (1.0 - q)
    total = float(curvature.sum())
    # Rows whose label is nearly certain say little of a slope: they count as fewer rows.
    n_free = max(4.0 * float(model.weight @ (q * (1.0 - q))), FEWEST_DEGREES)
    reach = float(stdtrit(n_free, (1.0 + level) / 2.0))
    if math.isfinite(reach):  # not NaN for no level, nor infinite for a level of 1
        middle = float(curvature @ model.x) / total
        variance = 1.0 / float(curvature @ (model.x - middle) ** 2)
        steps = math.sqrt(variance), math.sqrt(1.0 / total + middle**2 * variance)
        of_slope = model.slope_deviance(best)
        of_intercept = model.profile(best, lambda a: np.full_like(model.x, a), model.x, b)
        slope = Estimate(b, *(_find_end(of_slope, b, s, steps[0], reach) for s in (-1, 1)))
        ends = (_find_end(of_intercept, a, s, steps[1], reach) for s in (-1, 1))
        intercept = Estimate(a, *ends)
    return slope, intercept, model.p_value(best, n_free)


def find_separation(cells: EventCells) -> int:
    """Return 1 if no negative row is above a positive one, -1 if none is below, else 0."""
    x = log_odds(cells.values)
    positive, negative = x[cells.hits > 0.0], x[cells.hits < cells.weight]
    if negative[-1] <= positive[0]:
        return 1
    return -1 if positive[-1] <= negative[0] else 0


def _find_end(
    deviance: Callable[[float], float], start: float, side: int, step: float, reach: float
) -> float:
    """Return where a convex deviance reaches ``reach`` squared, from ``start`` on one side."""
    if reach == 0.0:
        return start

    def excess(value: float) -> float:
        return deviance(value) - reach**2

    inner, outer = start, start + side * reach * step
    if excess(start) > 0.0:  # the optimum is at infinity on the other side
        side, inner, outer = -side, start, start - side * reach * step
    is_inside = excess(start) <= 0.0
    while (excess(outer) <= 0.0) == is_inside:
        inner, outer = outer, start + 2.0 * (outer - start)
        if abs(outer) > FARTHEST:
            return side * math.inf
    # Weights over many orders leave so few digits of a deviance that its sign may change.
    if (excess(inner) > 0.0) == (excess(outer) > 0.0):
        return inner
    return float(brentq(excess, inner, outer, xtol=1e-10, rtol=1e-10))


class RecalibrationLikelihood:
    """The log-likelihood of labels in the model, and the deviances of its parameters."""

    def __init__(self, x: Floats, weight: Floats, hits: Floats) -> None:
        if len(x) > MOST_CELLS_PROFILED:
            # So close, the likelihood only differs in the last digits.
            key = np.floor(x / WIDTH)
            first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
            weight, mass, hits = (np.add.reduceat(v, first) for v in (weight, weight * x, hits))
            x = mass / weight
        self.x, self.weight, self.hits = x, weight, hits
        self._middle = float(weight @ x) / float(weight.sum())

    def log_likelihood(self, log_odds: Floats) -> float:
        """Return the log-likelihood of some log-odds q."""
        return float(self.hits @ log_odds - self.weight @ np.logaddexp(0.0, log_odds))

    def supremum(self) -> float:
        """Return the least upper bound of the likelihood where the classes are separated.

        Only predictions that have both labels cost anything, and they are all equal.
        """
        both = (self.hits > 0.0) & (self.hits < self.weight)
        parts = [float(self.hits[both].sum()), float((self.weight - self.hits)[both].sum())]
        return sum(part * math.log(part / sum(parts)) for part in parts if part > 0.0)

    def slope_deviance(self, best: float) -> Callable[[float], float]:
        """Return the deviance as a function of the slope, minimised over the intercept."""
        x, one = self.x - self._middle, np.ones_like(self.x)
        odds = logit(float(self.hits.sum()) / float(self.weight.sum()))
        return self.profile(best, lambda b: b * x, one, float(odds))

    def p_value(self, best: float, n_free: float) -> float:
        """Return the p-value of a slope of 1, by the likelihood ratio."""
        root = math.sqrt(max(self.slope_deviance(best)(1.0), 0.0))
        return float(2.0 * stdtr(n_free, -root))

    def profile(
        self, best: float, offset: Callable[[float], Floats], feature: Floats, start: float
    ) -> Callable[[float], float]:
        """Return the deviance of an offset, minimised over the factor of a feature."""
        last = start

        def deviance(value: float) -> float:
            nonlocal last  # the optimum moves little from one value to the next
            base = offset(value)
            last = self._maximise(base, feature, last)
            return 2.0 * (best - self.log_likelihood(base + last * feature))

        return deviance

    def _maximise(self, offset: Floats, feature: Floats, start: float) -> float:
        """Return the factor of a feature with the highest likelihood: Newton within a bracket."""
        low, high, t = -math.inf, math.inf, start
        for _ in range(100):
            q = expit(offset + t * feature)
            gradient = float((self.hits - self.weight * q) @ feature)
            curvature = float((self.weight * q * (1.0 - q)) @ feature**2)
            low, high = (t, high) if gradient > 0.0 else (low, t)
            # Where probabilities are all near 0 or 1 there is no curvature: then a unit at a time.
            step = gradient / curvature if curvature > 0.0 else math.copysign(1.0, gradient)
            new = t + min(max(step, -LONGEST_STEP), LONGEST_STEP)
            if not low < new < high:
                new = 0.5 * (low + high) if math.isfinite(low + high) else new
            if abs(new - t) <= 1e-9 * (1.0 + abs(t)) or abs(new) > FARTHEST:
                return new
            t = new
        return t
