"""How sure a classifier is and how often right, what a method did to it, and the top r classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._containers import is_vector
from calibrant._labels import check_weights
from calibrant._predictions import Predictions, Statistic, read
from calibrant._result import Result, doc, result
from calibrant.metrics._calibration_error import ProblemBins, bin_edges, check_bins
from calibrant.plots import _style as style

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from calibrant._maps.base import Floats, Wholes
    from calibrant.scale import Chunks

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


def compute_confidence_histogram(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 20,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> ConfidenceHistogram:
    """Compute the histogram of the confidence, split by right and wrong predictions.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,), Predictions or Chunks
        True labels, or one-hot rows; or predictions with their labels.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    n_bins : int, default=20
        Number of bins, of equal width.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y_true`` lacks a class. For a single column: the negative
        and the positive label.
    pos_label : object, optional
        Label of the class of a single column. Not needed for 0 and 1, -1 and 1, or False and True,
        where it is the larger one.

    Returns
    -------
    ConfidenceHistogram
        With the fields edges, right, wrong, accuracy and mean_confidence.

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
    check_bins(n_bins)
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    sums = source.add_up({"bins": ProblemBins(int(n_bins))})["bins"]
    weight, right, said = sums.T / sums[:, 0].sum()
    return ConfidenceHistogram(
        edges=bin_edges(int(n_bins)),
        right=right,
        wrong=weight - right,
        accuracy=float(right.sum()),
        mean_confidence=float(said.sum()),
    )


