"""``evaluate``: every metric at once, with intervals, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import notices, simplex, threads
from calibrant.kernels import resampling
from calibrant.kernels.metrics import add_confusion
from calibrant.metrics.bins import bin_edges, threshold_of, uniform_bins
from calibrant.metrics.chunk import deal_chunk, usual_column
from calibrant.metrics.confusion import complaint, frequent_classes
from calibrant.metrics.counted import counted, known_classes, read_chunks
from calibrant.metrics.evaluation import Evaluation, basic_interval
from calibrant.metrics.kernel_density import N_STEPS, bandwidth_rule, density_error
from calibrant.metrics.predictions import read_predictions, whole_masses
from calibrant.metrics.resampling import MOST_ROWS_DRAWN, Resamples, Steps
from calibrant.metrics.scores import chunk_losses, chunk_squares
from calibrant.metrics.statistics import MetricStatistics, drawn_by_group, usual_groups
from calibrant.metrics.table import metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.chunk import Chunk
    from calibrant.metrics.predictions import ClassCells, Predictions


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
    y_true, y_proba, classes, pos_label
        As in :func:`accuracy`.
    n_bins : int, default=15
        Bins of the binned calibration errors.
    sample_weight : array-like of shape (n_rows,), optional
        Weight 2 is the row twice in every value; the intervals draw it as one row.
    n_resamples : int, default=200
        Resamples of the rows; 0 for no intervals.
    confidence_level : float, default=0.95
        Of the intervals.
    random_state : None, int, SeedSequence or Generator, default=0
        Seeds the resamples.
    n_jobs : int, optional
        Threads for the resamples; their number changes no bit. -1 is all cores, -2 all but one.
        None is what ``joblib.parallel_config`` says, else 1.
    progress : callable, optional
        Called as ``progress(done, total)`` while intervals of rows in memory are computed.

    Returns
    -------
    Evaluation
        Each metric as (value, low, high).

    Warns
    -----
    ColumnMismatchWarning
        If another assignment of columns to the most frequent classes (at most 100, with 20 rows
        or more) would raise the accuracy in their n rows by more than 20 points, and 200 / sqrt(n)
        on top against chance: the columns may be in another order than the labels. Of chunks with
        more than 1,024 classes this is not counted.

    Notes
    -----
    Intervals are basic (reverse percentile): from 2 v - q_high to 2 v - q_low, with v the value
    and q the quantiles over resamples; then clipped to the range of the metric, and widened to
    hold v where they do not. A calibration error is biased upwards, and on resamples once more:
    the plain percentile interval lies too high, often above v itself; the reflected one corrects
    for it, so that v tends to be near its upper end. In simulations with predictions that are
    off, intervals of 95 % of accuracy, NLL and Brier score held the true value in 92 to 98 % of
    cases; of the errors of the positive class and of the confidence in 88 to 96 %; of the
    class-wise one in 90 to 96 %, but of 300 rows of five classes in 67 to 82 % (docs/metrics.md).
    TECE's, with 2,000 rows of five classes, held in 72 % or more. Near
    perfect calibration no bootstrap of an absolute value works, and these do not hold it either:
    ask :func:`calibration_test` whether the error is more than chance.

    Of more than 50,000 rows, intervals draw 64 groups of rows (fewer from 600 classes on) instead
    of rows, which takes as long as a few resamples: they are as wide on average, and each within
    about a tenth, which is what 200 resamples of rows are off by as well.

    Dask collections and ``Chunks`` are read once. Their values are those of arrays, to 1e-12, but
    for ``thresholded_ece`` of more than some 500,000 distinct predictions, which is binned:
    ``binning_error`` bounds what that may have changed. Their intervals draw groups, whatever the
    number of rows; how rows were cut into chunks changes them as another ``random_state`` would.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics.evaluate import evaluate
    >>> honest, y = simulated_scores(2000, power=1)
    >>> result = evaluate(y, honest)
    >>> result.accuracy.low < result.accuracy.value < result.accuracy.high
    True
    >>> round(result.negative_log_likelihood.value, 3)
    0.838
    """
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_number("n_resamples", n_resamples, low=0, whole=True)
    simplex.check_number("confidence_level", confidence_level, low=0.0, high=1.0)
    threads.check_jobs("n_jobs", n_jobs)
    chunks = read_chunks(y_true, y_proba, sample_weight)
    if chunks is not None:
        known = known_classes(chunks, classes, pos_label)
        n_groups = usual_groups(len(known), int(n_bins)) if n_resamples > 0 else 1
        empty = MetricStatistics(known, n_bins=int(n_bins), n_groups=n_groups)
        with threads.jobs(n_jobs):
            statistics = counted(chunks, empty)
        return statistics.solve(
            n_resamples=int(n_resamples),
            confidence_level=float(confidence_level),
            random_state=random_state,
        )
    predictions = read_predictions(y_true, y_proba, sample_weight, classes, pos_label=pos_label)
    metrics = metrics_of(predictions.n_classes)
    measures = [metric.accumulator(predictions, int(n_bins)) for metric in metrics.values()]
    values = predictions.measure(*measures)
    _warn_about_columns(predictions)
    replicates: dict[str, Floats] = {}
    if n_resamples > 0:
        draw = _draw_groups if predictions.n_rows > MOST_ROWS_DRAWN else _draw_rows
        with threads.jobs(n_jobs):
            replicates = draw(
                predictions,
                int(n_bins),
                int(n_resamples),
                float(confidence_level),
                random_state,
                progress,
            )
    estimates: dict[str, Any] = {
        name: basic_interval(value, replicates.get(name), float(confidence_level), metric.largest)
        for (name, metric), value in zip(metrics.items(), values, strict=True)
    }
    return Evaluation(
        **estimates,
        n_rows=predictions.n_rows,
        n_classes=predictions.n_classes,
        n_bins=int(n_bins),
        n_resamples=int(n_resamples),
        confidence_level=float(confidence_level),
    )


