"""``reliability_curve``: predictions and frequencies in bins, with the range of right ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant import _threads as threads
from calibrant._gate import check_number
from calibrant._predictions import column_of, name_of, source_of
from calibrant._result import Result, doc, result
from calibrant.metrics._calibration_error import (
    bin_edges,
    check_bins,
    errors_in,
    find_bins,
    mass_edges,
    sums_in_bins,
)
from calibrant.metrics._significance import Draws, null_sums, p_value, ratio

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant._types import Floats, Label
    from calibrant.metrics._intervals import Seed
    from calibrant.scale import Chunks

CONSISTENCY = 0.95  # level of the bars


@result(eq=False)
class ReliabilityCurve(Result):
    """Result of :func:`reliability_curve`; arrays have one number per bin and are read-only."""

    kind: Label = doc("Label of the class, or 'confidence'.")
    edges: Floats = doc("Bin b is (edges[b], edges[b + 1]], the first with its lower edge.")
    mean_probability: Floats = doc("Mean prediction in each bin; NaN in empty bins.")
    frequency: Floats = doc("Observed frequency of the class in each bin.")
    weight: Floats = doc("Total weight in each bin.")
    consistency_low: Floats = doc("Lower end of 95 % of frequencies under calibration.")
    consistency_high: Floats = doc("Upper end of these; NaN without resamples.")
    ece: float = doc("Mean over rows of |mean_probability - frequency|.")
    p_value: float = doc("P-value of ``ece`` under calibration; NaN without resamples.")

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.weight)


def reliability_curve(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    kind: object = None,
    n_bins: int = 15,
    strategy: Literal["uniform", "quantile"] = "uniform",
    n_resamples: int = 1000,
    random_state: Seed = 0,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Label | None = None,
) -> ReliabilityCurve:
    """Compute predicted probabilities and observed frequencies in bins, with consistency bars.

    Parameters
    ----------
    y_true, y_proba, classes, pos_label, random_state, n_jobs
        As in :func:`evaluate`.
    kind : None, "confidence" or a label, default=None
        Whether the largest probability of each row, or the probability of one class, is compared
        with labels. None is the positive (second) class of two, and the confidence for more.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal mass (as in :func:`confidence_ece`; empty ones are left
        out, so there may be fewer).
    n_resamples : int, default=1000
        Number of resamples for the consistency bars and the p-value; 0 for none.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all; resampling draws it once.

    Returns
    -------
    ReliabilityCurve
        Predictions and frequencies in each bin, and the band of frequencies under calibration.

    Notes
    -----
    Rows are resampled as well as labels. Bars and p-value of more than 50,000 rows are of normal
    distributions (:func:`calibration_test`). The curve of chunks is that of a sample of their rows.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability Diagrams",
       Weather and Forecasting 22, 2007.

    Examples
    --------
    >>> from calibrant.metrics import reliability_curve
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> curve = reliability_curve([0, 1, 1, 1], y_proba, n_bins=4)
    >>> curve.kind, curve.edges
    (1, array([0.  , 0.25, 0.5 , 0.75, 1.  ]))
    >>> curve.mean_probability.round(3), curve.frequency.round(3)
    (array([nan, 0.3, 0.6, 0.9]), array([nan, 0.5, 1. , 1. ]))
    """
    check_bins(n_bins, strategy)
    check_number("n_resamples", n_resamples, low=0, whole=True)
    threads.check_jobs("n_jobs", n_jobs)
    rows = source_of(y_true, y_proba, sample_weight, classes, pos_label).in_memory()
    column = column_of(rows.classes, kind)
    events = rows.events(column)
    edges, bins = bin_edges(int(n_bins)), find_bins(events, int(n_bins), strategy)
    if strategy == "quantile":
        edges, bins = mass_edges(events.values, bins)
    sums = sums_in_bins(events, bins, len(edges) - 1)
    weight, happened, said = sums.T
    ece, chance = float(errors_in(sums)), math.nan
    bars = np.full((2, len(weight)), np.nan)
    if n_resamples > 0:
        with threads.jobs(n_jobs):
            draws = Draws(rows.n_rows, int(n_resamples), random_state, replace=True)
            null, _ = null_sums(events, bins, len(sums), draws)
        chance, seen = p_value(ece, errors_in(null)), null[..., 0].any(axis=0)
        frequency = ratio(null[:, seen, 1], null[:, seen, 0])
        ends = [(1.0 - CONSISTENCY) / 2.0, (1.0 + CONSISTENCY) / 2.0]
        bars[:, seen] = np.nanquantile(frequency, ends, axis=0).clip(0.0, 1.0)
    return ReliabilityCurve(
        kind=name_of(rows.classes, column),
        edges=edges,
        mean_probability=ratio(said, weight),
        frequency=ratio(happened, weight),
        weight=weight.copy(),
        consistency_low=bars[0].copy(),
        consistency_high=bars[1].copy(),
        ece=ece,
        p_value=chance,
    )
