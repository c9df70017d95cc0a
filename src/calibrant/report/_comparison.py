"""``compare``: fit every method on one part, judge it on the other."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from calibrant import _gate as gate
from calibrant import _threads as threads
from calibrant import errors
from calibrant._calibrators.class_balance import sample_of
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._calibrators.methods import make_calibrator
from calibrant._calibrators.methods import methods as all_methods
from calibrant._calibrators.shift_check import compare_scores, summarise
from calibrant._text import p_words
from calibrant._trial import UNCALIBRATED, fit_and_judge, messages, versions
from calibrant.decisions import read_costs
from calibrant.report._judge import Judge
from calibrant.report._results import Comparison, Failure, MethodResult
from calibrant.report._verdict import baseline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._gate import SimplexBatch
    from calibrant._trial import Prepared
    from calibrant._types import Bools, Floats, Labels
    from calibrant.metrics import Seed


CERTAIN = 1e-3
"""P-value below which a comparison says that its parts are not alike."""


def compare(
    y_val: ArrayLike,
    scores_val: ArrayLike,
    y_test: ArrayLike,
    scores_test: ArrayLike,
    methods: str | Sequence[str] | Mapping[str, Calibrator] | None = None,
    *,
    scores: str = "probabilities",
    classes: ArrayLike | None = None,
    normalize: str | None = None,
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
    wanted = _calibrators(methods, (groups_val, groups_test), (features_val, features_test))
    threads.check_jobs("n_jobs", n_jobs)
    val, test, warned = _read_parts(
        (scores_val, y_val, sample_weight_val),
        (scores_test, y_test, sample_weight_test),
        scores,
        classes,
        normalize,
    )
    table = _read_costs(costs, val.classes, classes is not None or gate.is_single(scores))
    fit_groups = _used_groups(groups_val, sample_weight_val, val.n_rows)
    fit_features = _used_features(features_val, sample_weight_val, val.n_rows)
    compared = _with_baseline(wanted, val.n_classes, scores)
    judge = Judge(
        test,
        n_bins=n_bins,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        random_state=random_state,
        groups=_used_groups(groups_test, sample_weight_test, test.n_rows),
        features=_used_features(features_test, sample_weight_test, test.n_rows),
    )
    tell, tried = progress or (lambda *_: None), []
    with threads.jobs(n_jobs):
        for done, (name, calibrator) in enumerate(compared.items()):
            tell(done, len(compared), name)
            known = fit_features if isinstance(calibrator, FeatureCalibrator) else fit_groups
            tried.append(_try(name, calibrator, val, judge, known))
        results = [one for one in tried if isinstance(one, MethodResult)]
        tell(len(compared), len(compared), "")
        comparison = Comparison(
            results=judge.with_differences(results),
            failures=tuple(one for one in tried if isinstance(one, Failure)),
            classes=val.classes,
            val_counts=np.bincount(val.class_index, minlength=val.n_classes),
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
            warnings=(*warned, *_tell_of_shift(val, test)),
            created=dt.datetime.now(dt.UTC).isoformat(" ", "minutes")[:16] + " UTC",
            seconds=0.0,
        )
        comparison = judge.with_details(comparison, table)
    return replace(comparison, seconds=perf_counter() - started)


def _tell_of_shift(val: gate.SimplexBatch, test: gate.SimplexBatch) -> list[str]:
    """Say so if the scores of the test part are certainly not distributed as those of the fit."""
    if test.n_rows < 2:
        return []
    with threads.few_blas_threads(0):  # whose number would change the last bits
        check = compare_scores(summarise(sample_of(val)), test.probabilities())
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
            "to calibrant.decisions.value_of_calibration"
        )
    return matrix


def _used_groups(groups: object, weight: object, n_rows: int) -> Labels | None:
    """Return the group of each row that has a weight."""
    if groups is None:
        return None
    used = _has_weight(weight, n_rows)
    names, codes = gate.read_groups(groups, len(used))
    result: NDArray[Any] = names[codes[used]]
    return result


def _used_features(features: object, weight: object, n_rows: int) -> dict[str, NDArray[Any]] | None:
    """Return the features of each row that has a weight, by column."""
    if features is None:
        return None
    used = _has_weight(weight, n_rows)
    columns = gate.columns_by_name(features, len(used))
    return {name: column[used] for name, column in columns.items()}


def _has_weight(weight: object, n_rows: int) -> Bools:
    """Return which rows are used: without weights, all of the rows that were checked."""
    return np.asarray(np.ones(n_rows) if weight is None else weight, dtype=np.float64) > 0.0


def _calibrators(
    methods: Any, groups: tuple[Any, Any], features: tuple[Any, Any]
) -> dict[str, Calibrator]:
    """Return unfitted calibrators by short name; some need groups or features of both parts."""
    by_row: dict[str, type[Calibrator]] = {}
    if all(part is not None for part in groups):
        by_row["grouped"] = GroupedCalibrator
    if all(part is not None for part in features):
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
        raise errors.ParameterError(f"methods has {UNCALIBRATED!r}, which is always compared")
    return wanted


def _with_baseline(
    wanted: dict[str, Calibrator], n_classes: int, scores: str
) -> dict[str, Calibrator | None]:
    """Add the baseline if it is missing, and first of all the predictions as they came."""
    baseline = baseline_of(n_classes)
    if baseline not in wanted:
        wanted = {baseline: make_calibrator(baseline), **wanted}
    for calibrator in wanted.values():
        calibrator.set_params(scores=scores)
    return {UNCALIBRATED: None, **wanted}


def _read_parts(
    val: tuple[Any, Any, Any],
    test: tuple[Any, Any, Any],
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


def _check_names(scores_val: Any, scores_test: Any, kind: str, classes: Any) -> None:
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
    name: str, calibrator: Calibrator | None, val: SimplexBatch, judge: Judge, by_row: object
) -> MethodResult | Failure:
    """Fit and judge one method."""

    def prepare() -> Prepared:
        if calibrator is None:
            return None, None, (name,)
        calibrator.set_params(classes=val.classes)
        if isinstance(calibrator, GroupedCalibrator):
            return calibrator, partial(calibrator.fit, val, None, groups=by_row), (name,)
        if isinstance(calibrator, FeatureCalibrator):
            return calibrator, partial(calibrator.fit, val, None, features=by_row), (name,)
        return calibrator, partial(calibrator.fit, val, None), (name,)

    done = fit_and_judge(prepare, judge.judge)
    if done.found is not None:
        return replace(done.found, fit_seconds=done.fit_seconds, warnings=done.warnings)
    if calibrator is None:
        raise done.error or RuntimeError
    kind = type(done.error).__name__
    return Failure(name, type(calibrator).__name__, kind, str(done.error))
