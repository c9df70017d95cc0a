"""``MetricStatistics``: every metric of rows in chunks, from one pass over them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri, stdtrit

from calibrant import errors, notices, simplex
from calibrant.metrics.chunk import usual_column
from calibrant.metrics.confusion import TABLE_CLASSES, Confusion
from calibrant.metrics.counted import MeasuredRows, RowStatistics, describe
from calibrant.metrics.evaluation import Evaluation, basic_interval
from calibrant.metrics.kernel_density import N_STEPS
from calibrant.metrics.mass_cells import A_GROUP
from calibrant.metrics.normal_null import BinMoments
from calibrant.metrics.resampling import generator
from calibrant.metrics.shares import ClassMoments, ClassShares, judge_shares
from calibrant.metrics.significance import CalibrationTest, judge_problem, tested_metric
from calibrant.metrics.table import METRICS, headline, metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.random import Generator

    from calibrant.maps.base import Floats, Wholes
    from calibrant.metrics.measures import Counts, Measure
    from calibrant.scale.parts import Part

MOST_GROUPS, FEWEST_GROUPS = 64, 8
GROUP_BYTES = 60 << 20
"""Sums of all groups, for weights of one size."""


def usual_groups(n_classes: int, n_bins: int) -> int:
    """Return how many groups rows are dealt to for intervals: fewer if there are many classes."""
    n_bytes = 16 * (3 * n_classes * n_bins + 2 * (N_STEPS + 1)) + 64 * A_GROUP * n_classes
    return min(max(GROUP_BYTES // n_bytes, FEWEST_GROUPS), MOST_GROUPS)


def _stretch(n_groups: int, level: float) -> float:
    """Return how much wider than their draws the intervals of few groups are, by Student's rule."""
    if n_groups < 2:
        return 1.0
    wider = 1.0
    if 0.0 < level < 1.0:
        wider = stdtrit(n_groups - 1, (1.0 + level) / 2.0) / ndtri((1.0 + level) / 2.0)
    return float(wider * math.sqrt(n_groups / (n_groups - 1)))


def drawn_by_group(
    measures: Mapping[str, Measure],
    n_groups: int,
    n_resamples: int,
    level: float,
    random_state: Any,
    tell: Callable[[], None] = lambda: None,
) -> dict[str, Floats]:
    """Return each metric, by its name, of draws of the groups; ``tell`` is called after each."""
    if n_resamples == 0:
        return {}
    some: Any = measures["accuracy"]
    present = np.zeros(n_groups, dtype=np.bool_)
    present[[group for group, _ in some.slots]] = True
    n_present = int(np.count_nonzero(present))
    draws: Wholes = generator(random_state).multinomial(
        n_present, present / n_present, size=n_resamples
    )
    stretch = _stretch(int(np.count_nonzero(draws.any(axis=0))), level)
    found = {}
    for name, own in measures.items():
        replicates = own.replicates(draws)
        middle = math.fsum(replicates) / n_resamples
        found[name] = middle + stretch * (replicates - middle)
        tell()
    return found


