"""The numbers of a reliability diagram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex, threads
from calibrant.kernels.fixed_point import totals
from calibrant.kernels.metrics import HIT, VALUE, WEIGHT
from calibrant.metrics.calibration_error import (
    STRATEGIES,
    bin_edges,
    errors_of,
    mass_bins,
    problem_sums,
    uniform_bins,
)
from calibrant.metrics.predictions import read_predictions
from calibrant.metrics.resampling import null_bins, null_errors, p_value
from calibrant.metrics.result import Result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.maps.base import Floats
    from calibrant.metrics.predictions import BinaryProblem, Predictions


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilityCurve(Result):
    """Result of :func:`reliability_curve`; arrays have one number per bin and are read-only.

    Attributes
    ----------
    kind : object
        "confidence", or the label of the class.
    edges : ndarray of shape (n_bins + 1,)
        Bin b is (edges[b], edges[b + 1]], the first with its lower edge.
    mean_probability : ndarray
        Mean prediction in each bin; NaN where it is empty.
    frequency : ndarray
        How often the event happened: the accuracy, or the share of the class.
    weight : ndarray
        Total weight in each bin.
    consistency_low, consistency_high : ndarray
        Between these the frequency would lie if the predictions were right; NaN without
        resamples.
    consistency_level : float
        How often it would.
    ece : float
        Mean over rows of |mean_probability - frequency|.
    p_value : float
        How often calibrated predictions have an error as large; NaN without resamples.
    """

    kind: Any
    edges: Floats
    mean_probability: Floats
    frequency: Floats
    weight: Floats
    consistency_low: Floats
    consistency_high: Floats
    consistency_level: float
    ece: float
    p_value: float

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.weight)


def reliability_curve(
    y_true: Any,
    y_proba: Any,
    *,
    kind: Any = "confidence",
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: Any = None,
    classes: Any = None,
    n_resamples: int = 1000,
    consistency_level: float = 0.95,
    resample_rows: bool = True,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ReliabilityCurve:
    """Predicted probability against observed frequency, bin by bin, with consistency bars.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes
        As in :func:`accuracy`.
    kind : "confidence" or a label, default="confidence"
        The largest probability of each row against whether it is right, or the probability of
        one class against whether it is the label.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal mass (as in :func:`confidence_ece`; empty ones are left
        out, so there may be fewer).
    n_resamples : int, default=1000
        Draws behind the consistency bars and the p-value; 0 for none.
    consistency_level : float, default=0.95
        Share of the draws that a bar holds.
    resample_rows : bool, default=True
        Draw rows as well as labels.
    random_state : None, int, SeedSequence or Generator, default=0
        Seeds the draws.
    n_jobs : int, optional
        Threads for the draws; their number changes no bit. -1 is all cores, -2 all but one.
        None is what ``joblib.parallel_config`` says, else 1.

    Returns
    -------
    ReliabilityCurve
        Frozen numbers, to print or to draw.

    References
    ----------
    .. [1] J. Bröcker and L. A. Smith, "Increasing the Reliability of Reliability Diagrams",
       Weather and Forecasting 22, 2007.

    Examples
    --------
    >>> from calibrant.metrics import reliability_curve
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> curve = reliability_curve([0, 1, 1, 1], y_proba, n_bins=4)
    >>> curve.edges
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> curve.mean_probability.round(3), curve.frequency.round(3)
    (array([  nan,   nan, 0.667, 0.9  ]), array([  nan,   nan, 0.667, 1.   ]))
    """
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_option("strategy", strategy, STRATEGIES)
    simplex.check_number("n_resamples", n_resamples, low=0, whole=True)
    simplex.check_number("consistency_level", consistency_level, low=0.0, high=1.0)
    threads.check_jobs("n_jobs", n_jobs)
    predictions = read_predictions(y_true, y_proba, sample_weight, classes)
    problem = _problem(predictions, kind)
    edges, bins = _bins(problem, int(n_bins), strategy)
    sums = problem_sums(problem, bins, len(edges) - 1)
    in_bin = totals(sums)
    ece = float(errors_of(sums[None], "l1")[0])
    low = np.full(len(in_bin), np.nan)
    high, chance = low.copy(), float("nan")
    if n_resamples > 0:
        draws = {"n_resamples": int(n_resamples), "random_state": random_state}
        with threads.jobs(n_jobs):
            null = null_bins(problem, bins, len(in_bin), **draws, replace=bool(resample_rows))
        low, high = _bars(null, float(consistency_level))
        chance = p_value(ece, null_errors(null))
    weight = in_bin[:, WEIGHT]
    return ReliabilityCurve(
        kind=kind,
        edges=edges,
        mean_probability=_ratio(in_bin[:, VALUE], weight),
        frequency=_ratio(in_bin[:, HIT], weight),
        weight=weight * predictions.unit,
        consistency_low=low,
        consistency_high=high,
        consistency_level=float(consistency_level),
        ece=ece,
        p_value=chance,
    )


def _problem(predictions: Predictions, kind: Any) -> BinaryProblem:
    if isinstance(kind, str) and kind == "confidence":
        return predictions.confidence()
    matches = np.flatnonzero(predictions.classes == kind)
    if len(matches) != 1:
        raise errors.ParameterError(
            f"kind={errors.in_words(kind)} is neither 'confidence' nor one of the classes "
            f"{errors.some_in_words(predictions.classes)}"
        )
    return predictions.one_class(int(matches[0]))


def _bins(problem: BinaryProblem, n_bins: int, strategy: str) -> tuple[Floats, NDArray[np.int32]]:
    """Edges, and the bin of each row."""
    if strategy == "uniform":
        edges = bin_edges(n_bins)
        return edges, uniform_bins(problem.values, edges)
    present, bins = np.unique(mass_bins(problem, n_bins), return_inverse=True)
    edges = np.zeros(len(present) + 1)
    np.maximum.at(edges, bins + 1, problem.values)  # a bin ends at its largest value
    edges[-1] = 1.0
    return edges, bins.astype(np.int32)


def _bars(null: Floats, level: float) -> tuple[Floats, ...]:
    """Quantiles of the frequency in each bin, over the resamples that have rows there."""
    weight = null[:, :, 0]
    seen = weight.any(axis=0)
    frequency = _ratio(null[:, seen, 1], weight[:, seen])
    bars = np.full((2, null.shape[1]), np.nan)
    bars[:, seen] = np.nanquantile(frequency, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return bars[0], bars[1]


def _ratio(top: Floats, bottom: Floats) -> Floats:
    out = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=out, where=bottom > 0)
    return out