def _draw_rows(
    predictions: Predictions,
    n_bins: int,
    n_resamples: int,
    _: float,
    random_state: Any,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Floats]:
    """Return each metric, by its name, of rows drawn with replacement."""
    sizes = predictions.sizes()
    resamples = Resamples(sizes, n_resamples, random_state)
    resamples.tell = Steps(progress, n_resamples * (len(sizes) + 1)).step
    return bootstrap(predictions, resamples, n_bins)


def _draw_groups(
    predictions: Predictions,
    n_bins: int,
    n_resamples: int,
    level: float,
    random_state: Any,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Floats]:
    """Return each metric, by its name, of groups of rows drawn with replacement."""
    metrics = metrics_of(predictions.n_classes)
    measures = {name: own.start(predictions.n_classes, n_bins) for name, own in metrics.items()}
    n_groups = usual_groups(predictions.n_classes, n_bins)
    steps = Steps(progress, len(predictions.sizes()) + len(measures))
    for chunk in predictions.chunks():
        rows = deal_chunk(chunk, n_groups)
        for measure in measures.values():
            measure.add_rows(rows)
        steps.step()
    return drawn_by_group(measures, n_groups, n_resamples, level, random_state, steps.step)


def _warn_about_columns(predictions: Predictions) -> None:
    """Warn if the most frequent classes fit other columns far better than their own."""
    counts = np.bincount(predictions.class_index, minlength=predictions.n_classes)
    frequent = frequent_classes(counts)
    slot = np.full(predictions.n_classes, -1, dtype=np.int64)
    slot[frequent] = np.arange(len(frequent))
    confusion = np.zeros((len(frequent), len(frequent)))
    weight = 0.0
    for chunk in predictions.chunks():
        add_confusion(chunk.rows, chunk.class_index, chunk.weight, slot, confusion)
        weight += float(chunk.weight[slot[chunk.class_index] >= 0].sum())
    found = complaint(confusion, weight, counts, frequent, predictions.classes)
    if found is not None:
        notices.warn(found)


def bootstrap(predictions: Predictions, resamples: Resamples, n_bins: int) -> dict[str, Floats]:
    """Return each metric, by its name, on each resample.

    Rows are drawn with their weights. Sums are plain doubles here: draws are random anyway.
    """
    bytes_each = 8 * (predictions.n_classes * n_bins + 2 * 2 * (N_STEPS + 1))
    parts = [
        _bootstrap_block(predictions, resamples, block, n_bins)
        for block in resamples.blocks(bytes_each)
    ]
    replicates = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    replicates["thresholded_ece"] = _bootstrap_thresholded(predictions, resamples, n_bins)
    return replicates