class MetricStatistics(RowStatistics):
    """What every metric needs to know of rows, which may be added and merged at any time.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        Label of each column.
    scores : {"probabilities", "logits"}, default="probabilities"
        What the matrices hold; of logits the softmax is measured.
    normalize : {None, "rows"}, default=None
        "rows" divides rows by their sums.
    n_bins : int, default=15
        Bins of the binned calibration errors.
    n_groups : int, default=64
        Groups that rows are dealt to by their content, for intervals; 1 for no intervals.

    Notes
    -----
    Values do not depend on how rows are cut into chunks, on their order or on merges, to the last
    bit. Intervals are those of :func:`evaluate`, but for what is drawn: groups of rows instead of
    rows. A row is dealt to its group by its content and by the chunk that it is in, so other chunks
    change them as another ``random_state`` would.

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.metrics.statistics import MetricStatistics
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
        n_groups: int = MOST_GROUPS,
    ) -> None:
        simplex.check_number("n_bins", n_bins, low=1, whole=True)
        simplex.check_number("n_groups", n_groups, low=1, high=1024, whole=True)
        own = {"n_bins": int(n_bins), "n_groups": int(n_groups)}
        super().__init__(classes, scores=scores, normalize=normalize, **own)

    def _start(self) -> list[Part]:
        n_bins = self.options["n_bins"]
        counts: dict[str, Counts] = {
            name: metric.start(self.n_classes, n_bins)
            for name, metric in metrics_of(self.n_classes).items()
        }
        counts["moments"] = BinMoments(n_bins, usual_column(self.n_classes))
        counts["class moments"] = ClassMoments(self.n_classes)
        if self.n_classes <= TABLE_CLASSES:
            counts["confusion"] = Confusion(self.n_classes)
        return [MeasuredRows(self.options["n_groups"], describe(counts))]

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
        confidence_level : float, default=0.95
            Of the intervals.
        random_state : None, int, SeedSequence or Generator, default=0
            Seeds the draws.

        Returns
        -------
        Evaluation
            Each metric as (value, low, high).
        """
        if self.n_rows == 0:
            raise errors.ShapeError("no rows were counted; at least one is needed")
        n_groups: int = self.options["n_groups"]
        if n_resamples is None:
            n_resamples = 200 if n_groups > 1 else 0
        simplex.check_number("n_resamples", n_resamples, low=0, whole=True)
        simplex.check_number("confidence_level", confidence_level, low=0.0, high=1.0)
        if n_resamples > 0 and n_groups == 1:
            raise errors.ParameterError(
                "these statistics have no groups of rows to draw, so n_resamples must be 0; make "
                f"them with n_groups={MOST_GROUPS}"
            )
        drawing = generator(random_state)
        with self._solved():
            return self._evaluation(n_resamples, confidence_level, drawing)

    def _evaluation(
        self, n_resamples: int, confidence_level: float, drawing: Generator
    ) -> Evaluation:
        counts: Any = self.rows.counts
        if "confusion" in counts:
            complaint = counts["confusion"].complaint(self.classes)
            if complaint is not None:
                notices.warn(complaint)
        measures = {name: counts[name] for name in metrics_of(self.n_classes)}
        replicates = drawn_by_group(
            measures, self.options["n_groups"], n_resamples, float(confidence_level), drawing
        )
        estimates: dict[str, Any] = {
            name: basic_interval(
                float(own.value()), replicates.get(name), confidence_level, METRICS[name].largest
            )
            for name, own in measures.items()
        }
        return Evaluation(
            **estimates,
            n_rows=self.n_rows,
            n_classes=self.n_classes,
            n_bins=self.options["n_bins"],
            n_resamples=n_resamples,
            confidence_level=confidence_level,
            binning_error=counts["thresholded_ece"].binning_error(),
        )

    def calibration_test(
        self, *, n_resamples: int = 1000, random_state: Any = 0
    ) -> CalibrationTest:
        """Test whether the predictions of all rows counted so far are calibrated.

        Those of the positive class are tested if there are two classes, of more the confidence.

        Parameters
        ----------
        n_resamples : int, default=1000
            The p-value is no smaller than 1 / (1 + n_resamples).
        random_state : None, int, SeedSequence or Generator, default=0
            Seeds the draws.

        Returns
        -------
        CalibrationTest
            As :func:`calibrant.metrics.calibration_test` returns it of chunks.
        """
        simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
        counts: Any = self.rows.counts
        bins = counts[headline(self.n_classes).id]
        metric = tested_metric(None, self.n_classes)
        draws = {"n_resamples": int(n_resamples), "random_state": generator(random_state)}
        with self._solved():
            return judge_problem(metric, bins, counts["moments"], **draws)

    def class_shares(self) -> ClassShares:
        """Compare how often classes were predicted and came, of all rows counted so far.

        Returns
        -------
        ClassShares
            As :func:`calibrant.metrics.class_shares` returns it.
        """
        counts: Any = self.rows.counts
        with self._solved():
            return judge_shares(self.classes, counts["classwise_ece"], counts["class moments"])
