"""How sure a classifier is and how often right, what a method did to it, and the top r classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._containers import is_vector
from calibrant._docstrings import inherit_parameters
from calibrant.metrics._predictions import Predictions
from calibrant.metrics._reading import of_arrays, of_predictions, shared
from calibrant.metrics._reliability import reliability_curve
from calibrant.metrics._result import Result, doc, result
from calibrant.plots import _style as style
from calibrant.plots._reliability import draw_reliability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._measures import Chunk
    from calibrant.metrics._reading import Source

FEW_RANKS = 30
"""Ranks that have a marker each, on a linear axis."""


@result(eq=False)
class ConfidenceHistogram(Result):
    """Result of :func:`compute_confidence_histogram`; arrays have one number per bin."""

    edges: Floats = doc("Bin b is (edges[b], edges[b + 1]], the first with its lower edge.")
    right: Floats = doc("Share of all rows that are in the bin and predicted correctly.")
    wrong: Floats = doc("Share of all rows that are in the bin and predicted wrongly.")
    accuracy: float = doc("Share of rows that are predicted correctly.")
    mean_confidence: float = doc("Mean confidence; above the accuracy if over-confident.")

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus accuracy."""
        return self.mean_confidence - self.accuracy


@of_predictions
def compute_confidence_histogram(predictions: Source, *, n_bins: int = 20) -> ConfidenceHistogram:
    """Compute the histogram of the confidence, split by right and wrong predictions.

    Parameters
    ----------
    n_bins : int, default=20
        Number of bins, of equal width.

    Examples
    --------
    >>> from calibrant.plots import compute_confidence_histogram
    >>> y_proba = [[0.7, 0.3], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]
    >>> histogram = compute_confidence_histogram([0, 1, 1, 1], y_proba, n_bins=4)
    >>> histogram.right, histogram.wrong
    (array([0.  , 0.  , 0.5 , 0.25]), array([0.  , 0.  , 0.25, 0.  ]))
    >>> round(histogram.overconfidence, 3)
    -0.025
    """
    curve = reliability_curve(None, predictions, kind="confidence", n_bins=n_bins, n_resamples=0)
    share = curve.weight / curve.weight.sum()
    right = share * np.nan_to_num(curve.frequency)
    return ConfidenceHistogram(
        edges=curve.edges,
        right=right,
        wrong=share - right,
        accuracy=float(right.sum()),
        mean_confidence=float(share @ np.nan_to_num(curve.mean_probability)),
    )


