"""``Comparison``: how every method did, as frozen numbers; methods are judged one by one."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr

from calibrant import _simplex as simplex
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._extras import needed
from calibrant._html import table
from calibrant._trial import UNCALIBRATED
from calibrant.metrics import calibration_test, class_shares, evaluate, reliability_curve
from calibrant.metrics._cumulative import holm
from calibrant.metrics._measures import usual_column
from calibrant.metrics._predictions import name_of, read_predictions
from calibrant.metrics._resampling import drawn_means
from calibrant.metrics._result import doc, result
from calibrant.metrics._table import METRICS, headline
from calibrant.plots._classwise import class_curves, compute_classwise
from calibrant.plots._confidence import compute_confidence_histogram, compute_effect, compute_top_r
from calibrant.plots._maps import compute_map
from calibrant.plots._style import shorten
from calibrant.report._decisions import Decisions, judge_decisions
from calibrant.report._tables import BASELINE, best_texts, distinct_rows

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._simplex import SimplexBatch
    from calibrant.metrics._cumulative import ClassShares
    from calibrant.metrics._groups import GroupTable
    from calibrant.metrics._predictions import Predictions
    from calibrant.metrics._reliability import ReliabilityCurve
    from calibrant.metrics._significance import CalibrationTest
    from calibrant.metrics._table import Evaluation, Metric
    from calibrant.plots._classwise import ClasswiseSummary
    from calibrant.plots._confidence import ConfidenceHistogram, Effect, TopRCurve
    from calibrant.plots._maps import MapPicture


@result(eq=False, repr=False)
class MethodResult:
    """How one method did on the test part."""

    method: str = doc("Its short name; 'uncalibrated' for the predictions as they came.")
    title: str = doc("Name of its class.")
    evaluation: Evaluation = doc("Every metric, with intervals.")
    difference: Difference | None = doc("Its NLL minus that of temperature scaling.")
    curve: ReliabilityCurve = doc("Of what the verdict goes by, with the p-value of its error.")
    shares: ClassShares = doc("How often every class was predicted and came.")
    classwise_test: CalibrationTest | None = doc("None without resamples, and of two classes.")
    confidence: ConfidenceHistogram = doc("With the accuracy and the mean confidence.")
    classwise: ClasswiseSummary = doc("Errors of all classes, and diagrams of some.")
    top_r: TopRCurve | None = doc("None of two classes.")
    effect: Effect | None = doc("What became of the confidences.")
    map: MapPicture | None = doc("The fitted map, where it can be drawn.")
    calibrator: Calibrator | None = doc("Fitted.")
    fit_seconds: float
    predict_seconds: float
    warnings: tuple[str, ...] = doc("What was warned of while it was fitted and judged.")

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
        """Its value."""
        return float(self.evaluation.estimates()[self.headline.id].value)

    @property
    def p_values(self) -> dict[str, float]:
        """Chance of errors as large if the predictions were calibrated; NaN if not tested."""
        found = {self.headline.id: self.curve.p_value}
        if self.classwise_test is not None:
            found["classwise_ece"] = self.classwise_test.p_value
        return found


@result()
class Failure:
    """A method that could not be fitted or judged."""

    method: str = doc("As in :class:`MethodResult`.")
    title: str = doc("As in :class:`MethodResult`.")
    error: str = doc("Class of the error.")
    message: str = doc("What it said.")


@result(eq=False, repr=False)
class Comparison:
    """Result of :func:`compare`; ``print`` shows it as a table."""

    results: tuple[MethodResult, ...] = doc("The uncalibrated predictions, then all methods.")
    failures: tuple[Failure, ...] = doc("Methods that could not be judged.")
    classes: NDArray[Any] = doc("Label of each column.")
    val_counts: NDArray[np.int64] = doc("Rows of each class in the calibration part.")
    test_counts: NDArray[np.int64] = doc("And in the test part.")
    shown: tuple[int, ...] = doc("Columns of the classes that have diagrams.")
    settings: dict[str, Any] = doc("What was asked for: bins, resamples, seed and so on.")
    sources: dict[str, str] = doc("Names of what was read, such as file names.")
    versions: dict[str, str] = doc("Of the libraries.")
    warnings: tuple[str, ...] = doc("What was warned of when the data was read.")
    created: str = doc("Date and time, UTC.")
    seconds: float = doc("Of everything.")
    by_group: dict[str, GroupTable] | None = doc("By method, if groups were given.", default=None)
    decisions: Decisions | None = doc("If costs or a coverage were given.", default=None)

    def __repr__(self) -> str:
        columns = self._columns()
        columns[1:-1] = (
            [cell if cell[-1] == "*" else f"{cell} " for cell in own] for own in columns[1:-1]
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
        rows = distinct_rows(self.results)
        columns = [["method", *(shorten(label) for label in rows)]]
        for name, best in best_texts(self.results).items():
            texts = [METRICS[name].text(getattr(r.evaluation, name).value) for r in rows.values()]
            stars = (f"{text}*" if text == best else text for text in texts)
            columns.append([METRICS[name].heading, *stars])
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
        """What methods are compared with: temperature scaling, unless it failed."""
        return BASELINE if BASELINE in self.methods else UNCALIBRATED

    def result(self, method: str) -> MethodResult:
        """Return the result of a method by its short name."""
        simplex.check_option("method", method, self.methods)
        return self.results[self.methods.index(method)]


def _record(result: MethodResult) -> dict[str, Any]:
    """Numbers of a method by name, in units of one."""
    record: dict[str, Any] = {"method": result.method, "class": result.title}
    for name, estimate in result.evaluation.estimates().items():
        record |= {name: estimate.value, f"{name}_low": estimate.low}
        record[f"{name}_high"] = estimate.high
    record |= {f"{name}_p_value": p for name, p in result.p_values.items()}
    gap = result.difference
    record["nll_difference"] = 0.0 if gap is None else gap.value
    record["nll_difference_p_value"] = math.nan if gap is None else gap.p_value
    return record | {"fit_seconds": result.fit_seconds, "predict_seconds": result.predict_seconds}


KEPT_BYTES = 1 << 28
"""Predictions of methods that are kept for the diagrams of classes; more are made once more."""

MOST_RANKS = 100

FEWEST_RESAMPLES = 2000
"""Resamples, unless there are very many rows: p-values of 0.001, many times corrected."""

MOST_ROWS_DRAWN_IN_ALL = 200_000_000


class Judge:
    """The test part, and how methods are judged on it; options as in :func:`compare`."""

    def __init__(
        self,
        test: SimplexBatch,
        n_bins: int,
        n_resamples: int,
        level: float,
        random_state: Any,
        groups: NDArray[Any] | None = None,
    ) -> None:
        self._test, self._groups = test, groups
        self._n_resamples, self._level = int(n_resamples), level
        self._losses: dict[str, NDArray[np.float64]] = {}
        self._kept: dict[str, Predictions] = {UNCALIBRATED: self._read(test.probabilities())}
        self._draws = {"n_resamples": self._n_resamples, "random_state": random_state}
        self._options: dict[str, Any] = {"n_bins": n_bins, **self._draws}

    def judge(self, calibrator: Calibrator | None, method: str) -> MethodResult:
        """Judge a fitted calibrator, or the predictions as they came; diagrams come later."""
        started = perf_counter()
        after = self._predict(method, calibrator)
        seconds = perf_counter() - started
        is_binary = self._test.n_classes == 2
        options = self._options
        more_draws = {**options, "n_resamples": 5 * self._n_resamples}
        kind = name_of(self._test.classes, usual_column(self._test.n_classes))
        top = effect = found_map = None
        if not is_binary:
            top = compute_top_r(None, after, max_rank=min(self._test.n_classes - 1, MOST_RANKS))
        if calibrator is not None:
            first, weight = self._kept[UNCALIBRATED], self._test.weight
            effect = compute_effect(first, after, sample_weight=weight)
            is_grouped = isinstance(calibrator, GroupedCalibrator)
            found_map = compute_map(calibrator.for_group(None) if is_grouped else calibrator)
        result = MethodResult(
            method=method,
            title="as they came" if calibrator is None else type(calibrator).__name__,
            evaluation=evaluate(None, after, confidence_level=self._level, **options),
            difference=None,
            curve=replace(reliability_curve(None, after, **more_draws), kind=kind),
            shares=replace(class_shares(None, after), classes=self._test.classes),
            classwise_test=calibration_test(None, after, metric="classwise", **options)
            if self._n_resamples and not is_binary
            else None,
            confidence=compute_confidence_histogram(None, after),
            classwise=compute_classwise(None, after, n_worst=0, n_bins=options["n_bins"]),
            top_r=top,
            effect=effect,
            map=found_map,
            calibrator=calibrator,
            fit_seconds=0.0,
            predict_seconds=0.0 if calibrator is None else seconds,
            warnings=(),
        )
        self._losses[method] = np.concatenate([chunk.losses() for chunk in after.chunks()])
        return result

    def finish(
        self, results: list[MethodResult], n_diagrams: int
    ) -> tuple[list[MethodResult], tuple[int, ...]]:
        """Add the comparison with temperature scaling, and the diagrams of some classes."""
        baseline = BASELINE if BASELINE in self._losses else UNCALIBRATED
        others = [name for name in self._losses if name != baseline]
        found = paired_differences(
            np.array([self._losses[name] for name in others]).reshape(-1, self._test.n_rows),
            self._losses[baseline],
            self._test.weight,
            n_resamples=paired_resamples(self._test.n_rows, self._n_resamples),
            level=self._level,
            random_state=self._draws["random_state"],
        )
        differences = dict(zip(others, found, strict=True))
        shown = self._shown(results, n_diagrams)
        finished = [
            replace(
                result,
                difference=differences.get(result.method),
                classwise=self._with_curves(result, shown),
            )
            for result in results
        ]
        return finished, shown

    def by_group(self, result: MethodResult) -> GroupTable:
        """Judge each group of the test part by itself."""
        after = self._predict(result.method, result.calibrator)
        told = {"confidence_level": self._level, "groups": self._groups, **self._options}
        found: Any = evaluate(None, after, **told).by_group
        return found  # type: ignore[no-any-return]

    def decisions(self, judged: list[MethodResult], costs: Any, coverage: Any) -> Decisions:
        """Measure what decisions cost and how large sets are, before and after."""
        rows = {own.method: self._predict(own.method, own.calibrator).matrix for own in judged}
        told = {"confidence_level": self._level, **self._draws}
        test = self._test
        return judge_decisions(test.class_index, rows, test.weight, costs, coverage, **told)

    def _read(self, rows: NDArray[np.float64]) -> Predictions:
        """Check predictions for the test part, once for everything that is made of them."""
        test = self._test
        weight = None if np.all(test.weight == test.weight[0]) else test.weight
        return read_predictions(test.class_index, rows, weight, np.arange(test.n_classes)).checked()

    def _predict(self, method: str, calibrator: Calibrator | None) -> Predictions:
        if method in self._kept or calibrator is None:
            return self._kept[method]
        more = {"groups": self._groups} if isinstance(calibrator, GroupedCalibrator) else {}
        after = self._read(calibrator.predict_proba(self._test, **more))
        if after.matrix.nbytes * (1 + len(self._kept)) <= KEPT_BYTES:
            self._kept[method] = after
        return after

    def _shown(self, results: list[MethodResult], n_diagrams: int) -> tuple[int, ...]:
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

    def _with_curves(self, result: MethodResult, shown: tuple[int, ...]) -> Any:
        if not shown:
            return result.classwise
        after = self._predict(result.method, result.calibrator)
        curves = class_curves(after, shown, **self._draws)
        return replace(result.classwise, curves=curves)


@result()
class Difference:
    """NLL of a method minus that of the baseline, on the same rows."""

    value: float = doc("Below zero if the method is better.")
    low: float = doc("Of the bootstrap percentile interval; NaN without resamples.")
    high: float
    p_value: float = doc(
        "Two-sided, of 'there is no difference': by resamples, or Student's t if none is beyond 0."
    )
    p_holm: float = doc("The same after Holm's correction for the number of methods compared.")


def paired_differences(
    losses: NDArray[np.float64],
    baseline: NDArray[np.float64],
    weight: NDArray[np.float64],
    *,
    n_resamples: int,
    level: float,
    random_state: Any,
) -> list[Difference]:
    """Compare losses of methods, a row each, with those of the baseline on the same draws."""
    gaps = losses - baseline
    values = gaps @ (weight / weight.sum())
    if n_resamples == 0:
        nan = float("nan")
        return [Difference(float(v), nan, nan, nan, nan) for v in values]
    draws = drawn_means(gaps, weight, n_resamples, random_state)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
    beyond = np.minimum(*(np.count_nonzero(s * draws >= 0, axis=1) for s in (-1, 1)))
    p = np.minimum(2 * (1 + beyond) / (1 + n_resamples), 1.0)
    # Where no draw is beyond zero their number bounds p; Student's t says how far below it is.
    spread = draws.std(axis=1)
    is_far = (beyond == 0) & (spread > 1e-9 * np.abs(values))  # a constant gap has no spread
    far = 2 * stdtr(np.count_nonzero(weight) - 1, -np.abs(values[is_far]) / spread[is_far])
    p[is_far] = np.minimum(p[is_far], far)
    return [
        Difference(*(float(v) for v in found))
        for found in zip(values, low, high, p, holm(p), strict=True)
    ]


def paired_resamples(n_rows: int, n_resamples: int) -> int:
    """How many resamples the paired comparison needs and can afford, if any were asked for."""
    asked_for = max(25 * n_resamples, FEWEST_RESAMPLES) if n_resamples else 0
    return min(asked_for, max(1000, MOST_ROWS_DRAWN_IN_ALL // max(n_rows, 1)))
