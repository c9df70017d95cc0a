"""``MetricStatistics``: every metric of rows in chunks, from one pass over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant.metrics._bins import check_bins
from calibrant.metrics._chunk import usual_column
from calibrant.metrics._counted import CountedRows, describe
from calibrant.metrics._evaluation import MOST_GROUPS, evaluated_bodies, judge_states
from calibrant.metrics._normal_null import BinMoments
from calibrant.metrics._parameters import inherit_parameters
from calibrant.metrics._resampling import generator
from calibrant.metrics._shares import ClassMoments, ClassShares, judge_shares
from calibrant.metrics._significance import CalibrationTest, judge_sums, tested_metric
from calibrant.metrics._table import headline

if TYPE_CHECKING:
    from calibrant.metrics._evaluation import Evaluation


class MetricStatistics(CountedRows):
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

    Attributes
    ----------
    n_rows : int
        Rows counted so far, those of weight 0 apart.
    weight : float
        The sum of their weights.

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
        n_groups: int = MOST_GROUPS,
    ) -> None:
        check_bins(n_bins)
        simplex.check_number("n_groups", n_groups, low=1, high=1024, whole=True)
        own = {"n_bins": int(n_bins), "n_groups": int(n_groups)}
        super().__init__(classes, scores=scores, normalize=normalize, **own)

    def _counts(self) -> dict[str, Any]:
        n_classes, n_bins = self.n_classes, self.options["n_bins"]
        bodies = evaluated_bodies(n_classes, n_bins)
        bodies["moments"] = BinMoments(n_bins, usual_column(n_classes))
        bodies["class moments"] = ClassMoments(n_classes)
        return describe(bodies)

    @inherit_parameters
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
            return judge_states(
                self.states,
                self.classes,
                n_bins=self.options["n_bins"],
                n_rows=self.n_rows,
                n_resamples=n_resamples,
                confidence_level=float(confidence_level),
                random_state=drawing,
            )

    @inherit_parameters
    def calibration_test(
        self, *, n_resamples: int = 1000, random_state: Any = 0
    ) -> CalibrationTest:
        """Test whether the predictions of all rows counted so far are calibrated.

        Those of the positive class are tested if there are two classes, of more the confidence.

        Parameters
        ----------
        n_resamples : int, default=1000
            The p-value is no smaller than 1 / (1 + n_resamples).

        Returns
        -------
        CalibrationTest
            As :func:`calibrant.metrics.calibration_test` returns it of chunks.
        """
        simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
        sums = {"bins": self.states[headline(self.n_classes).id], "moments": self.states["moments"]}
        draws = {"n_resamples": int(n_resamples), "random_state": generator(random_state)}
        with self._solved():
            return judge_sums(tested_metric(None, self.n_classes), sums, **draws)

    def class_shares(self) -> ClassShares:
        """Compare how often classes were predicted and came, of all rows counted so far.

        Returns
        -------
        ClassShares
            As :func:`calibrant.metrics.class_shares` returns it.
        """
        bins, moments = self.states["classwise_ece"], self.states["class moments"]
        with self._solved():
            return judge_shares(self.classes, bins, moments)
