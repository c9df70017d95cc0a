"""``Comparison``: how every method did, as frozen numbers; methods are judged one by one."""

from __future__ import annotations

import math
from dataclasses import field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from calibrant import _gate as gate
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._extras import needed
from calibrant._html import table
from calibrant._predictions import read_predictions
from calibrant._result import doc, result
from calibrant._text import shorten
from calibrant._trial import UNCALIBRATED
from calibrant.metrics import (
    METRICS,
    LogLoss,
    calibration_segments,
    calibration_test,
    class_shares,
    evaluate,
    headline,
    holm,
    reliability_curve,
    row_sums,
    student,
)
from calibrant.plots import compute_classwise
from calibrant.report._tables import (
    DEFAULT,
    Decisions,
    baseline_of,
    best_texts,
    distinct_rows,
    judge_decisions,
    key_numbers,
)
from calibrant.report._verdict import Verdict, reach_verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._gate import SimplexBatch
    from calibrant._maps.base import Floats
    from calibrant._predictions import Predictions
    from calibrant.metrics import (
        CalibrationTest,
        ClassShares,
        Evaluation,
        GroupTable,
        Metric,
        ReliabilityCurve,
        Seed,
        SegmentTable,
    )
    from calibrant.plots import ClasswiseSummary


@result(eq=False, repr=False)
class MethodResult:
    """Metrics and tests of one method on the test part."""

    method: str = doc("Short name; 'uncalibrated' for the predictions before calibration.")
    title: str = doc("Name of its class.")
    evaluation: Evaluation = doc("Every metric, with intervals.")
    difference: Difference | None = doc("NLL of the method minus that of the baseline.")
    curve: ReliabilityCurve = doc("Reliability curve of the headline error, with its p-value.")
    test: CalibrationTest | None = doc("Test of the positive class of two; else None.")
    shares: ClassShares = doc("Predicted and observed share of every class.")
    classwise_test: CalibrationTest | None = doc(
        "None without resamples, of two classes, and of very many rows of many classes."
    )
    mean_confidence: float = doc("Above the accuracy if the predictions are over-confident.")
    classwise: ClasswiseSummary = doc("Errors of all classes; diagrams of some, where in view.")
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
    def headline(self) -> Metric:
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
        tested = self.curve if self.test is None else self.test
        result = {self.headline.id: tested.p_value}
        if self.classwise_test is not None:
            result["classwise_ece"] = self.classwise_test.p_value
        return result


@result()
class Failure:
    """A method that could not be fitted or judged."""

    method: str = doc("As in :class:`MethodResult`.")
    title: str = doc("As in :class:`MethodResult`.")
    error: str = doc("Class name of the exception.")
    message: str = doc("Message of the exception.")


