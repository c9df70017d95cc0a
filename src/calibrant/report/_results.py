"""``Comparison``: how every method did, as frozen numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calibrant import _gate as gate
from calibrant import metrics
from calibrant._result import Estimate, Result, data_frame, doc, result, with_ends
from calibrant._text import align_columns, escape, money, percent, shorten
from calibrant._trial import UNCALIBRATED
from calibrant.metrics import LARGEST_SHARE, METRICS, headline
from calibrant.report._verdict import Verdict, baseline_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Labels, Wholes
    from calibrant.decisions import CalibrationValue, ExpectedCost
    from calibrant.plots import ClasswiseSummary

BROKEN = {"predicted/observed": ("predicted", "/observed"), "intercept": ("inter-", "cept")}
"""Headings of columns on two lines."""


@result(eq=False, repr=False)
class MethodResult:
    """Metrics and tests of one method on the test part."""

    method: str = doc("Short name; 'uncalibrated' for the predictions before calibration.")
    title: str = doc("Name of its class.")
    evaluation: metrics.Evaluation = doc("Every metric, with intervals.")
    difference: Difference | None = doc("NLL of the method minus that of the baseline.")
    curve: metrics.ReliabilityCurve = doc("Curve of the headline error, with its p-value.")
    test: metrics.CalibrationTest | None = doc(
        "Test of the positive class of two, or of every class of more; None without resamples."
    )
    shares: metrics.ClassShares = doc("Predicted and observed share of every class.")
    mean_confidence: float = doc("Above the accuracy if the predictions are over-confident.")
    classwise: ClasswiseSummary = doc("Errors and shares of all classes.")
    calibrator: Calibrator | None = doc("Fitted calibrator; None before calibration.")
    fit_seconds: float
    predict_seconds: float
    warnings: tuple[str, ...] = doc("Warnings of the fit and of the metrics.")
    beside_auto: Difference | None = doc(
        "NLL of the method minus that of AutoCalibrator, if that was compared.", default=None
    )

    def __repr__(self) -> str:
        nll = self.evaluation.negative_log_likelihood.value
        name = self.headline.title
        return f"<MethodResult of {self.method}: NLL {nll:.4f}, {name} {100 * self.error:.2f} %>"

    @property
    def headline(self) -> metrics.Metric:
        """The calibration error that the verdict goes by."""
        return headline(self.evaluation.n_classes)

    @property
    def error(self) -> float:
        """Value of the headline error."""
        return float(self.evaluation.estimates()[self.headline.id].value)

    @property
    def binary_texts(self) -> dict[str, tuple[str, str]]:
        """Number and interval by title of what only two classes have."""
        binary = self.evaluation.binary
        return {} if binary is None else binary.texts()

    @property
    def accuracy(self) -> float:
        """Share of the rows whose most probable class is right."""
        return self.evaluation.accuracy.value

    @property
    def p_values(self) -> dict[str, float]:
        """Chance of errors as large if the predictions were calibrated; NaN if not tested."""
        result = {self.headline.id: self.curve.p_value}
        if self.test is not None:
            result[f"{self.test.metric}_ece"] = self.test.p_value
        return result


@result()
class Failure:
    """A method that could not be fitted or judged."""

    method: str = doc("As in :class:`MethodResult`.")
    title: str = doc("As in :class:`MethodResult`.")
    error: str = doc("Class name of the exception.")
    message: str = doc("Message of the exception.")


@result()
class Difference:
    """NLL of a method minus that of the baseline, on the same rows."""

    value: float = doc("Difference; below zero if the method is better.")
    low: float = doc("Lower end of Student's interval; NaN without resamples, and of one row.")
    high: float = doc("Upper end of this interval.")
    p_value: float = doc("Two-sided p-value of the paired t test.")
    p_holm: float = doc("P-value after Holm's correction for the number of methods.")


@result()
class Decisions(Result):
    """What decisions cost, before calibration and after."""

    method: str = doc("Method after calibration, that of the verdict.")
    value: CalibrationValue = doc("Cost that calibration saves.")
    costs: dict[str, ExpectedCost] = doc("Expected cost by method.")

    def describe(self) -> list[str]:
        """Describe the saving and the costs, a sentence each."""
        saved = self.value.total
        chance = ", which may be chance" if saved.low <= 0.0 <= saved.high else ""
        words = f"saves {money(saved)}"
        if saved.value < 0.0:
            words = f"loses {money(Estimate(-saved.value, -saved.high, -saved.low))}"
        first, *_, last = [money(each.realised) for each in self.costs.values()] * 2
        saving = (
            f"{self.method} {words} in {self.value.n_decisions:,.0f} decisions{chance}; it "
            f"decides otherwise for {percent(self.value.changed)} of the rows."
        )
        return [saving, f"A decision costs {first} before calibration and {last} after."]


@result(eq=False, repr=False)
class Comparison:
    """Result of :func:`compare`; ``print`` shows it as a table.

    Parameters
    ----------
    results, verdict, failures, classes, test_counts, settings, sources, versions, warnings
    created, seconds, by_group, segments, decisions
        The attributes of these names.

    Examples
    --------
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.report import compare
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> comparison = compare(y, scores, new_y, new_scores, "ts", n_resamples=20)
    >>> comparison.verdict.chosen, comparison.result("ts").fit_seconds < 60
    ('ts', True)
    """

    results: tuple[MethodResult, ...] = doc("The uncalibrated predictions, then all methods.")
    verdict: Verdict = doc("Method to use, and why.")
    failures: tuple[Failure, ...] = doc("Methods that could not be judged.")
    classes: Labels = doc("Label of each column.")
    test_counts: Wholes = doc("Number of rows of each class in the test part.")
    settings: dict[str, Any] = doc("Options of the comparison: bins, resamples, seed and so on.")
    sources: dict[str, str] = doc("Names of the sources of the data, such as files.")
    versions: dict[str, str] = doc("Versions of the libraries.")
    warnings: tuple[str, ...] = doc("Warnings about the data.")
    created: str = doc("Date and time of the comparison, UTC.")
    seconds: float = doc("Duration of the comparison.")
    by_group: dict[str, metrics.GroupTable] | None = doc(
        "Metrics by group of some methods, if groups were given.", default=None
    )
    segments: dict[str, metrics.SegmentTable] | None = doc(
        "Segments whose predictions are wrong, by method, if features were given.", default=None
    )
    decisions: Decisions | None = doc("What decisions cost, if costs were given.", default=None)

    def __repr__(self) -> str:
        best = self.best_texts()
        if self.n_classes == 2:
            best.pop("accuracy", None)  # AUC has its place
        # Units stand under the names: so the table fits into 80 columns.
        columns = [["method", "", *(shorten(method) for method in self.methods)]]
        for name, best_text in best.items():
            texts = [METRICS[name].text(getattr(r.evaluation, name).value) for r in self.results]
            stars = (f"{text}*" if text == best_text else f"{text} " for text in texts)
            title, _, unit = METRICS[name].heading.partition(", ")
            columns.append([title, f"{unit} ", *stars])
        for title in self.results[0].binary_texts:
            heads = BROKEN.get(title, (title, ""))
            columns.append([*heads, *(result.binary_texts[title][0] for result in self.results)])
        columns.append(["fit", "s", *(f"{result.fit_seconds:.2f}" for result in self.results)])
        failed = [f"{f.method} failed: {f.error}: {f.message}" for f in self.failures]
        n_val, n_test = self.settings["n_val"], self.settings["n_test"]
        sizes = f"{n_val:,} rows to fit, {n_test:,} to judge, {self.n_classes:,} classes"
        return "\n".join(
            [*align_columns(zip(*columns, strict=True)), *failed, f"{sizes}; * the best"]
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"

    def to_dict(self) -> dict[str, object]:
        """Return the verdict and all numbers of every method, plain, as the command prints them."""
        methods = [
            {"method": r.method, "fit_seconds": r.fit_seconds, **r.evaluation.to_dict()}
            for r in self.results
        ]
        numbers: dict[str, object] = {
            "chosen": self.verdict.chosen,
            "verdict": self.verdict.headline,
            "methods": methods,
            "failures": [{"method": f.method, "message": f.message} for f in self.failures],
        }
        if self.right_answers is not None:
            numbers["right_answers"] = self.right_answers
            for own in methods:
                del own["accuracy"]
        if self.by_group is not None:
            numbers["by_group"] = {name: own.to_dict() for name, own in self.by_group.items()}
        if self.decisions is not None:
            numbers["decisions"] = self.decisions.to_dict()
        return numbers

    def to_frame(self) -> pd.DataFrame:
        """Return all numbers of every method, a row each, as a data frame; needs pandas."""
        return data_frame(map(_record, self.results)).set_index("method")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def methods(self) -> tuple[str, ...]:
        """Short names of the methods that were judged."""
        return tuple(result.method for result in self.results)

    @property
    def baseline(self) -> str:
        """Method that others are compared with: TS, or Platt scaling of two classes."""
        baseline = baseline_of(self.n_classes)
        return baseline if baseline in self.methods else UNCALIBRATED

    @property
    def is_stated(self) -> bool:
        """Whether the predictions are confidences that a model stated of its answers."""
        return bool(self.settings.get("stated_confidences", False))

    @property
    def right_answers(self) -> float | None:
        """Share of right answers, if the predictions are confidences that a model stated."""
        binary = self.results[0].evaluation.binary
        return binary.observed if self.is_stated and binary is not None else None

    @property
    def accuracy_is_headline(self) -> bool:
        """Whether accuracy tells more than the share of the most frequent class."""
        is_lopsided = self.results[0].evaluation.largest_share > LARGEST_SHARE
        return not is_lopsided and not self.is_stated

    def best_texts(self) -> dict[str, str]:
        """Return the best value of each metric that tables of methods have, as it is printed.

        Accuracy is last where to predict one class is as accurate, and says nothing of
        confidences that were stated, which are no predictions of a class.
        """
        table = "two classes" if self.n_classes == 2 else "more classes"
        names = [name for name, metric in METRICS.items() if table in metric.tables]
        if not self.accuracy_is_headline:
            names.append(names.pop(names.index("accuracy")))
        result = {}
        for name in names:
            if name != "accuracy" or not self.is_stated:
                values = (getattr(r.evaluation, name).value for r in self.results)
                result[name] = METRICS[name].text(METRICS[name].best(values))
        return result

    def key_numbers(self) -> list[dict[str, str]]:
        """Return the numbers of the verdict as texts, before and after, with the interval after."""
        before, after = self.results[0], self.result(self.verdict.applied)
        error, nll = before.headline, METRICS["negative_log_likelihood"]
        titles = {error: f"calibration error ({error.title})", nll: "log loss (NLL)"}
        titles |= {METRICS["accuracy"]: "accuracy"} if self.accuracy_is_headline else {}
        rows = []
        for metric, words in titles.items():
            first, last = (getattr(result.evaluation, metric.id) for result in (before, after))
            unit = "" if metric.factor == 1.0 else " %"
            text, interval = with_interval(last, metric.text)
            interval += unit if interval else ""
            rows.append((words, metric.text(first.value) + unit, text + unit, interval))
        for title, (text, interval) in after.binary_texts.items():
            rows.append((title, before.binary_texts[title][0], text, interval))
        names = ("words", "before", "after", "interval")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def result(self, method: str) -> MethodResult:
        """Return the result of a method by its short name."""
        gate.check_option("method", method, self.methods)
        return self.results[self.methods.index(method)]


def with_interval(estimate: Estimate, write: Callable[[float], str]) -> tuple[str, str]:
    """Return a number and its interval as they are printed; "" is for none."""
    value, low, high = map(write, estimate)
    return value, "" if math.isnan(estimate.low) else f"{low} to {high}"


def _record(result: MethodResult) -> dict[str, object]:
    """Numbers of a method by name, in units of one."""
    record: dict[str, object] = {"method": result.method, "class": result.title}
    binary = result.evaluation.binary
    estimates = result.evaluation.estimates() | ({} if binary is None else binary.estimates())
    record |= with_ends(estimates)
    record |= {f"{name}_p_value": p for name, p in result.p_values.items()}
    gap = result.difference
    record["nll_difference"] = 0.0 if gap is None else gap.value
    record["nll_difference_p_value"] = math.nan if gap is None else gap.p_value
    return record | {"fit_seconds": result.fit_seconds, "predict_seconds": result.predict_seconds}
