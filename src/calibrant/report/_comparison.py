"""``compare``: fit every method on one part, judge it on the other."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import stdtr, stdtrit
from sklearn.base import clone

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import _threads as threads
from calibrant import errors, metrics
from calibrant._calibrators.checks import ScoreSums, sample_of, summarise
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._calibrators.methods import make_calibrator
from calibrant._calibrators.methods import methods as all_methods
from calibrant._predictions import Predictions, read_predictions
from calibrant._text import p_words
from calibrant._trial import UNCALIBRATED, fit_and_judge, messages, versions
from calibrant.decisions import expected_cost, read_costs, value_of_calibration
from calibrant.plots import compute_classwise
from calibrant.report._results import Comparison, Decisions, Difference, Failure, MethodResult
from calibrant.report._verdict import DEFAULT, baseline_of, reach_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from calibrant._calibrators.base import Calibrator
    from calibrant._gate import SimplexBatch
    from calibrant._trial import Prepared
    from calibrant._types import Array, Floats, Labels, ScoresKind
    from calibrant.metrics import Evaluation, GroupTable, Seed, SegmentTable

    Part = tuple[ArrayLike, ArrayLike, ArrayLike | None]
    """Scores, labels and weights."""
    Features = dict[str, Array]

CERTAIN = 1e-3
"""P-value below which a comparison says that its parts are not alike."""


def compare(
    y_val: ArrayLike,
    scores_val: ArrayLike,
    y_test: ArrayLike,
    scores_test: ArrayLike,
    methods: str | Sequence[str] | Mapping[str, Calibrator] | None = None,
    *,
    scores: ScoresKind = "probabilities",
    classes: ArrayLike | None = None,
    normalize: Literal["rows"] | None = None,
    sample_weight_val: ArrayLike | None = None,
    sample_weight_test: ArrayLike | None = None,
    groups_val: ArrayLike | None = None,
    groups_test: ArrayLike | None = None,
    features_val: object = None,
    features_test: object = None,
    costs: ArrayLike | Mapping[str, float] | None = None,
    n_bins: int = 15,
    n_resamples: int = 200,
    confidence_level: float = 0.95,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    sources: Mapping[str, str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Comparison:
    """Fit every method on the calibration part and judge it on the test part.

    Parameters
    ----------
    y_val, y_test : array-like of shape (n_rows,)
        Labels of the two parts.
    scores_val, scores_test : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predictions of the classifier.
    methods : str, sequence of str, or mapping of str to Calibrator, optional
        Short names (keys of ``calibrant._calibrators.methods.methods()``), or calibrators of your
        own by name; all methods by default. The baseline is always among them: temperature
        scaling, or Platt scaling of two classes.
    scores : {"probabilities", "logits", "positive", "decision"}, default="probabilities"
        Kind of the scores, which is never guessed. For a vector or one column: "positive" is the
        probability of the second class, "decision" its log-odds (margin).
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if the calibration part lacks a class. For a single column:
        the negative and the positive label.
    normalize : {None, "rows"}, default=None
        "rows" divides each row of scores by its sum.
    sample_weight_val, sample_weight_test : array-like of shape (n_rows,), optional
        Weights of the rows.
    groups_val, groups_test : array-like of shape (n_rows,), optional
        Group of each row. Those of the test part are judged one by one, before calibration and with
        the method of the verdict. With both, a :class:`calibrant.GroupedCalibrator` among the
        methods is fitted by group, and one is tried by default, as "grouped".
    features_val, features_test : array-like or data frame of shape (n_rows, n_features), optional
        What stands beside the scores. With both, a :class:`calibrant.FeatureCalibrator` is tried
        by default, as "features".
    costs : array-like of shape (n_classes, n_actions), data frame or mapping, optional
        As :func:`calibrant.decisions.expected_cost` takes them: what decisions cost before
        calibration and with the method of the verdict, and what that saves in 1,000 decisions.
    n_bins : int, default=15
        Number of bins.
    n_resamples : int, default=200
        Draws behind the interval of the calibration error and the class-wise test; five times as
        many behind the test of the confidence, or of the positive one of two classes. 0 for no
        intervals of metrics, and no tests but those of the shares of classes.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    random_state : None, int, SeedSequence or Generator, default=0
        Seed of the random numbers.
    n_jobs : int, optional
        Number of threads, as in all metrics. Calibrators with their own ``n_jobs`` keep it.
    sources : mapping of str to str, optional
        Names of what was read, such as ``{"calibration": "val.npz", "test": "test.npz"}``.
    progress : callable, optional
        Called as ``progress(done, total, method)`` before each method, and at the end.

    Returns
    -------
    Comparison
        Results, for :func:`write_report` or to read.

    Notes
    -----
    A method that raises is recorded in ``failures``; the others are judged all the same. Bad data
    is an error at once. Methods are compared with the baseline by the paired t test of their
    losses, row by row, with Holm's correction for the number of methods.

    Examples
    --------
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.report import compare
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> comparison = compare(y, scores, new_y, new_scores, ["ts", "fir"], n_resamples=20)
    >>> comparison.methods
    ('uncalibrated', 'ts', 'fir')
    >>> ts = comparison.result("ts").evaluation
    >>> ts.confidence_ece.value < comparison.result("uncalibrated").evaluation.confidence_ece.value
    True
    """
    started = perf_counter()
    threads.check_jobs("n_jobs", n_jobs)
    val, test, warned = _read_parts(
        (scores_val, y_val, sample_weight_val),
        (scores_test, y_test, sample_weight_test),
        scores,
        classes,
        normalize,
    )
    table = _read_costs(costs, val.classes, classes is not None or gate.is_single(scores))
    has_groups = groups_val is not None and groups_test is not None
    has_features = features_val is not None and features_test is not None
    compared = _calibrators(methods, val.n_classes, scores, has_groups, has_features)
    _check_order(scores_val, y_val, groups_val=groups_val, features_val=features_val)
    _check_order(scores_test, y_test, groups_test=groups_test, features_test=features_test)
    fit_groups, fit_features = _used(groups_val, features_val, sample_weight_val, val.n_rows)
    groups, features = _used(groups_test, features_test, sample_weight_test, test.n_rows)
    judge = Judge(
        test, groups, features, int(n_bins), int(n_resamples), confidence_level, random_state
    )
    tell, tried = progress or (lambda *_: None), []
    with threads.jobs(n_jobs):
        for done, (name, calibrator) in enumerate(compared.items()):
            tell(done, len(compared), name)
            tried.append(_try(name, calibrator, val, judge, fit_groups, fit_features))
        tell(len(compared), len(compared), "")
        results = judge.with_differences([one for one in tried if isinstance(one, MethodResult)])
        warned = (*warned, *_tell_of_shift(val, test))
        verdict = reach_verdict(results, warned, test.n_rows, n_resamples, confidence_level)
        names = (UNCALIBRATED, verdict.applied)
        shown = {r.method: judge.predict(r.calibrator) for r in results if r.method in names}
        by_group, segments = judge.by_group(shown), judge.segments(shown)
        decisions = None if table is None else judge_decisions(shown, table, confidence_level)
    return Comparison(
        results=results,
        verdict=verdict,
        failures=tuple(one for one in tried if isinstance(one, Failure)),
        classes=val.classes,
        test_counts=np.bincount(test.class_index, minlength=val.n_classes),
        settings={
            "scores": scores,
            "normalize": normalize,
            "n_bins": int(n_bins),
            "n_resamples": int(n_resamples),
            "confidence_level": float(confidence_level),
            "random_state": random_state,
            "weights": sample_weight_val is not None or sample_weight_test is not None,
            "n_val": val.n_rows,
            "n_test": test.n_rows,
        },
        sources={str(key): str(value) for key, value in (sources or {}).items()},
        versions=versions(),
        warnings=warned,
        created=dt.datetime.now(dt.UTC).isoformat(" ", "minutes")[:16] + " UTC",
        seconds=perf_counter() - started,
        by_group=by_group,
        segments=segments,
        decisions=decisions,
    )


def _tell_of_shift(val: gate.SimplexBatch, test: gate.SimplexBatch) -> list[str]:
    """Say so if the scores of the test part are certainly not distributed as those of the fit."""
    if test.n_rows < 2:
        return []
    with threads.few_blas_threads(0):  # whose number would change the last bits
        check = ScoreSums(summarise(sample_of(val))).add(test.probabilities()).compare()
    if check.p_value >= CERTAIN:
        return []
    advice = "was it drawn otherwise, or later?"
    if check.is_label_shift:
        advice = "other frequencies of the classes explain it, for which PriorShift corrects"
    what = (
        "the scores of the test part are distributed otherwise than those of the calibration part"
    )
    return [f"{what} ({p_words(check.p_value)}); {advice}"]


def _read_costs(costs: object, classes: Labels, is_ordered: bool) -> Floats | None:
    """Return costs by class and action, which are the same for all rows, if there are any."""
    if costs is None:
        return None
    matrix = read_costs(costs, classes, is_ordered=is_ordered).matrix
    if matrix.ndim == 3:
        raise errors.ParameterError(
            "costs of a comparison are the same for all rows; pass costs that differ by row "
            "to calibrant.decisions.value_of_calibration",
            argument="costs",
        )
    return matrix


def _check_order(scores: object, y: object, **beside: object) -> None:
    """Refuse groups or features whose index is that of the labels or scores in another order."""
    for argument, given in beside.items():
        gate.refuse_other_index(scores, y, given, argument)


def _used(
    groups: object, features: object, weight: ArrayLike | None, n_rows: int
) -> tuple[Labels | None, Features | None]:
    """Return group and features of each row that has a weight."""
    # Without weights, all of the rows that were checked are used.
    used = np.asarray(np.ones(n_rows) if weight is None else weight, dtype=np.float64) > 0.0
    by_row, columns = None, None
    if groups is not None:
        names, codes = gate.read_groups(groups, len(used))
        by_row = names[codes[used]]
    if features is not None:
        read = gate.columns_by_name(features, len(used))
        columns = {name: column[used] for name, column in read.items()}
    return by_row, columns


def _calibrators(
    methods: str | Sequence[str] | Mapping[str, Calibrator] | None,
    n_classes: int,
    scores: str,
    has_groups: bool,
    has_features: bool,
) -> dict[str, Calibrator | None]:
    """Return unfitted calibrators by short name, after the predictions as they came.

    Some need groups or features of both parts. The baseline is added if it is missing.
    """
    by_row: dict[str, type[Calibrator]] = {"grouped": GroupedCalibrator} if has_groups else {}
    if has_features:
        by_row["features"] = FeatureCalibrator
    if isinstance(methods, Mapping):
        wanted = {str(name): clone(calibrator) for name, calibrator in methods.items()}
    else:
        methods = [methods] if isinstance(methods, str) else methods
        names = [*all_methods(), *by_row] if methods is None else methods
        wanted = {
            name: by_row[name]() if name in by_row else make_calibrator(name)
            for name in names
            if name != UNCALIBRATED
        }
    if UNCALIBRATED in wanted:
        raise errors.ParameterError(
            f"methods has {UNCALIBRATED!r}, which is always compared", argument="methods"
        )
    baseline = baseline_of(n_classes)
    if baseline not in wanted:
        wanted = {baseline: make_calibrator(baseline), **wanted}
    for calibrator in wanted.values():
        calibrator.set_params(scores=scores)
    return {UNCALIBRATED: None, **wanted}


def _read_parts(
    val: Part,
    test: Part,
    kind: str,
    classes: object,
    normalize: str | None,
) -> tuple[SimplexBatch, SimplexBatch, tuple[str, ...]]:
    """Check both parts, each of scores, labels and weights, and keep their warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = gate.check_batch(*val, kind=kind, classes=classes, normalize=normalize)
        _check_names(val[0], test[0], kind, first.classes)
        second = gate.check_batch(*test, kind=kind, classes=first.classes, normalize=normalize)
    # Both parts are mostly wrong in the same way: that of calibration tells it.
    once = list({one.category: one for one in reversed(caught)}.values())[::-1]
    return first, second, messages(once)


