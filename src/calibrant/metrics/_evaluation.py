"""``evaluate``: every metric, with intervals of those that have one, of all rows and of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant import _gate as gate
from calibrant import _notices as notices
from calibrant import _threads as threads
from calibrant import errors
from calibrant._predictions import Predictions, Statistic, check_beside, source_of, usual_column
from calibrant._result import Estimate, Result, doc, result, with_ends
from calibrant._text import SIGNIFICANT, align_columns
from calibrant.metrics import _intervals as means
from calibrant.metrics import _scores as scores
from calibrant.metrics._binary import SHOWN, BinarySummary, summarise_rows
from calibrant.metrics._calibration_error import BIN_STRATEGIES, check_bins, find_bins
from calibrant.metrics._significance import Draws, test_problem
from calibrant.metrics._table import METRICS, OWN_STRATEGY, headline, metrics_of
from calibrant.metrics._unbinned import holm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from calibrant._predictions import Source
    from calibrant._types import Floats, Label, Labels
    from calibrant.metrics._intervals import Seed
    from calibrant.scale import Chunks

LARGEST_SHARE = 0.8
"""Share of a class above which accuracy comes last: to predict that class is as accurate."""

GROUP_METRICS = ("accuracy", "negative_log_likelihood", "brier_score")
"""Metrics of a group, beside its calibration error."""

NONE_HOLDS = frozenset({"confidence_ece", "classwise_ece", "thresholded_ece"})
"""Errors for which intervals were tried: docs/evidence/intervals.md."""

FEW_ROWS = 100  # number of rows below which a group says little

FEWEST_RESAMPLES, RESAMPLES_PER_GROUP = 1000, 25
"""Resamples of the test of each group: Holm's correction for many groups needs small p-values."""

MOST_PRINTED = 20  # number of groups that are printed


@result()
class GroupMetrics:
    """One group of a :class:`GroupTable`."""

    group: Label
    n_rows: int
    estimates: dict[str, Estimate] = doc("Estimate of each metric, by its name.")
    p_value: float = doc("P-value of the test of calibration; NaN without resamples.")
    adjusted_p_value: float = doc("P-value after Holm's correction for the number of groups.")
    excess: float = doc("Calibration error minus its mean under calibration.")

    @property
    def has_few_rows(self) -> bool:
        """Whether there are fewer than 100 rows, which say little."""
        return self.n_rows < FEW_ROWS

    def row(self) -> dict[str, object]:
        """Return all numbers by name, as a row of a table."""
        return {
            "group": self.group,
            "n_rows": self.n_rows,
            **with_ends(self.estimates),
            "p_value": self.p_value,
            "adjusted_p_value": self.adjusted_p_value,
            "excess": self.excess,
            "has_few_rows": self.has_few_rows,
        }


@result()
class GroupTable(Result):
    """Metrics by group, the worst first; ``print`` shows a table.

    Worse is a group whose error is more than chance at the level of 5 % after Holm's correction,
    then one with rows enough, then one whose calibration error exceeds by more what calibrated
    predictions like these would have.
    """

    rows: tuple[GroupMetrics, ...] = doc("Metrics of each group.")
    metric: str = doc("Name of the calibration error that is tested.")

    @property
    def worst(self) -> object:
        """Name of the worst group."""
        return self.rows[0].group

    def __iter__(self) -> Iterator[GroupMetrics]:
        return iter(self.rows)

    def to_dict(self) -> dict[str, object]:
        """Return the fields as plain numbers; ``rows`` make a data frame."""
        return {"metric": self.metric, "worst": self.worst, "rows": [g.row() for g in self.rows]}

    def __str__(self) -> str:
        rows = [["group", "rows", "NLL", METRICS[self.metric].title, "interval", "p (Holm)", ""]]
        for g in self.rows[:MOST_PRINTED]:
            nll, error = g.estimates["negative_log_likelihood"], g.estimates[self.metric]
            interval = "" if math.isnan(error.low) else f"{error.low:.4f} to {error.high:.4f}"
            p_value = "-" if math.isnan(g.p_value) else f"{g.adjusted_p_value:.3g}"
            numbers = [f"{g.n_rows}", f"{nll.value:.4f}", f"{error.value:.4f}", interval, p_value]
            rows.append([errors.in_words(g.group), *numbers, "few rows" * g.has_few_rows])
        n_left = len(self.rows) - MOST_PRINTED
        return "\n".join(
            [*align_columns(rows), *[f"and {n_left} more: to_dict() has all"] * (n_left > 0)]
        )


