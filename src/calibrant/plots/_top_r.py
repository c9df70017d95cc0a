"""How often the label is among the r most probable classes, and how often they say it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _drawing as style
from calibrant import _simplex as simplex
from calibrant import errors
from calibrant._result import Result, doc, result
from calibrant._text import percent
from calibrant.metrics._predictions import Predictions, read
from calibrant.metrics._statistic import Statistic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from calibrant._maps.base import Floats, Wholes
    from calibrant.scale import Chunks

FEW_RANKS = 30
"""Ranks that have a marker each, on a linear axis."""


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
        label = style.entry(ax, name, f"top 1 right: {percent(curve.share[0])}")
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
