"""Every metric from one pass over the rows: ``evaluate``, and ``MetricStatistics`` of chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._docstrings import inherit_parameters
from calibrant.metrics import _table as table
from calibrant.metrics._calibration_error import check_bins
from calibrant.metrics._cumulative import ClassMoments, class_shares, judge_shares
from calibrant.metrics._groups import group_metrics, judge_groups
from calibrant.metrics._measures import usual_column
from calibrant.metrics._predictions import Predictions
from calibrant.metrics._reading import CountedRows, describe, of_predictions
from calibrant.metrics._resampling import Bootstrap, generator
from calibrant.metrics._scores import warn_of_alphabet
from calibrant.metrics._significance import BinMoments, calibration_test, judge_sums, tested_metric

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.metrics._cumulative import ClassShares
    from calibrant.metrics._reading import Source
    from calibrant.metrics._result import Estimate
    from calibrant.metrics._significance import CalibrationTest
    from calibrant.metrics._table import Evaluation


@of_predictions
def evaluate(
    predictions: Source,
    *,
    n_bins: int = 15,
    ordered: bool = False,
    n_resamples: int = 200,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    groups: Any = None,
) -> Evaluation:
    """Compute every metric, each with a bootstrap interval.

    Parameters
    ----------
    groups : array-like of shape (n_rows,), optional
        Group of each row, without missing values. ``by_group`` of the result then has accuracy,
        NLL, Brier score and calibration error of each group, and a test of calibration, corrected
        for the number of groups.
    ordered : bool, default=False
        Whether the classes are ordered, such as grades; adds the ranked probability score.
    progress : callable, optional
        Called as ``progress(done, total)`` while rows in memory are read and drawn.

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
    Intervals are basic (reverse percentile): from 2 v - q_high to 2 v - q_low, with v the value
    and q the quantiles over resamples; then clipped to the range of the metric, and widened to
    hold v where they do not. So they correct for the bias of calibration errors, which is upwards,
    and on resamples once more. Near perfect calibration they do not hold: ask
    :func:`calibration_test` whether an error is more than chance.

    Rows are dealt at random to 64 groups (fewer from 600 classes on), and resamples draw groups.
    Other chunks change intervals as another ``random_state`` would; values of chunks are those of
    arrays, to 1e-9 and ``binning_error``. How often intervals hold:
    docs/evidence/intervals.md.

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
    simplex.check_option("ordered", ordered, (True, False))
    bootstrap = Bootstrap(n_resamples, confidence_level, random_state, n_jobs)
    n_resamples, confidence_level = bootstrap.settings
    options: dict[str, Any] = {"n_resamples": n_resamples, "random_state": random_state}
    options["confidence_level"] = confidence_level
    classes = predictions.classes
    if ordered:
        warn_of_alphabet(classes)
    n_groups = table.usual_groups(len(classes), int(n_bins)) if n_resamples > 0 else 1
    with threads.jobs(n_jobs):
        if groups is not None:

            def judge(rows: Predictions) -> dict[str, Estimate]:
                bodies = {n: own.body(len(classes), int(n_bins)) for n, own in wanted.items()}
                return table.estimates_of(rows.add_up(bodies, n_groups), **options)

            wanted = group_metrics(len(classes))
            drawn = {"n_bins": n_bins, "random_state": random_state}
            by_group = judge_groups(predictions, groups, judge, n_resamples, **drawn)
            options |= {"ordered": ordered, "n_bins": n_bins}
            whole = evaluate(None, predictions, **options, progress=progress)
            return replace(whole, by_group=by_group)
        if not isinstance(predictions, Predictions):
            sizes: dict[str, Any] = {"n_bins": int(n_bins), "n_groups": n_groups}
            empty = MetricStatistics(classes, ordered=ordered, **sizes)
            return predictions.counted(empty).solve(**options)
        n_steps = len(list(simplex.chunks(len(predictions.matrix), len(classes))))
        n_steps += len(table.metrics_of(len(classes), ordered=ordered)) if n_resamples else 0
        done = iter(range(1, n_steps + 1))

        def tell() -> None:
            if progress is not None:
                progress(next(done), n_steps)

        bodies = table.evaluated_bodies(len(classes), int(n_bins), ordered=ordered)
        states = predictions.add_up(bodies, n_groups, tell)
        options |= {"n_bins": int(n_bins), "n_rows": predictions.n_rows}
        return table.judge_states(states, classes, tell=tell, **options)