@result()
class Evaluation(Result):
    """Result of :func:`evaluate`: each metric as (value, low, high); ``print`` shows a table."""

    accuracy: Estimate
    negative_log_likelihood: Estimate
    brier_score: Estimate
    confidence_ece: Estimate
    classwise_ece: Estimate
    thresholded_ece: Estimate
    n_rows: int
    n_classes: int
    n_bins: int
    n_resamples: int
    confidence_level: float = doc("Confidence level of the intervals.")
    positive_ece: Estimate | None = doc("Error of the positive class of two.", default=None)
    ranked_probability_score: Estimate | None = doc("RPS of ordered classes.", default=None)
    by_group: GroupTable | None = doc("Metrics of each group, if groups were given.", default=None)
    binary: BinarySummary | None = doc(
        "AUC, predicted over observed positives, slope and intercept of two classes.", default=None
    )
    largest_share: float = doc(
        "Share of the most frequent class; NaN of over 1,024.", default=math.nan
    )
    strategy: str | None = doc("Bins of pos-ECE and conf-ECE, if given.", default=None)
    n_sampled: int | None = doc(
        "Rows that metrics and intervals which need an order were computed from, if not all.",
        default=None,
    )
    missing: tuple[str, ...] = doc("Why intervals are missing, a sentence each.", default=())

    def to_dict(self) -> dict[str, object]:
        """Return the fields as plain numbers."""
        rare = {"by_group", "binary"}  # which are left out where there are none
        fields = Result.to_dict(self)
        return {name: own for name, own in fields.items() if own is not None or name not in rare}

    def estimates(self) -> dict[str, Estimate]:
        """Return the metrics by name, in the order of the table."""
        is_ordered = self.ranked_probability_score is not None
        names = [*metrics_of(self.n_classes, ordered=is_ordered)]
        if self.largest_share > LARGEST_SHARE:
            names.append(names.pop(names.index("accuracy")))
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        # Two classes are first judged by numbers of their own.
        first = {} if self.binary is None else self.binary.estimates()
        rows = {SHOWN[name][0]: estimate for name, estimate in first.items()}
        rows |= {METRICS[name].title: estimate for name, estimate in self.estimates().items()}
        width = 20 if first else 10
        level = f"   {f'{100 * self.confidence_level:g} % interval':>20}"
        lines = [f"{'metric':<{width}}{'value':>10}{level if self.n_resamples else ''}"]
        for title, (value, low, high) in rows.items():
            text = "-" if math.isnan(value) else f"{value:.5f}"
            has_none = math.isnan(low) or not self.n_resamples
            ends = "" if has_none else f"   {low:>9.5f}  {high:>9.5f}"
            lines.append(f"{title:<{width}}{text:>10}{ends}")
        lines += [f"{self.n_rows} rows, {self.n_classes} classes", *self.missing]
        if self.n_sampled is not None:
            lines.append(
                f"Bins of equal mass, TECE and intervals of errors are of {self.n_sampled:,} rows, "
                "sampled by content."
            )
        if self.binary is not None:
            lines += [*self.binary.missing, *self.binary.describe()]
        return "\n".join(lines if self.by_group is None else [*lines, "", str(self.by_group)])