def draw_confidence_histogram(
    histogram: ConfidenceHistogram, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw the histogram, with accuracy and mean confidence as lines.

    Parameters
    ----------
    histogram : ConfidenceHistogram
        From :func:`compute_confidence_histogram`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title above the diagram.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.plots import compute_confidence_histogram, draw_confidence_histogram
    >>> histogram = compute_confidence_histogram([0, 1], [[0.9, 0.1], [0.2, 0.8]])
    >>> ax = draw_confidence_histogram(histogram)  # doctest: +SKIP
    """
    ax = style.axes_or_new(ax, (4.6, 3.4))
    x, width, bottom = histogram.edges[:-1], np.diff(histogram.edges), np.zeros(1)
    for label, height, color, hatch in (
        ("right", histogram.right, style.SKY, None),
        ("wrong", histogram.wrong, style.VERMILION, "////"),  # told apart without colour
    ):
        bars = ax.bar(x, height, width, bottom, align="edge", color=color, label=label)
        for bar in bars:
            bar.set(hatch=hatch, edgecolor="white", linewidth=0.5)
        bottom = bottom + height
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


def compute_effect(
    before: ArrayLike | Predictions,
    after: ArrayLike | Predictions,
    *,
    n_bins: int = 20,
    sample_weight: ArrayLike | None = None,
) -> Effect:
    """Summarise how calibration changes the confidence of each row.

    Parameters
    ----------
    before, after : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Probabilities before and after calibration; one column is the positive class. Or
        ``Predictions`` of the same rows.
    n_bins : int, default=20
        Number of bins, of equal mass.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all. Predictions have weights
        of their own.

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
    check_bins(n_bins)
    old, new = _rows(before), _rows(after)
    if old.shape != new.shape or not len(old):
        raise errors.ShapeError(
            f"before has shape {old.shape}, but after has {new.shape}; pass the same rows"
        )
    if isinstance(before, Predictions):
        if sample_weight is not None:
            raise errors.ParameterError("Predictions have weights of their own; pass no others")
        weight = before.weight
    else:
        weight = check_weights(sample_weight, len(old))
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
    if isinstance(probabilities, Predictions):
        return probabilities.rows
    is_single = is_vector(probabilities) or np.shape(probabilities)[1:] == (1,)
    return simplex.check_scores(probabilities, "positive" if is_single else "probabilities")


def _quantiles(values: Floats, weight: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    places = np.searchsorted(reached, [0.05, 0.5, 0.95])
    return values[order][np.minimum(places, len(values) - 1)]


def draw_effect(effect: Effect, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the change of the confidence, with the middle 90 % of the rows as a band.

    Parameters
    ----------
    effect : Effect
        From :func:`compute_effect`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title above the diagram.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from calibrant.plots import compute_effect, draw_effect
    >>> effect = compute_effect([[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.45, 0.55]])
    >>> ax = draw_effect(effect)  # doctest: +SKIP
    """
    ax = style.axes_or_new(ax)
    ax.plot([0, 1], [0, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    x, low, high, words = effect.before, effect.low, effect.high, "nine rows in ten"
    ax.fill_between(x, low, high, color=style.SKY, alpha=0.35, linewidth=0, label=words)
    ax.plot(x, effect.median, "o-", color=style.BLUE, markersize=4, label="median")
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


@dataclass(frozen=True)
class TopRanks(Statistic):
    """Sums over rows of what the r most probable classes hold and claim, for r = 1, 2, ..."""

    max_rank: int

    def sums(self, rows: Predictions) -> Floats:
        """Return sums of w, w [label in the top r], w c and w^2 c (1 - c), c the claim: (4, r)."""
        found, ranks = np.zeros((4, self.max_rank)), np.arange(1, self.max_rank + 1)
        for part in simplex.chunks(rows.n_rows, rows.n_classes):  # sorting copies them
            own = rows.take(part)
            top = own.rows
            if self.max_rank < rows.n_classes:
                top = np.partition(top, -self.max_rank, axis=1)[:, -self.max_rank :]
            claimed = np.minimum(np.cumsum(np.sort(top, axis=1)[:, ::-1], axis=1), 1.0)
            found[0] += own.weight.sum()
            found[1] += own.weight @ _held(own, ranks)
            found[2] += own.weight @ claimed
            found[3] += own.weight**2 @ (claimed * (1.0 - claimed))
        return found


def _held(rows: Predictions, ranks: Wholes) -> Floats:
    """Whether the label is among the top r, for every r; in parts where it ties."""
    own = rows.own()[:, None]
    above = np.count_nonzero(rows.rows > own, axis=1)[:, None]
    tied = np.count_nonzero(rows.rows == own, axis=1)[:, None]
    held: Floats = np.clip((ranks - above) / tied, 0.0, 1.0)
    return held


def compute_top_r(
    y_true: ArrayLike | Predictions | Chunks,
    y_proba: ArrayLike | None = None,
    *,
    max_rank: int | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> TopRCurve:
    """Compare how often the label is among the top r with the sum of the top r probabilities.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,), Predictions or Chunks
        True labels, or one-hot rows; or predictions with their labels.
    y_proba : array-like of shape (n_rows, n_classes), (n_rows,) or (n_rows, 1)
        Predicted probabilities, with columns in the order of the sorted labels (or of ``classes``);
        a single column is the positive class of two, as in scikit-learn.
    max_rank : int, optional
        Largest r; by default the number of classes minus one.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. Weight 2 counts a row twice, weight 0 not at all; in ``spread`` it is one
        row that counts double.
    classes : array-like of shape (n_classes,), optional
        Label of each column; needed if ``y_true`` lacks a class. For a single column: the negative
        and the positive label.
    pos_label : object, optional
        Label of the class of a single column. Not needed for 0 and 1, -1 and 1, or False and True,
        where it is the larger one.

    Returns
    -------
    TopRCurve
        With the fields ranks, share, claimed and spread.

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
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    n_classes = len(source.classes)
    largest = n_classes - 1 if max_rank is None else max_rank
    simplex.check_number("max_rank", largest, low=1, high=n_classes, whole=True)
    sums = source.add_up({"ranks": TopRanks(int(largest))})["ranks"]
    weight, held, claimed, variance = sums
    ranks = np.arange(1, int(largest) + 1)
    return TopRCurve(ranks, held / weight, claimed / weight, np.sqrt(variance) / weight)


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
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Title above the diagram.

    Returns
    -------
    ax : matplotlib Axes

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
        look = style.look(place)
        if len(curve.ranks) > FEW_RANKS:
            look = look._replace(marker="none")
        label = style.entry(ax, name, f"top 1 right: {style.percent(curve.share[0])}")
        gap = 100 * (curve.claimed - curve.share)
        ax.plot(curve.ranks, gap, **look._asdict(), markersize=4.5, linewidth=1.4, label=label)
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
    ax.fill_between(ranks, -half, half, color=style.GREY, alpha=0.13, linewidth=0, label=words)