class MetricStatistics(CountedRows):
    """Sums over rows from which every metric can be computed; they can be added and merged.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        Label of each column.
    scores : {"probabilities", "logits"}, default="probabilities"
        Kind of the scores; the softmax of logits is evaluated.
    normalize : {None, "rows"}, default=None
        "rows" divides rows by their sums.
    n_bins : int, default=15
        Number of bins of the calibration errors.
    ordered : bool, default=False
        Whether the classes are ordered; adds the ranked probability score.
    n_groups : int, default=64
        Number of groups that are resampled for intervals; 1 for no intervals.

    Attributes
    ----------
    n_rows : int
        Number of rows counted so far, without rows of weight 0.
    weight : float
        Total weight of these rows.

    Notes
    -----
    Sums over chunks are ordinary double sums: the same chunks, merged in the same order, give the
    same bits, and other chunks values that agree to 1e-9. Intervals are those of :func:`evaluate`.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics import MetricStatistics
    >>> scores, y = simulated_scores(2000)
    >>> monday = MetricStatistics([0, 1, 2]).update(scores[:900], y[:900])
    >>> tuesday = MetricStatistics([0, 1, 2]).update(scores[900:], y[900:])
    >>> result = MetricStatistics.from_bytes(monday.to_bytes()).merge(tuesday).solve()
    >>> round(result.accuracy.value, 3), result.n_rows
    (0.602, 2000)
    """

    method = "metrics"

    def __init__(
        self,
        classes: Any,
        *,
        scores: str = "probabilities",
        normalize: str | None = None,
        n_bins: int = 15,
        ordered: bool = False,
        n_groups: int = table.MOST_GROUPS,
    ) -> None:
        check_bins(n_bins)
        simplex.check_number("n_groups", n_groups, low=1, high=1024, whole=True)
        simplex.check_option("ordered", ordered, (True, False))
        own = {"n_bins": int(n_bins), "n_groups": int(n_groups), "ordered": bool(ordered)}
        super().__init__(classes, scores=scores, normalize=normalize, **own)

    def _counts(self) -> dict[str, Any]:
        n_classes, n_bins = self.n_classes, self.options["n_bins"]
        bodies = table.evaluated_bodies(n_classes, n_bins, ordered=self.options["ordered"])
        bodies["moments"] = BinMoments(n_bins, usual_column(n_classes))
        bodies["class moments"] = ClassMoments(n_classes)
        return describe(bodies)

    @inherit_parameters(evaluate)
    def solve(
        self,
        *,
        n_resamples: int | None = None,
        confidence_level: float = 0.95,
        random_state: Any = 0,
    ) -> Evaluation:
        """Return every metric of all rows counted so far, each with an interval.

        Parameters
        ----------
        n_resamples : int, optional
            Draws of the groups; 0 for no intervals. By default 200 if there are groups.
        """
        if self.n_rows == 0:
            raise errors.ShapeError("no rows were counted; count at least one")
        n_groups: int = self.options["n_groups"]
        if n_resamples is None:
            n_resamples = 200 if n_groups > 1 else 0
        Bootstrap(n_resamples, confidence_level, random_state, None)
        if n_resamples > 0 and n_groups == 1:
            raise errors.ParameterError(
                "these statistics have no groups of rows to resample, so n_resamples must be 0; "
                f"make them with n_groups={table.MOST_GROUPS}"
            )
        draws: dict[str, Any] = {
            "n_resamples": n_resamples,
            "random_state": generator(random_state),
        }
        draws["confidence_level"] = float(confidence_level)
        sizes = {"n_bins": self.options["n_bins"], "n_rows": self.n_rows}
        with self._solved():
            return table.judge_states(self.parts, self.classes, **sizes, **draws)

    @inherit_parameters(calibration_test)
    def calibration_test(
        self, *, n_resamples: int = 1000, random_state: Any = 0
    ) -> CalibrationTest:
        """Test whether the predictions of all rows counted so far are calibrated.

        Those of the positive class are tested if there are two classes, of more the confidence.
        """
        simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
        sums = self.parts[table.headline(self.n_classes).id], self.parts["moments"]
        draws: dict[str, Any] = {"n_resamples": int(n_resamples)}
        draws["random_state"] = generator(random_state)
        with self._solved():
            return judge_sums(tested_metric(None, self.n_classes), *sums, **draws)

    @inherit_parameters(class_shares)
    def class_shares(self) -> ClassShares:
        """Compare how often classes were predicted and came, of all rows counted so far."""
        sums = self.parts["classwise_ece"], self.parts["class moments"]
        with self._solved():
            return judge_shares(self.classes, *sums)