def evaluate(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] | None = None,
    ordered: bool = False,
    groups: ArrayLike | None = None,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> Evaluation:
    """Compute every metric, with intervals of those whose intervals hold.

    Of two classes ``binary`` of the result is their :func:`binary_summary`, and ``print`` says in
    words what is wrong with the predictions.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,), Predictions or Chunks
        True labels, or one-hot rows; or predictions with their labels.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    n_bins : int, default=15
        Number of bins.
    strategy : {None, "uniform", "quantile"}, default=None
        Bins of pos-ECE and conf-ECE: of equal width or of equal mass. None is equal mass for the
        first and equal width for the second.
    ordered : bool, default=False
        Whether the classes are ordered, such as grades; adds the ranked probability score.
    groups : array-like of shape (n_rows,), optional
        Group of each row, without missing values. ``by_group`` of the result then has accuracy,
        NLL, Brier score and calibration error of each group, and a test of calibration, corrected
        for the number of groups.
    n_resamples : int, default=1000
        Number of draws behind the interval of the calibration error; 0 for no intervals at all.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    random_state : None, int, SeedSequence or Generator, default=0
        Seed of the random numbers.
    n_jobs : int, optional
        Number of threads; results do not depend on it. -1 means all cores, -2 all but one, None the
        setting of ``joblib.parallel_config``, else 1.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all; in intervals it is one row
        that counts double.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y_true`` lacks a class. For a single column: the negative
        and the positive label.
    pos_label : object, optional
        Label of the class of a single column. Not needed for 0 and 1, -1 and 1, or False and True,
        where it is the larger one.

    Returns
    -------
    Evaluation
        Each metric as (value, low, high).

    Warns
    -----
    ColumnMismatchWarning
        If another assignment of columns to the most frequent classes would raise the accuracy by
        more than 20 points, and more than chance. Not checked for more than 1,024 classes.

    Notes
    -----
    NLL, Brier score and RPS have Student's interval on a logarithmic scale, with the variance of
    the rows or that of labels drawn from temperature-scaled predictions, whichever is larger. The
    calibration error by which predictions are judged (pos-ECE of two classes, conf-ECE of more) is
    larger than the true error on average, because chance adds to it; its interval is of the true
    error and may end below the value. cw-ECE, TECE and conf-ECE of two classes have no interval,
    because none that was tried holds: docs/evidence/intervals.md. Of chunks, what needs an order is
    computed from a sample of ``n_sampled`` rows.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics import evaluate
    >>> honest, y = simulated_scores(2000, power=1)
    >>> result = evaluate(y, honest)
    >>> result.accuracy.low < result.accuracy.value < result.accuracy.high
    True
    >>> round(result.negative_log_likelihood.value, 3)
    0.838
    >>> by_group = evaluate(y, honest, groups=["a", "b"] * 1000).by_group
    >>> len(by_group.rows), min(group.adjusted_p_value for group in by_group) > 0.05
    (2, True)
    """
    check_bins(n_bins)
    gate.check_option("strategy", strategy, (None, *BIN_STRATEGIES))
    gate.check_option("ordered", ordered, (True, False))
    gate.check_number("n_resamples", n_resamples, low=0, whole=True)
    means.check_level(confidence_level)
    threads.check_jobs("n_jobs", n_jobs)
    source = source_of(y_true, y_proba, sample_weight, classes, pos_label)
    n_classes = len(source.classes)
    if ordered:
        scores.warn_of_alphabet(source.classes)
    level = float(confidence_level) if n_resamples > 0 else None
    intervals = Intervals(int(n_bins), strategy, level, int(n_resamples), random_state)
    with threads.jobs(n_jobs), threads.few_blas_threads(0):
        by_group = None
        if groups is not None:
            check_beside(y_true, y_proba, groups, "groups")
            by_group = judge_groups(source, groups, sample_weight, intervals)
        names = [*metrics_of(n_classes, ordered=ordered)]
        estimates, confusion = intervals.estimates(source, names)
    largest_share = math.nan
    if confusion is not None:
        warn_of_mismatch(confusion, source.classes)
        by_class = confusion[..., 0].sum(axis=1)
        largest_share = float(by_class.max() / by_class.sum())
    rows = source.in_memory()
    return Evaluation(
        **estimates,
        n_rows=rows.n_rows if rows.n_counted is None else rows.n_counted,
        n_classes=n_classes,
        n_bins=int(n_bins),
        n_resamples=int(n_resamples),
        confidence_level=float(confidence_level),
        by_group=by_group,
        binary=summarise_rows(rows, float(confidence_level)) if n_classes == 2 else None,
        largest_share=largest_share,
        strategy=strategy,
        n_sampled=None if rows.n_counted is None else rows.n_rows,
        missing=_why_missing(estimates, headline(n_classes).id) if level else (),
    )


def _why_missing(estimates: dict[str, Estimate], error: str) -> tuple[str, ...]:
    """Say which metrics have no interval, and why."""
    without = [name for name, estimate in estimates.items() if math.isnan(estimate.low)]
    reasons: dict[str, list[str]] = {}
    for name in without:
        if name == error or isinstance(METRICS[name].measure, scores.RowMean):
            why = "these rows have too few errors, or none"
        elif name in NONE_HOLDS:
            why = "none that was tried holds with few rows"
        else:
            why = "none was tried"
        reasons.setdefault(why, []).append(METRICS[name].title)
    return tuple(f"No interval of {', '.join(own)}: {why}." for why, own in reasons.items())


@dataclass(frozen=True)
class Confusion(Statistic):
    """Weight and number of rows of every (label, prediction): (n_classes, n_classes, 2)."""

    def sums(self, rows: Predictions) -> Floats:
        """Return both."""
        k = rows.n_classes
        cell = rows.class_index * k + rows.rows.argmax(axis=1)
        parts = (np.bincount(cell, weight, k * k) for weight in (rows.weight, None))
        return np.stack([*parts], axis=1).reshape(k, k, 2).astype(np.float64)