def _bootstrap_block(
    predictions: Predictions, resamples: Resamples, block: range, n_bins: int
) -> dict[str, Floats]:
    n_classes = predictions.n_classes
    sums = {
        column: DrawnSums(len(block), n_bins)
        for column in dict.fromkeys((None, usual_column(n_classes)))
    }
    class_gaps = np.zeros((len(block), n_classes, n_bins))
    edges = bin_edges(n_bins)
    for c, chunk in enumerate(predictions.chunks()):
        _add_draws(resamples, block, c, chunk, edges, sums, class_gaps)
    of_top, of_usual = sums[None], sums[usual_column(n_classes)]
    weight = of_top.row_sums[:, 0]
    found = {
        "accuracy": of_top.row_sums[:, 1] / weight,
        "negative_log_likelihood": of_top.row_sums[:, 2] / weight,
        "brier_score": of_top.row_sums[:, 3] / weight,
        "positive_ece": np.abs(of_usual.gaps).sum(axis=1) / weight,
        "confidence_ece": np.abs(of_top.gaps).sum(axis=1) / weight,
        "classwise_ece": np.abs(class_gaps).sum(axis=(1, 2)) / n_classes / weight,
        "kernel_density_ece": of_usual.densities(predictions.unit),
    }
    return {name: found[name] for name in metrics_of(n_classes) if name in found}


class DrawnSums:
    """Sums over the rows of some resamples, of a number of each row: its confidence, or a class."""

    def __init__(self, n_resamples: int, n_bins: int) -> None:
        self.row_sums = np.zeros((n_resamples, 6))
        self.gaps = np.zeros((n_resamples, n_bins))
        self.grid = np.zeros((n_resamples, N_STEPS + 1, 2))

    def densities(self, unit: float) -> Floats:
        """Return the KDE-ECE of each resample."""
        return np.array(
            [
                density_error(nodes, bandwidth_rule(own[0] * unit, own[1], own[4], own[5]))
                for own, nodes in zip(self.row_sums, self.grid, strict=True)
            ]
        )


def _add_draws(
    resamples: Resamples,
    block: range,
    c: int,
    chunk: Chunk,
    edges: Floats,
    sums: dict[int | None, DrawnSums],
    class_gaps: Floats,
) -> None:
    """Add the rows of the ``c``-th chunk, as they are drawn, to the sums of each resample."""
    losses, squares = chunk_losses(chunk), chunk_squares(chunk)
    cells = uniform_bins(chunk.rows, edges)
    problems = []
    for column, own in sums.items():
        values, hits, _ = chunk.problem(column)
        problems.append((own, values, hits, uniform_bins(values, edges)))

    def add(r: int) -> None:
        at, mass = r - block.start, resamples.counts(r, c) * chunk.weight
        for own, values, hits, bins in problems:
            resampling.add_row_draws(
                mass,
                values,
                hits,
                losses,
                squares,
                bins,
                own.row_sums[at],
                own.gaps[at],
                own.grid[at],
            )
        resampling.add_class_gaps(chunk.rows, cells, mass, class_gaps[at])
        resampling.subtract_labels(chunk.class_index, cells, mass, class_gaps[at])

    resamples.each(add, block)


def _bootstrap_thresholded(predictions: Predictions, resamples: Resamples, n_bins: int) -> Floats:
    """TECE of each resample: cells are sorted once, bins of equal mass move with the draws."""
    mass = None
    if predictions.weight is not None:
        # A draw can have the largest weight, at most 1, in each of its rows.
        repeats = 2.0 * n_bins * predictions.n_rows / float(predictions.weight.sum())
        mass = whole_masses(predictions.weight, repeats)
    total = np.zeros(resamples.n_resamples)
    n_present = np.zeros(resamples.n_resamples)
    for cells in predictions.cells_by_class(threshold_of(predictions.n_classes)):
        hits = predictions.class_index[cells.row_of] == np.repeat(
            cells.classes, np.diff(cells.starts)
        )
        _add_mass_errors(resamples, cells, hits, mass, n_bins, total, n_present)
    return total / n_present


def _add_mass_errors(
    resamples: Resamples,
    cells: ClassCells,
    hits: NDArray[np.bool_],
    mass: Wholes | None,
    n_bins: int,
    total: Floats,
    n_present: Floats,
) -> None:
    """Add the errors of some classes in each resample, and how many have one."""

    def add(r: int) -> None:
        drawn = resamples.all_counts(r)
        if mass is not None:
            drawn *= mass
        by_class = np.empty(len(cells.classes))
        resampling.resampled_mass_errors(
            cells.values, cells.row_of, hits, cells.starts, drawn, n_bins, by_class
        )
        present = by_class >= 0.0
        total[r] += by_class[present].sum()
        n_present[r] += np.count_nonzero(present)

    resamples.each(add, range(resamples.n_resamples))