def _check_names(scores_val: object, scores_test: object, kind: str, classes: Labels) -> None:
    """Refuse columns of the test part that have other names, and not those of the classes."""
    fitted, names = (gate.fitted_names(part, kind) for part in (scores_val, scores_test))
    known = gate.feature_names(fitted).get("feature_names_in_")
    if gate.is_single(kind):
        name = None if names is None else names[0]
        gate.check_single_name(name, known, "the calibration part")
        return
    if fitted is None or names is None or gate.order_of(names, classes) is not None:
        return
    gate.check_names(names, known, "the calibration part")


def _try(
    name: str,
    calibrator: Calibrator | None,
    val: SimplexBatch,
    judge: Judge,
    groups: Labels | None,
    features: Features | None,
) -> MethodResult | Failure:
    """Fit and judge one method."""

    def prepare() -> Prepared:
        if calibrator is None:
            return None, None, (name,)
        calibrator.set_params(classes=val.classes)
        fit: Callable[[], Calibrator] = partial(calibrator.fit, val, None)
        if isinstance(calibrator, GroupedCalibrator):
            fit = partial(calibrator.fit, val, None, groups=groups)
        if isinstance(calibrator, FeatureCalibrator):
            fit = partial(calibrator.fit, val, None, features=features)
        return calibrator, fit, (name,)

    done = fit_and_judge(prepare, judge.judge)
    if done.result is not None:
        return replace(done.result, fit_seconds=done.fit_seconds, warnings=done.warnings)
    if calibrator is None:
        raise done.error or RuntimeError
    kind = type(done.error).__name__
    return Failure(name, type(calibrator).__name__, kind, str(done.error))