def warn_of_mismatch(confusion: Floats, classes: Labels) -> None:
    """Warn if the labels fit other columns better, by the sums of ``Confusion``."""
    mismatch = gate.find_mismatch(confusion[..., 0], confusion[..., 1].sum(axis=1), classes)
    if mismatch is not None:
        notices.warn(mismatch)


@dataclass(frozen=True)
class Intervals:
    """Options of metrics and their intervals; a ``level`` of None is no intervals."""

    n_bins: int
    strategy: Literal["uniform", "quantile"] | None
    level: float | None
    n_resamples: int
    random_state: Seed

    def estimates(
        self, source: Source, names: list[str]
    ) -> tuple[dict[str, Estimate], Floats | None]:
        """Return some metrics, each with its interval if it has one, and the sums of ``Confusion``.

        There are none of the latter for very many classes.
        """
        rules = {name: METRICS[name].rule(self.n_bins, self.strategy) for name in names}
        counted = {name: rule for name, rule in rules.items() if isinstance(rule, Statistic)}
        if len(source.classes) <= gate.MOST_CLASSES_CROSSED:
            counted["confusion"] = Confusion()
        sums = source.add_up(counted)  # one pass over all rows
        confusion = sums.get("confusion")
        result = {
            name: Estimate(
                rule.value(sums[name]) if isinstance(rule, Statistic) else rule(source.in_memory())
            )
            for name, rule in rules.items()
        }
        if self.level is None:
            return result, confusion
        rows = source if isinstance(source, Predictions) else None
        labels = None if rows is None else means.model_labels(rows)
        row_means = {name: rule for name, rule in rules.items() if isinstance(rule, scores.RowMean)}
        for name, rule in row_means.items():
            mean, error, n_equal = means.mean_and_error(rule, sums[name], rows, labels)
            if isinstance(rule, scores.Accuracy):
                result[name] = means.share_interval(mean, n_equal, self.level)
            else:
                largest = 1.0 if name in ("brier_score", "ranked_probability_score") else math.inf
                result[name] = means.log_interval(mean, error, n_equal, self.level, largest)
        name, kept = headline(len(source.classes)).id, source.in_memory()
        if means.tell_enough(kept):
            events = kept.events(usual_column(kept.n_classes))
            _, low, high = means.error_interval(
                events,
                find_bins(
                    events, self.n_bins, self.strategy or OWN_STRATEGY[usual_column(kept.n_classes)]
                ),
                self.n_bins,
                level=self.level,
                n_resamples=self.n_resamples,
                random_state=self.random_state,
            )
            result[name] = Estimate(result[name].value, low, high)
        return result, confusion


def judge_groups(
    source: Source, groups: object, sample_weight: object, intervals: Intervals
) -> GroupTable:
    """Judge the rows of each group by themselves, and test whether they are calibrated."""
    if not isinstance(source, Predictions):
        raise errors.ContainerError(
            "y_proba is in chunks, which groups= does not support; compute it, or evaluate the "
            "rows of each group separately"
        )
    if sample_weight is not None:  # rows without a weight are not there
        groups = np.asarray(groups)[np.asarray(sample_weight) > 0]
    names, codes = gate.read_groups(groups, source.n_rows)
    metric = headline(source.n_classes).id
    n_draws = max(FEWEST_RESAMPLES, RESAMPLES_PER_GROUP * len(names))
    judged = []
    for g in np.unique(codes).tolist():
        rows = source.take(codes == g)
        p_value = excess = math.nan
        if intervals.n_resamples > 0:
            # Drawing labels alone is exact also of fewer rows than there are bins.
            draws = Draws(rows.n_rows, n_draws, intervals.random_state, replace=False)
            problem = "positive" if rows.n_classes == 2 else "confidence"
            test = test_problem(rows, problem, intervals.n_bins, intervals.strategy, draws)
            p_value, excess = test.p_value, test.statistic - test.null_mean
        estimates, _ = intervals.estimates(rows, [*GROUP_METRICS, metric])
        name = names[g : g + 1].tolist()[0]
        judged.append(GroupMetrics(name, rows.n_rows, estimates, p_value, p_value, excess))
    adjusted = holm(np.array([group.p_value for group in judged])).tolist()
    judged = [replace(g, adjusted_p_value=p) for g, p in zip(judged, adjusted, strict=True)]

    def place(group: GroupMetrics) -> tuple[bool, bool, float]:
        error = group.estimates[metric].value if math.isnan(group.excess) else group.excess
        return not group.adjusted_p_value <= SIGNIFICANT, group.has_few_rows, -error

    return GroupTable(tuple(sorted(judged, key=place)), metric)
