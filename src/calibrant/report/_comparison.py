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

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._calibrators.methods import make_calibrator
from calibrant._calibrators.methods import methods as all_methods
from calibrant._columns import check_names, feature_names, order_of
from calibrant._containers import column_names
from calibrant._docstrings import inherit_parameters
from calibrant._labels import read_groups
from calibrant._one_column import ONE_COLUMN, check_positive
from calibrant._trial import UNCALIBRATED, fit_and_judge, messages, versions
from calibrant.decisions._cost_tables import read_costs
from calibrant.decisions._sets import check_coverage
from calibrant.metrics._reading import shared
from calibrant.report._results import Comparison, Failure, Judge, MethodResult
from calibrant.report._tables import BASELINE
from calibrant.report._verdict import applied_method, reach_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._simplex import SimplexBatch
    from calibrant._trial import Prepared


@inherit_parameters(shared)
def compare(
    y_val: Any,
    scores_val: Any,
    y_test: Any,
    scores_test: Any,
    methods: Sequence[str] | Mapping[str, Calibrator] | None = None,
    *,
    scores: str = "probabilities",
    classes: Any = None,
    normalize: str | None = None,
    sample_weight_val: Any = None,
    sample_weight_test: Any = None,
    groups_val: Any = None,
    groups_test: Any = None,
    costs: Any = None,
    coverage: float | None = None,
    n_bins: int = 15,
    n_resamples: int = 200,
    confidence_level: float = 0.95,
    n_diagrams: int = 12,
    random_state: Any = 0,
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
    methods : sequence of str, or mapping of str to Calibrator, optional
        Short names (keys of ``calibrant._calibrators.methods.methods()``), or calibrators of your
        own by name; all methods by default. Temperature scaling is always among them.
    scores : {"probabilities", "logits", "positive", "decision"}, default="probabilities"
        Kind of the scores, which is never guessed. For a vector or one column: "positive" is the
        probability of the second class, "decision" its log-odds (margin).
    normalize : {None, "rows"}, default=None
        "rows" divides each row of scores by its sum.
    sample_weight_val, sample_weight_test : array-like of shape (n_rows,), optional
        Weights of the rows.
    groups_val, groups_test : array-like of shape (n_rows,), optional
        Group of each row. Those of the test part are judged one by one, before calibration and with
        the method of the verdict. With both, a :class:`calibrant.GroupedCalibrator` among the
        methods is fitted by group, and one is tried by default, as "grouped".
    costs : array-like of shape (n_classes, n_actions), data frame or mapping, optional
        As :func:`calibrant.decisions.expected_cost` takes them: what decisions cost before
        calibration and with the method of the verdict, and what that saves in 1,000 decisions.
    coverage : float, optional
        Requested coverage of :func:`calibrant.decisions.prediction_sets`, whose measured coverage
        and size are reported.
    n_resamples : int, default=200
        Resamples behind the intervals and the class-wise test; five times as many behind the
        test of the confidence, or of the positive one of two classes, and 25 times, at least
        2000, behind the comparison with temperature scaling (fewer where there are very many
        rows). 0 for no intervals, and no tests but those of the shares of classes.
    n_diagrams : int, default=12
        Number of classes that get a diagram beside that of the confidence: the worst before and
        after, and the most frequent. Two classes have one diagram, of the positive one.
    n_jobs : int, optional
        Number of threads, as in all metrics. Calibrators with their own ``n_jobs`` keep it.
    sources : mapping of str to str, optional
        Names of what was read, such as ``{"calibration": "val.npz", "test": "test.npz"}``.
    progress : callable, optional
        Called as ``progress(done, total, method)`` before each method, and at the end.

    Returns
    -------
    Comparison
        Results, for :func:`build_report` or to read.

    Notes
    -----
    A method that raises is recorded in ``failures``; the others are judged all the same. Bad data
    is an error at once.

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
    both_groups = groups_val is not None and groups_test is not None
    wanted = _calibrators(methods, scores, both_groups)
    simplex.check_number("n_diagrams", n_diagrams, low=0, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        val = _read(y_val, scores_val, sample_weight_val, scores, classes, normalize, y_test)
        _check_names(scores_val, scores_test, val.classes)
        told: dict[str, Any] = {"kind": scores, "classes": val.classes, "normalize": normalize}
        test = simplex.check_batch(scores_test, y_test, sample_weight_test, **told)
    if costs is not None:
        is_told = classes is not None or scores in ONE_COLUMN
        costs = read_costs(costs, val.classes, is_told=is_told).matrix
    if coverage is not None:
        check_coverage(coverage)
    fit_groups = _used_groups(groups_val, sample_weight_val, val.n_rows)
    groups = _used_groups(groups_test, sample_weight_test, test.n_rows)
    judge = Judge(test, n_bins, n_resamples, confidence_level, random_state, groups)
    tell = progress or (lambda *_: None)
    tried = []
    with threads.jobs(n_jobs):
        for done, (name, calibrator) in enumerate(wanted.items()):
            tell(done, len(wanted), name)
            tried.append(_try(name, calibrator, val, judge, fit_groups))
        results = [one for one in tried if isinstance(one, MethodResult)]
        results, shown = judge.finish(results, int(n_diagrams))
    tell(len(wanted), len(wanted), "")
    comparison = Comparison(
        results=tuple(results),
        failures=tuple(one for one in tried if isinstance(one, Failure)),
        classes=val.classes,
        val_counts=np.bincount(val.class_index, minlength=val.n_classes),
        test_counts=np.bincount(test.class_index, minlength=val.n_classes),
        shown=shown,
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
        warnings=messages(caught),
        created=dt.datetime.now(dt.UTC).isoformat(" ", "minutes")[:16] + " UTC",
        seconds=perf_counter() - started,
    )
    with threads.jobs(n_jobs):
        more = _of_verdict(comparison, judge, groups is not None, costs, coverage)
    return replace(comparison, **more, seconds=perf_counter() - started)


def _of_verdict(
    comparison: Comparison, judge: Judge, has_groups: bool, costs: Any, coverage: Any
) -> dict[str, Any]:
    """Judge groups and decisions, as predictions came and with the method of the verdict."""
    applied = applied_method(comparison, reach_verdict(comparison))
    judged = [own for own in comparison.results if own.method in (UNCALIBRATED, applied)]
    found: dict[str, Any] = {}
    if has_groups:
        found["by_group"] = {own.method: judge.by_group(own) for own in judged}
    if costs is not None or coverage is not None:
        found["decisions"] = judge.decisions(judged, costs, coverage)
    return found


def _used_groups(groups: Any, weight: Any, n_rows: int) -> NDArray[Any] | None:
    """Return the group of each row that has a weight."""
    if groups is None:
        return None
    used = np.asarray(np.ones(n_rows) if weight is None else weight, dtype=np.float64) > 0.0
    names, codes = read_groups(groups, len(used))
    found: NDArray[Any] = names[codes[used]]
    return found


def _calibrators(methods: Any, scores: str, has_groups: bool) -> dict[str, Calibrator | None]:
    """Unfitted calibrators by short name, temperature scaling among them; first of all none."""
    by_group = {"grouped": GroupedCalibrator} if has_groups else {}
    if isinstance(methods, Mapping):
        wanted = {str(name): clone(calibrator) for name, calibrator in methods.items()}
    else:
        methods = [methods] if isinstance(methods, str) else methods
        names = [*all_methods(), *by_group] if methods is None else methods
        wanted = {
            name: by_group[name]() if name in by_group else make_calibrator(name)
            for name in names
            if name != UNCALIBRATED
        }
    if UNCALIBRATED in wanted:
        raise errors.ParameterError(f"methods has {UNCALIBRATED!r}, which is always compared")
    if BASELINE not in wanted:
        wanted = {BASELINE: make_calibrator(BASELINE), **wanted}
    for calibrator in wanted.values():
        calibrator.set_params(scores=scores)
    return {UNCALIBRATED: None, **wanted}


def _read(
    y: Any, scores: Any, weight: Any, kind: str, classes: Any, normalize: str | None, others: Any
) -> SimplexBatch:
    """Check the calibration part; classes that it lacks may be named by the other part."""
    told: dict[str, Any] = {"kind": kind, "normalize": normalize}
    try:
        return simplex.check_batch(scores, y, weight, classes=classes, **told)
    except errors.LabelError:
        present = np.unique(np.concatenate([np.asarray(y).ravel(), np.asarray(others).ravel()]))
        n_columns = 2 if kind in ONE_COLUMN else np.shape(scores)[1]
        if classes is not None or len(present) != n_columns:
            raise
        if kind in ONE_COLUMN:
            check_positive(present, told=False)
    return simplex.check_batch(scores, y, weight, classes=present, **told)


def _check_names(scores_val: Any, scores_test: Any, classes: Any) -> None:
    """Refuse columns of the test part that have other names, and not those of the classes."""
    fitted, names = (column_names(part) for part in (scores_val, scores_test))
    if fitted is None or names is None or order_of(names, classes) is not None:
        return
    known = feature_names(fitted).get("feature_names_in_")
    check_names(names, known, "the calibration part")


def _try(
    name: str,
    calibrator: Calibrator | None,
    val: SimplexBatch,
    judge: Judge,
    groups: NDArray[Any] | None,
) -> MethodResult | Failure:
    """Fit and judge one method."""

    def prepare() -> Prepared:
        if calibrator is None:
            return None, None, (name,)
        calibrator.set_params(classes=val.classes)
        more = {"groups": groups} if isinstance(calibrator, GroupedCalibrator) else {}
        return calibrator, partial(calibrator.fit, val, None, **more), (name,)

    done = fit_and_judge(prepare, judge.judge)
    if done.found is not None:
        return replace(done.found, fit_seconds=done.fit_seconds, warnings=done.warnings)
    if calibrator is None:
        raise done.error or RuntimeError
    kind = type(done.error).__name__
    return Failure(name, type(calibrator).__name__, kind, str(done.error))