@dataclass
class Judge:
    """The test part, and how methods are judged on it; options as in ``compare``."""

    test: SimplexBatch
    groups: Labels | None
    features: Features | None
    n_bins: int
    n_resamples: int
    confidence_level: float
    random_state: Seed
    losses: dict[str, Floats] = field(default_factory=dict)
    """Of the rows, by method."""

    def judge(self, calibrator: Calibrator | None, method: str) -> MethodResult:
        """Judge a fitted calibrator, or the predictions as they came."""
        started = perf_counter()
        after = self.predict(calibrator)
        seconds = perf_counter() - started
        is_binary, draws, test = after.n_classes == 2, self.n_resamples, None
        if draws > 0:
            test = metrics.calibration_test(
                after,
                metric="positive" if is_binary else "classwise",
                n_bins=self.n_bins,
                n_resamples=5 * draws if is_binary else draws,
                random_state=self.random_state,
            )
        result = MethodResult(
            method=method,
            title="as they came" if calibrator is None else type(calibrator).__name__,
            evaluation=self._evaluate(after),
            difference=None,
            curve=metrics.reliability_curve(
                after,
                n_bins=self.n_bins,
                strategy="quantile" if is_binary else "uniform",  # those of the verdict's error
                n_resamples=5 * draws,
                random_state=self.random_state,
            ),
            test=test,
            shares=metrics.class_shares(after),
            mean_confidence=float(np.average(after.rows.max(axis=1), weights=after.weight)),
            classwise=compute_classwise(after, n_worst=0, n_bins=self.n_bins),
            calibrator=calibrator,
            fit_seconds=0.0,
            predict_seconds=0.0 if calibrator is None else seconds,
            warnings=(),
        )
        self.losses[method] = metrics.LogLoss().terms(after)
        return result

    def with_differences(self, results: Sequence[MethodResult]) -> tuple[MethodResult, ...]:
        """Add comparisons with the baseline and with auto."""
        baseline = baseline_of(self.test.n_classes)
        differences = self._differences(baseline if baseline in self.losses else UNCALIBRATED)
        beside_auto = self._differences(DEFAULT) if DEFAULT in self.losses else {}
        return tuple(
            replace(
                result,
                difference=differences.get(result.method),
                beside_auto=beside_auto.get(result.method),
            )
            for result in results
        )

    def by_group(self, shown: Mapping[str, Predictions]) -> dict[str, GroupTable] | None:
        """Judge each group of rows, by method, if groups were given."""
        if self.groups is None:
            return None
        tables = {name: self._evaluate(rows, self.groups).by_group for name, rows in shown.items()}
        return {name: table for name, table in tables.items() if table is not None}

    def segments(self, shown: Mapping[str, Predictions]) -> dict[str, SegmentTable] | None:
        """Find segments whose predictions are wrong, by method, if features were given."""
        if self.features is None:
            return None
        find = partial(metrics.calibration_segments, random_state=self.random_state)
        return {name: find(rows, features=self.features) for name, rows in shown.items()}

    def _evaluate(self, after: Predictions, groups: Labels | None = None) -> Evaluation:
        return metrics.evaluate(
            after,
            n_bins=self.n_bins,
            groups=groups,
            n_resamples=self.n_resamples,
            confidence_level=self.confidence_level,
            random_state=self.random_state,
        )

    def _differences(self, reference: str) -> dict[str, Difference]:
        """Compare all methods with one of them on the same rows."""
        others = [name for name in self.losses if name != reference]
        gaps = [self.losses[name] - self.losses[reference] for name in others]
        level = self.confidence_level if self.n_resamples else None
        return dict(zip(others, paired_differences(gaps, self.test.weight, level), strict=True))

    def predict(self, calibrator: Calibrator | None) -> Predictions:
        """Return the predictions for the test part, as they came without a calibrator."""
        test = self.test
        if calibrator is None:
            rows = test.probabilities()
        elif isinstance(calibrator, GroupedCalibrator):
            rows = calibrator.predict_proba(test, groups=self.groups)
        elif isinstance(calibrator, FeatureCalibrator):
            rows = calibrator.predict_proba(test, features=self.features)
        else:
            rows = calibrator.predict_proba(test)
        # Labels were checked before: here they are columns, which get their names back.
        result = read_predictions(test.class_index, rows, test.weight, np.arange(test.n_classes))
        return replace(result, classes=test.classes)