@result(eq=False, repr=False)
class Comparison:
    """Result of :func:`compare`; ``print`` shows it as a table."""

    results: tuple[MethodResult, ...] = doc("The uncalibrated predictions, then all methods.")
    failures: tuple[Failure, ...] = doc("Methods that could not be judged.")
    classes: NDArray[Any] = doc("Label of each column.")
    val_counts: NDArray[np.int64] = doc("Number of rows of each class in the calibration part.")
    test_counts: NDArray[np.int64] = doc("Number of rows of each class in the test part.")
    shown: tuple[int, ...] = doc("Columns of the classes that have diagrams.")
    settings: dict[str, Any] = doc("Options of the comparison: bins, resamples, seed and so on.")
    sources: dict[str, str] = doc("Names of the sources of the data, such as files.")
    versions: dict[str, str] = doc("Versions of the libraries.")
    warnings: tuple[str, ...] = doc("Warnings about the data.")
    created: str = doc("Date and time of the comparison, UTC.")
    seconds: float = doc("Duration of the comparison.")
    by_group: dict[str, GroupTable] | None = doc(
        "Metrics by group of some methods, if groups were given.", default=None
    )
    segments: dict[str, SegmentTable] | None = doc(
        "Segments whose predictions are wrong, by method, if features were given.", default=None
    )
    decisions: Decisions | None = doc("What decisions cost, if costs were given.", default=None)
    verdict: Verdict = field(init=False, metadata={"doc": "Method to use, and why."})

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", reach_verdict(self))

    def __repr__(self) -> str:
        columns = self._columns()
        columns[1:-1] = (
            [cell if cell[-1] == "*" else f"{cell} " for cell in column] for column in columns[1:-1]
        )
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
            for first, *others in zip(*columns, strict=True)
        ]
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        head, *rows = zip(*self._columns(), strict=True)
        return table(head, rows, self._notes())

    def _columns(self) -> list[list[str]]:
        """Return the texts of each column, its head first; the best ends in a star."""
        rows = self.distinct_rows()
        columns = [["method", *(shorten(label) for label in rows)]]
        for name, best in self.best_texts().items():
            texts = [METRICS[name].text(getattr(r.evaluation, name).value) for r in rows.values()]
            stars = (f"{text}*" if text == best else text for text in texts)
            columns.append([METRICS[name].heading, *stars])
        columns += [
            [title, *(result.binary_texts[title][0] for result in rows.values())]
            for title in self.results[0].binary_texts
        ]
        return [*columns, ["fit, s", *(f"{result.fit_seconds:.2f}" for result in rows.values())]]

    def _notes(self) -> list[str]:
        failed = [f"{f.method} failed: {f.error}: {f.message}" for f in self.failures]
        n_val, n_test = self.settings["n_val"], self.settings["n_test"]
        sizes = f"{n_val:,} rows to fit, {n_test:,} to judge, {self.n_classes:,} classes"
        return [*failed, f"{sizes}; * the best"]

    def to_frame(self) -> pd.DataFrame:
        """Return all numbers of every method, a row each, as a data frame; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise needed(error, "to_frame", "cli") from error
        return pd.DataFrame([_record(result) for result in self.results]).set_index("method")

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

    def distinct_rows(self) -> dict[str, MethodResult]:
        """Return rows of a table by label: methods that are one fit here share a row."""
        return distinct_rows(self.results)

    def best_texts(self) -> dict[str, str]:
        """Return the best value of each metric that tables of methods have, as it is printed."""
        return best_texts(self)

    def key_numbers(self) -> list[dict[str, str]]:
        """Return the numbers of the verdict as texts, before and after, with the interval after."""
        return key_numbers(self)

    def result(self, method: str) -> MethodResult:
        """Return the result of a method by its short name."""
        gate.check_option("method", method, self.methods)
        return self.results[self.methods.index(method)]


def _record(result: MethodResult) -> dict[str, Any]:
    """Numbers of a method by name, in units of one."""
    record: dict[str, Any] = {"method": result.method, "class": result.title}
    binary = result.evaluation.binary
    estimates = result.evaluation.estimates() | ({} if binary is None else binary.estimates())
    for name, estimate in estimates.items():
        record |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    record |= {f"{name}_p_value": p for name, p in result.p_values.items()}
    gap = result.difference
    record["nll_difference"] = 0.0 if gap is None else gap.value
    record["nll_difference_p_value"] = math.nan if gap is None else gap.p_value
    return record | {"fit_seconds": result.fit_seconds, "predict_seconds": result.predict_seconds}


KEPT_BYTES = 1 << 28
"""Predictions of methods that are kept for the diagrams of classes; more are made once more."""


class Judge:
    """The test part, and how methods are judged on it; options as in :func:`compare`."""

    def __init__(
        self,
        test: SimplexBatch,
        *,
        n_bins: int,
        n_resamples: int,
        confidence_level: float,
        random_state: Seed,
        groups: NDArray[Any] | None = None,
        features: dict[str, NDArray[Any]] | None = None,
    ) -> None:
        self._test, self._groups, self._features = test, groups, features
        self._n_bins, self._n_resamples = n_bins, int(n_resamples)
        self._level, self._seed = confidence_level, random_state
        self._losses: dict[str, Floats] = {}
        self._kept: dict[str, Predictions] = {UNCALIBRATED: self._read(test.probabilities())}

    def judge(self, calibrator: Calibrator | None, method: str) -> MethodResult:
        """Judge a fitted calibrator, or the predictions as they came; diagrams come later."""
        started = perf_counter()
        after = self._predict(method, calibrator)
        seconds = perf_counter() - started
        is_binary = after.n_classes == 2
        result = MethodResult(
            method=method,
            title="as they came" if calibrator is None else type(calibrator).__name__,
            evaluation=self._evaluate(after),
            difference=None,
            curve=reliability_curve(
                after,
                n_bins=self._n_bins,
                strategy="quantile" if is_binary else "uniform",  # those of the verdict's error
                n_resamples=5 * self._n_resamples,
                random_state=self._seed,
            ),
            test=self._test_predictions(after, "positive") if is_binary else None,
            shares=class_shares(after),
            classwise_test=None if is_binary else self._test_predictions(after, "classwise"),
            mean_confidence=float(np.average(after.rows.max(axis=1), weights=after.weight)),
            classwise=compute_classwise(after, n_worst=0, n_bins=self._n_bins),
            calibrator=calibrator,
            fit_seconds=0.0,
            predict_seconds=0.0 if calibrator is None else seconds,
            warnings=(),
        )
        self._losses[method] = LogLoss().terms(after)
        return result

    def with_differences(self, results: list[MethodResult]) -> tuple[MethodResult, ...]:
        """Add comparisons with the baseline and with auto."""
        baseline = baseline_of(self._test.n_classes)
        differences = self._differences(baseline if baseline in self._losses else UNCALIBRATED)
        beside_auto = self._differences(DEFAULT) if DEFAULT in self._losses else {}
        return tuple(
            replace(
                result,
                difference=differences.get(result.method),
                beside_auto=beside_auto.get(result.method),
            )
            for result in results
        )

    def with_diagrams(self, comparison: Comparison) -> Comparison:
        """Add diagrams of some classes to the methods in view."""
        if not comparison.shown:
            return comparison
        results = tuple(
            replace(result, classwise=self._draw_classes(result, comparison.shown))
            if result.method in comparison.verdict.in_view
            else result
            for result in comparison.results
        )
        return replace(comparison, results=results)

    def by_group(self, judged: list[MethodResult]) -> dict[str, GroupTable] | None:
        """Judge each group of the test part by itself, by some methods; None without groups."""
        if self._groups is None:
            return None
        tables: dict[str, GroupTable] = {}
        for method in judged:
            after = self._predict(method.method, method.calibrator)
            groups = self._evaluate(after, self._groups).by_group
            tables |= {} if groups is None else {method.method: groups}
        return tables

    def by_segment(self, judged: list[MethodResult]) -> dict[str, SegmentTable] | None:
        """Find segments of the test part that some methods predict wrongly, if it has features."""
        if self._features is None:
            return None
        rows = {one.method: self._predict(one.method, one.calibrator) for one in judged}
        return {
            method: calibration_segments(after, features=self._features, random_state=self._seed)
            for method, after in rows.items()
        }

    def decisions(self, judged: list[MethodResult], costs: ArrayLike | None) -> Decisions | None:
        """Measure what decisions cost, before and after, if costs were given."""
        if costs is None:
            return None
        rows = {result.method: self._predict(result.method, result.calibrator) for result in judged}
        return judge_decisions(rows, costs, self._level)

    def _evaluate(self, after: Predictions, groups: NDArray[Any] | None = None) -> Evaluation:
        return evaluate(
            after,
            n_bins=self._n_bins,
            groups=groups,
            n_resamples=self._n_resamples,
            confidence_level=self._level,
            random_state=self._seed,
        )

    def _test_predictions(
        self, after: Predictions, metric: Literal["positive", "classwise"]
    ) -> CalibrationTest | None:
        """Test the positive class, or all of them; None without resamples."""
        n_draws = self._n_resamples
        if n_draws == 0:
            return None
        return calibration_test(
            after,
            metric=metric,
            n_bins=self._n_bins,
            n_resamples=n_draws if metric == "classwise" else 5 * n_draws,
            random_state=self._seed,
        )

    def _differences(self, reference: str) -> dict[str, Difference]:
        """Compare all methods with one of them on the same rows."""
        others = [name for name in self._losses if name != reference]
        gaps = [self._losses[name] - self._losses[reference] for name in others]
        level = self._level if self._n_resamples else None
        return dict(zip(others, paired_differences(gaps, self._test.weight, level), strict=True))

    def _read(self, rows: Floats) -> Predictions:
        """Check predictions for the test part, once for everything that is made of them."""
        test = self._test
        # Labels were checked before: here they are columns, which get their names back.
        result = read_predictions(test.class_index, rows, test.weight, np.arange(test.n_classes))
        return replace(result, classes=test.classes)

    def _predict(self, method: str, calibrator: Calibrator | None) -> Predictions:
        if method in self._kept or calibrator is None:
            return self._kept[method]
        if isinstance(calibrator, GroupedCalibrator):
            rows = calibrator.predict_proba(self._test, groups=self._groups)
        elif isinstance(calibrator, FeatureCalibrator):
            rows = calibrator.predict_proba(self._test, features=self._features)
        else:
            rows = calibrator.predict_proba(self._test)
        after = self._read(rows)
        if after.rows.nbytes * (1 + len(self._kept)) <= KEPT_BYTES:
            self._kept[method] = after
        return after

    def shown_classes(self, results: Sequence[MethodResult], n_diagrams: int) -> tuple[int, ...]:
        """Columns of the worst classes before and after, and the most frequent; none of two."""
        if self._test.n_classes == 2:
            return ()
        best = min(results, key=lambda result: result.evaluation.negative_log_likelihood.value)
        counts = np.bincount(self._test.class_index, minlength=self._test.n_classes)
        lists = (
            results[0].classwise.order,
            best.classwise.order,
            np.argsort(-counts, kind="stable"),
        )
        mixed = np.array(lists).T[:n_diagrams].ravel()
        return tuple(dict.fromkeys(mixed.tolist()))[:n_diagrams]

    def _draw_classes(self, result: MethodResult, shown: tuple[int, ...]) -> ClasswiseSummary:
        return compute_classwise(
            self._predict(result.method, result.calibrator),
            columns=shown,
            n_bins=self._n_bins,
            n_resamples=self._n_resamples,
            random_state=self._seed,
        )


@result()
class Difference:
    """NLL of a method minus that of the baseline, on the same rows."""

    value: float = doc("Difference; below zero if the method is better.")
    low: float = doc("Lower end of Student's interval; NaN without resamples, and of one row.")
    high: float = doc("Upper end of this interval.")
    p_value: float = doc("Two-sided p-value of the paired t test.")
    p_holm: float = doc("P-value after Holm's correction for the number of methods.")


def paired_differences(
    gaps: Sequence[Floats], weight: Floats, level: float | None
) -> list[Difference]:
    """Test mean differences of losses, with Holm's correction; a level of None is no test."""
    result = [paired_difference(gap, weight, level) for gap in gaps]
    corrected = holm(np.array([difference.p_value for difference in result])).tolist()
    return [replace(difference, p_holm=p) for difference, p in zip(result, corrected, strict=True)]


def paired_difference(gap: Floats, weight: Floats, level: float | None) -> Difference:
    """Test a mean difference of losses, row by row, by Student's t."""
    value = float(weight @ gap / weight.sum())
    if level is None or len(gap) < 2:
        p_value = math.nan if level is None else 1.0  # one row tells nothing
        return Difference(value, math.nan, math.nan, p_value, p_value)
    _, error, n_free = student(row_sums(gap - value, weight))
    if error == 0.0:
        p_value = 1.0 if value == 0.0 else 0.0
        return Difference(value, value, value, p_value, p_value)
    reach = float(stdtrit(n_free, 0.5 + 0.5 * level)) * error
    p_value = float(2.0 * stdtr(n_free, -abs(value) / error))
    return Difference(value, value - reach, value + reach, p_value, p_value)
