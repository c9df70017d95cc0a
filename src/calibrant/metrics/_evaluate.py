"""``evaluate``: every metric at once, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant.metrics._bins import check_bins
from calibrant.metrics._counted import classes_of, counted, read
from calibrant.metrics._evaluation import evaluated_bodies, judge_states, usual_groups
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._predictions import Predictions
from calibrant.metrics._statistics import MetricStatistics
from calibrant.metrics._table import metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.metrics._evaluation import Evaluation


@inherit_parameters
def evaluate(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
    n_resamples: int = 200,
    confidence_level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Compute every metric, each with a bootstrap interval.

    Parameters
    ----------
    progress : callable, optional
        Called as ``progress(done, total)`` while rows in memory are read and drawn.

    Returns
    -------
    Evaluation
        Each metric as (value, low, high).

    Warns
    -----
    ColumnMismatchWarning
        If another assignment of columns to the most frequent classes (at most 100, with 20 rows
        or more) would raise the accuracy in their n rows by more than 20 points, and 200 / sqrt(n)
        on top against chance: the columns may be in another order than the labels. Of more than
        1,024 classes this is not counted.

    Notes
    -----
    Intervals are basic (reverse percentile): from 2 v - q_high to 2 v - q_low, with v the value
    and q the quantiles over resamples; then clipped to the range of the metric, and widened to
    hold v where they do not. A calibration error is biased upwards, and on resamples once more:
    the plain percentile interval lies too high, often above v itself; the reflected one corrects
    for it, so that v tends to be near its upper end. How often they hold is in docs/metrics.md.
    Near perfect calibration no bootstrap of an absolute value works, and these do not hold it
    either: ask :func:`calibration_test` whether the error is more than chance.

    Rows are dealt at random to 64 groups (fewer from 600 classes on), and resamples draw groups,
    which weigh the sums that the metrics are made of. Intervals are as wide on average as if rows
    were drawn, and each within about a tenth, which is what 200 resamples of rows are off by as
    well. Which group a row is in depends on the rows that are read with it, not on their order:
    other chunks change intervals as another ``random_state`` would.

    Dask collections and ``Chunks`` are read once. Their values are those of arrays, to 1e-9, but
    for ``thresholded_ece`` of more than some 500,000 distinct predictions, which is binned:
    ``binning_error`` bounds what that may have changed.

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
    """
    check_bins(n_bins)
    simplex.check_number("n_resamples", n_resamples, low=0, whole=True)
    simplex.check_number("confidence_level", confidence_level, low=0.0, high=1.0)
    threads.check_jobs("n_jobs", n_jobs)
    options = {"n_resamples": int(n_resamples), "random_state": random_state}
    options["confidence_level"] = float(confidence_level)
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    known = classes_of(source)
    n_groups = usual_groups(len(known), int(n_bins)) if n_resamples > 0 else 1
    with threads.jobs(n_jobs):
        if not isinstance(source, Predictions):
            empty = MetricStatistics(known, n_bins=int(n_bins), n_groups=n_groups)
            return counted(source[0], empty).solve(**options)
        bodies = evaluated_bodies(len(known), int(n_bins))
        n_steps = len(list(simplex.chunks(len(source.matrix), len(known))))
        n_steps += len(metrics_of(len(known))) if n_resamples else 0
        done = iter(range(1, n_steps + 1))

        def tell() -> None:
            if progress is not None:
                progress(next(done), n_steps)

        states = dict(zip(bodies, source.add_up(bodies.values(), n_groups, tell), strict=True))
        return judge_states(
            states, known, n_bins=int(n_bins), n_rows=source.n_rows, tell=tell, **options
        )