def judge_decisions(
    judged: Mapping[str, Predictions], costs: ArrayLike, confidence_level: float
) -> Decisions:
    """Measure decisions on the predictions of two methods: as they came first, then calibrated."""
    methods = [*judged]
    first, last = judged[methods[0]], judged[methods[-1]]
    with notices.kept():  # of the order of columns metrics have warned
        paid = {
            method: expected_cost(rows, costs=costs, confidence_level=confidence_level)
            for method, rows in judged.items()
        }
        value = value_of_calibration(
            first.class_index,
            first.rows,
            last.rows,
            costs,
            confidence_level=confidence_level,
            sample_weight=first.weight,
            classes=np.arange(first.n_classes),
        )
    return Decisions(methods[-1], value, paid)


def paired_differences(
    gaps: Sequence[Floats], weight: Floats, level: float | None
) -> list[Difference]:
    """Test mean differences of losses, row by row, by Student's t, with Holm's correction.

    A level of None is no test.
    """
    result = []
    for gap in gaps:
        value = float(weight @ gap / weight.sum())
        low = high = math.nan
        p_value = math.nan if level is None else 1.0  # one row tells nothing
        if level is not None and len(gap) > 1:
            _, error, n_free = metrics.student(metrics.row_sums(gap - value, weight))
            reach = float(stdtrit(n_free, 0.5 + 0.5 * level)) * error if error else 0.0
            low, high = value - reach, value + reach
            # Without a spread, a difference is certain.
            sizes = abs(value) / error if error else math.inf if value else 0.0
            p_value = float(2.0 * stdtr(n_free, -sizes))
        result.append(Difference(value, low, high, p_value, p_value))
    corrected = metrics.holm(np.array([difference.p_value for difference in result])).tolist()
    return [replace(difference, p_holm=p) for difference, p in zip(result, corrected, strict=True)]