@inherit_parameters(draw_reliability)
def draw_confidence_histogram(
    histogram: ConfidenceHistogram, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw the histogram, with accuracy and mean confidence as lines.

    Parameters
    ----------
    histogram : ConfidenceHistogram
        From :func:`compute_confidence_histogram`.

    Examples
    --------
    >>> from calibrant.plots import compute_confidence_histogram, draw_confidence_histogram
    >>> histogram = compute_confidence_histogram([0, 1], [[0.9, 0.1], [0.2, 0.8]])
    >>> ax = draw_confidence_histogram(histogram)  # doctest: +SKIP
    """
    ax = style.axes_or_new(ax, (4.6, 3.4))
    bars: dict[str, Any] = {"width": np.diff(histogram.edges), "align": "edge"}
    bars |= {"x": histogram.edges[:-1], "edgecolor": "white", "linewidth": 0.5}
    ax.bar(height=histogram.right, color=style.SKY, label="right", **bars)
    bars |= {"bottom": histogram.right, "hatch": "////"}
    ax.bar(height=histogram.wrong, color=style.VERMILION, label="wrong", **bars)
    lines = (
        ("accuracy", histogram.accuracy, "-"),
        ("mean confidence", histogram.mean_confidence, "--"),
    )
    for words, value, line in lines:
        label = f"{words} {style.percent(value)}"
        ax.axvline(value, color=style.BLACK, linestyle=line, linewidth=1.4, label=label)
    ax.set_xlim(0, 1)
    style.name_axes(ax, "confidence", "share of rows")
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    style.add_legend(ax)
    style.add_heading(ax, title)
    return ax


@result(eq=False)
class Effect(Result):
    """Result of :func:`compute_effect`; arrays have one number per bin."""

    before: Floats = doc("Mean confidence before, in bins of equal mass.")
    low: Floats = doc("5 % quantile of the probability after of the same class.")
    median: Floats = doc("Median of the probability after of the same class.")
    high: Floats = doc("95 % quantile of the probability after of the same class.")
    changed: float = doc("Share of rows whose most probable class changes.")


@inherit_parameters(shared)
def compute_effect(
    before: Any, after: Any, *, n_bins: int = 20, sample_weight: Any = None
) -> Effect:
    """Summarise how calibration changes the confidence of each row.

    Parameters
    ----------
    before, after : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Probabilities before and after calibration; one column is the positive class.
    n_bins : int, default=20
        Number of bins, of equal mass.

    Returns
    -------
    Effect
        With the fields before, low, median, high, changed.

    Examples
    --------
    >>> from calibrant.plots import compute_effect
    >>> effect = compute_effect([[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.55, 0.45]], n_bins=2)
    >>> effect.before, effect.median, effect.changed
    (array([0.6, 0.9]), array([0.45, 0.7 ]), 0.5)
    """
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    old, new = (
        part.matrix if isinstance(part, Predictions) else _rows(part) for part in (before, after)
    )
    if old.shape != new.shape or not len(old):
        raise errors.ShapeError(
            f"before has shape {old.shape}, but after has {new.shape}; pass the same rows"
        )
    weight = np.ones(len(old)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    top = old.argmax(axis=1)
    rows = np.arange(len(old))
    x, y = old[rows, top], new[rows, top]
    order = np.argsort(x, kind="stable")
    middle = np.cumsum(weight[order]) - weight[order] / 2
    bins = np.minimum((n_bins * middle / weight.sum()).astype(np.int64), int(n_bins) - 1)
    parts = [order[bins == b] for b in range(int(n_bins))]
    parts = [part for part in parts if weight[part].sum() > 0]
    means = np.array([np.average(x[part], weights=weight[part]) for part in parts])
    quantiles = np.array([_quantiles(y[part], weight[part]) for part in parts])
    changed = float(weight @ (y < new.max(axis=1)) / weight.sum())
    low, median, high = quantiles.T.copy()
    return Effect(means, low, median, high, changed)


def _rows(probabilities: Any) -> Floats:
    """Return checked rows, also of a vector or one column of the positive class."""
    is_single = is_vector(probabilities) or np.shape(probabilities)[1:] == (1,)
    return simplex.check_scores(probabilities, "positive" if is_single else "probabilities")


def _quantiles(values: Floats, weight: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    places = np.searchsorted(reached, [0.05, 0.5, 0.95])
    return values[order][np.minimum(places, len(values) - 1)]


@inherit_parameters(draw_reliability)
def draw_effect(effect: Effect, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the change of the confidence, with the middle 90 % of the rows as a band.

    Parameters
    ----------
    effect : Effect
        From :func:`compute_effect`.

    Examples
    --------
    >>> from calibrant.plots import compute_effect, draw_effect
    >>> effect = compute_effect([[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.45, 0.55]])
    >>> ax = draw_effect(effect)  # doctest: +SKIP
    """
    ax = style.axes_or_new(ax)
    ax.plot([0, 1], [0, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    band: dict[str, Any] = {"color": style.SKY, "alpha": 0.35, "linewidth": 0}
    ax.fill_between(effect.before, effect.low, effect.high, **band, label="nine rows in ten")
    ax.plot(effect.before, effect.median, "o-", color=style.BLUE, markersize=4, label="median")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    style.name_axes(ax, "confidence before", "probability of the same class after")
    style.add_legend(ax)
    style.add_heading(ax, title, [f"{style.percent(effect.changed)} of rows change their class"])
    return ax


@result(eq=False)
class TopRCurve(Result):
    """Result of :func:`compute_top_r`; arrays have one number per rank."""

    ranks: Wholes = doc("Ranks 1, 2, ..., max_rank.")
    share: Floats = doc("Share of rows whose label is among the r most probable classes.")
    claimed: Floats = doc("Mean sum of the r largest probabilities, which calibrated shares equal.")
    spread: Floats = doc("Standard deviation of the share under calibration.")


@of_arrays
def compute_top_r(predictions: Predictions, *, max_rank: int | None = None) -> TopRCurve:
    """Compare how often the label is among the top r with the sum of the top r probabilities.

    Parameters
    ----------
    max_rank : int, optional
        Largest r; by default the number of classes minus one.

    Notes
    -----
    Classes that tie are in random order: a label that ties with n others counts in parts.

    Examples
    --------
    >>> from calibrant.plots import compute_top_r
    >>> curve = compute_top_r([0, 2], [[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]])
    >>> curve.share, curve.claimed
    (array([0.5, 0.5]), array([0.55, 0.85]))
    """
    largest = predictions.n_classes - 1 if max_rank is None else max_rank
    simplex.check_number("max_rank", largest, low=1, high=predictions.n_classes, whole=True)
    ranks = np.arange(1, int(largest) + 1)
    sums = np.zeros((3, len(ranks)))
    weight = 0.0
    for chunk in predictions.chunks():
        weight += float(chunk.weight.sum())
        rows = chunk.rows
        if largest < rows.shape[1]:
            rows = np.partition(rows, rows.shape[1] - ranks[-1], axis=1)[:, -ranks[-1] :]
        cumulative = np.minimum(np.cumsum(np.sort(rows, axis=1)[:, ::-1], axis=1), 1.0)
        sums[0] += chunk.weight @ _held(chunk, ranks)
        sums[1] += chunk.weight @ cumulative
        sums[2] += chunk.weight**2 @ (cumulative * (1.0 - cumulative))
    spread = np.sqrt(np.maximum(sums[2], 0.0)) / weight
    return TopRCurve(ranks, sums[0] / weight, sums[1] / weight, spread)


def _held(chunk: Chunk, ranks: Wholes) -> Floats:
    """Whether the label is among the top r, for every r; in parts where it ties."""
    own = chunk.rows[np.arange(len(chunk.rows)), chunk.class_index][:, None]
    above = np.count_nonzero(chunk.rows > own, axis=1)[:, None]
    tied = np.count_nonzero(chunk.rows == own, axis=1)[:, None]
    held: Floats = np.clip((ranks - above) / tied, 0.0, 1.0)
    return held


@inherit_parameters(draw_reliability)
def draw_top_r(
    curves: TopRCurve | Mapping[str, TopRCurve], ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw the gap between claim and observation against r, for one or several methods.

    Above zero the probabilities of the top r classes are too large. The band of each curve is its
    95 % range under calibration.

    Parameters
    ----------
    curves : TopRCurve, or mapping of str to TopRCurve
        From :func:`compute_top_r`; several by name.

    Examples
    --------
    >>> from calibrant.plots import compute_top_r, draw_top_r
    >>> curve = compute_top_r([0, 2], [[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]])
    >>> ax = draw_top_r(curve)  # doctest: +SKIP
    """
    if isinstance(curves, TopRCurve):
        curves = {"observed": curves}
    if not curves:
        raise errors.ParameterError("curves is empty; pass at least one")
    ax = style.axes_or_new(ax, (5.2, 3.8))
    ax.axhline(0.0, color=style.GREY, linestyle=":", linewidth=1.2)
    for place, (name, curve) in enumerate(curves.items()):
        look = style.look(place)._asdict()
        if len(curve.ranks) > FEW_RANKS:
            look["marker"] = None
        label = style.entry(ax, name, f"top 1 right: {style.percent(curve.share[0])}")
        gap = 100 * (curve.claimed - curve.share)
        ax.plot(curve.ranks, gap, **look, markersize=4.5, linewidth=1.4, label=label)
        words = "if calibrated" if place == len(curves) - 1 else None
        _draw_band(ax, curve, words)
    most = max(int(curve.ranks[-1]) for curve in curves.values())
    if most <= FEW_RANKS:
        ax.set_xlim(0.5, most + 0.5)
    style.number_ranks(ax, most, FEW_RANKS)
    ax.locator_params(axis="y", nbins=6, steps=[1, 2, 5, 10])
    style.name_axes(ax, "number r of most probable classes", "claimed minus observed, points")
    style.add_legend(ax)
    style.add_heading(ax, title)
    return ax


def _draw_band(ax: Axes, curve: TopRCurve, words: str | None) -> None:
    """Draw where a curve would lie if calibrated; of a single rank it is a bar."""
    half = 196 * curve.spread
    ranks = np.asarray(curve.ranks, dtype=np.float64)
    if len(ranks) == 1:
        ranks, half = ranks + np.array([-0.2, 0.2]), np.repeat(half, 2)
    band: dict[str, Any] = {"alpha": 0.13, "linewidth": 0, "label": words}
    ax.fill_between(ranks, -half, half, color=style.GREY, **band)
