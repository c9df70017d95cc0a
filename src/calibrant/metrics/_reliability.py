"""The numbers of a reliability diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import _simplex as simplex
from calibrant import _threads as threads
from calibrant import errors
from calibrant._kernels.fixed_point import totals
from calibrant._kernels.metrics import HIT, VALUE, WEIGHT, add_binned
from calibrant.metrics import _calibration_error as binning
from calibrant.metrics import _resampling as draw
from calibrant.metrics._predictions import Predictions, column_of, name_of
from calibrant.metrics._reading import of_predictions
from calibrant.metrics._result import Result, doc, result
from calibrant.metrics._significance import BinMoments, null_problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats
    from calibrant.metrics._measures import EventRows
    from calibrant.metrics._reading import Source


@result(eq=False)
class ReliabilityCurve(Result):
    """Result of :func:`reliability_curve`; arrays have one number per bin and are read-only."""

    kind: Any = doc("Label of the class, or 'confidence'.")
    edges: Floats = doc("Bin b is (edges[b], edges[b + 1]], the first with its lower edge.")
    mean_probability: Floats = doc("Mean prediction in each bin; NaN in empty bins.")
    frequency: Floats = doc("Observed frequency of the class in each bin.")
    weight: Floats = doc("Total weight in each bin.")
    consistency_low: Floats = doc("Lower end of the band of frequencies under calibration.")
    consistency_high: Floats = doc("Upper end of the band; NaN without resamples.")
    consistency_level: float = doc("Level of the band.")
    ece: float = doc("Mean over rows of |mean_probability - frequency|.")
    p_value: float = doc("P-value of ``ece`` under calibration; NaN without resamples.")

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.weight)


@of_predictions
def reliability_curve(
    predictions: Source,
    *,
    kind: Any = None,
    n_bins: int = 15,
    strategy: str = "uniform",
    n_resamples: int = 1000,
    consistency_level: float = 0.95,
    resample_rows: bool = True,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ReliabilityCurve:
    """Compute predicted probabilities and observed frequencies in bins, with consistency bars.

    Parameters
    ----------
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal mass (as in :func:`confidence_ece`; empty ones are left
        out, so there may be fewer).
    n_resamples : int, default=1000
        Number of resamples for the consistency bars and the p-value; 0 for none.
    consistency_level : float, default=0.95
        Level of the consistency bars.
    resample_rows : bool, default=True
        Whether to resample rows as well as labels.

    Notes
    -----
    Of Dask collections and ``Chunks`` bins are of equal width. Their bars and p-value, and those of
    more than 50,000 rows in such bins, are of normal distributions (:func:`calibration_test`).

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
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_option("strategy", strategy, binning.BIN_STRATEGIES)
    simplex.check_number("n_resamples", n_resamples, low=0, whole=True)
    simplex.check_number("consistency_level", consistency_level, low=0.0, high=1.0)
    threads.check_jobs("n_jobs", n_jobs)
    draws: dict[str, Any] = {"n_resamples": int(n_resamples), "random_state": random_state}
    draws["replace"] = bool(resample_rows)
    column = column_of(predictions.classes, kind)
    with threads.jobs(n_jobs):
        if isinstance(predictions, Predictions) and (
            strategy == "quantile" or predictions.n_rows <= draw.MOST_ROWS_DRAWN
        ):
            binned = _of_rows(predictions, column, int(n_bins), strategy, draws)
        elif strategy == "uniform":
            binned = _of_sums(predictions, column, int(n_bins), draws)
        else:
            raise errors.ParameterError(
                f"strategy={strategy!r} needs all rows at once; for chunks use "
                "strategy='uniform', or draw a sample of rows in memory"
            )
    weight, happened, said = binned.in_bin.T[[WEIGHT, HIT, VALUE]]
    low, high, chance = np.full(len(weight), np.nan), np.full(len(weight), np.nan), float("nan")
    if binned.null is not None:
        low, high = np.clip(_bars(binned.null, float(consistency_level)), 0.0, 1.0)
        chance = draw.p_value(binned.ece, draw.null_errors(binned.null))
    points = _ratio(said, weight), _ratio(happened, weight), weight * binned.unit
    kind, level = name_of(predictions.classes, column), float(consistency_level)
    bars = low, high, level
    return ReliabilityCurve(kind, binned.edges, *points, *bars, binned.ece, chance)


class Binned(NamedTuple):
    """Sums of weight, hits and values over bins, in a unit, and those of resamples, if any."""

    edges: Floats
    in_bin: Floats
    unit: float
    ece: float
    null: Floats | None


def _of_rows(
    predictions: Predictions, column: int | None, n_bins: int, strategy: str, draws: dict[str, Any]
) -> Binned:
    """Bin rows in memory, and draw them."""
    events = predictions.events(column)
    if strategy == "uniform":
        edges = binning.bin_edges(n_bins)
        bins = binning.uniform_bins(events.values, edges)
    else:
        edges, bins = _mass_bins(predictions, events, n_bins)
    pairs = np.zeros((len(edges) - 1, 3, 2), dtype=np.int64)
    add_binned(*events, bins, pairs)
    sums = totals(pairs)
    null = draw.null_bins(events, bins, len(sums), **draws) if draws["n_resamples"] > 0 else None
    ece = float(binning.errors_in(sums[None], sums[None, :, WEIGHT].sum(axis=1), "l1")[0])
    return Binned(edges, sums, predictions.unit, ece, null)


def _of_sums(predictions: Source, column: int | None, n_bins: int, draws: dict[str, Any]) -> Binned:
    """Add rows up in bins, and draw the sums."""
    bodies = {
        "bins": binning.ProblemBins(n_bins, column=column),
        "moments": BinMoments(n_bins, column),
    }
    states = predictions.add_up(bodies)
    null = null_problem(**states, **draws) if draws["n_resamples"] > 0 else None
    bins = states["bins"]
    return Binned(binning.bin_edges(n_bins), bins.total[0], bins.unit, bins.value(), null)


def _mass_bins(
    predictions: Predictions, events: EventRows, n_bins: int
) -> tuple[Floats, NDArray[np.int32]]:
    """Edges of the bins of equal mass that are not empty, and the bin of each row."""
    cells, values = predictions.sort_events(events)
    begin = np.unique(cells.edges(n_bins))
    begin = begin[begin < len(values)]
    edges = np.concatenate([[0.0], values[begin[1:] - 1], [1.0]])  # a bin ends at its last value
    bins = np.repeat(np.arange(len(begin), dtype=np.int32), np.diff(np.append(begin, len(values))))
    return edges, bins[np.searchsorted(values, events.values)]


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
