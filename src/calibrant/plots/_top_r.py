"""How often the label is among the first r classes, and what their probabilities claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant._docstrings import inherit_parameters
from calibrant.errors import ParameterError
from calibrant.metrics import accuracy
from calibrant.metrics._predictions import read_predictions
from calibrant.metrics._resampling import Result
from calibrant.plots import _style as style
from calibrant.plots._reliability import draw_reliability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._chunk import Chunk

FEW = 30
"""Ranks that have a marker each, on a linear axis."""


@dataclass(frozen=True, slots=True, eq=False)
class TopRCurve(Result):
    """Result of :func:`compute_top_r`; arrays have one number per rank.

    Attributes
    ----------
    ranks : ndarray of int
        1, 2, ..., max_rank.
    share : ndarray
        Share of rows whose label is among the r most probable classes.
    claimed : ndarray
        Mean over rows of the sum of their r largest probabilities: what the share should be.
    spread : ndarray
        Standard deviation of the share if the predictions were right.
    """

    ranks: Wholes
    share: Floats
    claimed: Floats
    spread: Floats


@inherit_parameters(accuracy)
def compute_top_r(
    y_true: Any,
    y_proba: Any,
    *,
    max_rank: int | None = None,
    sample_weight: Any = None,
    classes: Any = None,
    pos_label: Any = None,
) -> TopRCurve:
    """Compare how often the label is among the top r with the sum of the top r probabilities.

    Parameters
    ----------
    max_rank : int, optional
        Largest r; one less than the number of classes by default (all of them hold the label).

    Returns
    -------
    TopRCurve
        Frozen numbers, to print or to draw.

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
    predictions = read_predictions(y_true, y_proba, sample_weight, classes, pos_label=pos_label)
    largest = predictions.n_classes - 1 if max_rank is None else max_rank
    simplex.check_number("max_rank", largest, low=1, high=predictions.n_classes, whole=True)
    ranks = np.arange(1, int(largest) + 1)
    sums = np.zeros((3, len(ranks)))
    weight = 0.0
    for chunk in predictions.chunks():
        weight += float(chunk.weight.sum())
        cumulative = _cumulative(chunk, int(largest))
        sums[0] += chunk.weight @ _held(chunk, ranks)
        sums[1] += chunk.weight @ cumulative
        sums[2] += chunk.weight**2 @ (cumulative * (1.0 - cumulative))
    spread = np.sqrt(np.maximum(sums[2], 0.0)) / weight
    return TopRCurve(ranks, sums[0] / weight, sums[1] / weight, spread)


def _cumulative(chunk: Chunk, largest: int) -> Floats:
    """Sum of the r largest probabilities of each row, for every r."""
    rows = chunk.rows
    if largest < rows.shape[1]:
        rows = np.partition(rows, rows.shape[1] - largest, axis=1)[:, -largest:]
    ordered = np.sort(rows, axis=1)[:, ::-1]
    cumulative: Floats = np.minimum(np.cumsum(ordered, axis=1), 1.0)
    return cumulative


def _held(chunk: Chunk, ranks: Wholes) -> Floats:
    """Whether the label is among the top r, for every r; in parts where it ties."""
    own = chunk.rows[np.arange(len(chunk.rows)), chunk.class_index][:, None]
    above = np.count_nonzero(chunk.rows > own, axis=1)[:, None]
    tied = np.count_nonzero(chunk.rows == own, axis=1)[:, None]
    held: Floats = np.clip((ranks - above) / tied, 0.0, 1.0)
    return held


@inherit_parameters(draw_reliability)
def draw_top_r(
    curves: TopRCurve | Mapping[str, TopRCurve],
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw the gap between claim and observation against r, for one or several methods.

    Above zero the top r classes were promised more than they held. The band of each curve is
    where it would lie, nineteen times out of twenty, if its predictions were right.

    Parameters
    ----------
    curves : TopRCurve, or mapping of str to TopRCurve
        From :func:`compute_top_r`; several by name.

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
        raise ParameterError("curves is empty; give at least one")
    ax = style.axes_or_new(ax, (5.2, 3.8))
    ax.axhline(0.0, color=style.GREY, linestyle=":", linewidth=1.2)
    for place, (name, curve) in enumerate(curves.items()):
        look = style.look(place)._asdict()
        if len(curve.ranks) > FEW:
            look["marker"] = None
        label = style.entry(ax, name, f"top 1 right: {style.percent(curve.share[0])}")
        gap = 100 * (curve.claimed - curve.share)
        ax.plot(curve.ranks, gap, **look, markersize=4.5, linewidth=1.4, label=label)
        words = "if calibrated" if place == len(curves) - 1 else None
        _draw_band(ax, curve, words)
    most = max(int(curve.ranks[-1]) for curve in curves.values())
    if most <= FEW:
        ax.set_xlim(0.5, most + 0.5)
    style.number_ranks(ax, most, FEW)
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
