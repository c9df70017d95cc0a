"""What calibration does to every cell: the paper's Figure 2 (right), and the steps behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex
from calibrant.plots import style

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from calibrant.step_function import StepFunction

HEIGHTS = (3.0, 1.0)
"""Of the curves and of the bin sizes under them."""


@dataclass(frozen=True, slots=True)
class CalibrationEffect:
    """Result of :func:`compute_calibration_effect`.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Edges of the bins of the uncalibrated probability.
    before : ndarray of shape (n_bins,)
        Mean uncalibrated probability of each bin; NaN where it is empty.
    after : dict of str to ndarray of shape (n_bins,)
        Mean calibrated probability of each bin, by method.
    sizes : ndarray of shape (n_bins,)
        Number of cells of each bin.
    """

    edges: NDArray[np.float64]
    before: NDArray[np.float64]
    after: dict[str, NDArray[np.float64]]
    sizes: NDArray[np.int64]

    def __post_init__(self) -> None:
        style.freeze(self)
        for values in self.after.values():
            values.setflags(write=False)


def compute_calibration_effect(
    before: Any,
    after_by_method: Mapping[str, Any],
    *,
    n_bins: int = 30,
    lowest: float = 0.01,
) -> CalibrationEffect:
    """Mean calibrated probability as a function of the uncalibrated one, over all cells.

    Parameters
    ----------
    before : array-like of shape (n_rows, n_classes)
        Uncalibrated probabilities.
    after_by_method : mapping of str to array-like of shape (n_rows, n_classes)
        Calibrated probabilities of the same rows, by the name of the method.
    n_bins : int, default=30
        Number of bins, of equal width.
    lowest : float, default=0.01
        Cells below are left out: they are nearly all there are. The bins cover [lowest, 1].

    Returns
    -------
    CalibrationEffect
        Frozen numbers, to print or to draw.

    Examples
    --------
    >>> from calibrant.plots.calibration_map import compute_calibration_effect
    >>> effect = compute_calibration_effect(
    ...     [[0.9, 0.1], [0.4, 0.6]], {"half way": [[0.7, 0.3], [0.45, 0.55]]}, n_bins=2, lowest=0.0
    ... )
    >>> effect.sizes, effect.before, effect.after["half way"]
    (array([2, 2]), array([0.25, 0.75]), array([0.375, 0.625]))
    """
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    simplex.check_number("lowest", lowest, low=0.0, high=0.999)
    old = simplex.check_scores(before)
    edges = np.linspace(lowest, 1.0, int(n_bins) + 1)
    inside = old >= lowest
    kept = old[inside]
    place = np.minimum(np.searchsorted(edges, kept, side="right") - 1, int(n_bins) - 1)
    sizes = np.bincount(place, minlength=int(n_bins))

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.bincount(place, weights=values, minlength=int(n_bins))
        means = np.full(int(n_bins), np.nan)
        np.divide(sums, sizes, out=means, where=sizes > 0)
        return means

    after: dict[str, NDArray[np.float64]] = {}
    for name, scores in after_by_method.items():
        new = simplex.check_scores(scores)
        if new.shape != old.shape:
            raise errors.ShapeError(
                f"before has shape {old.shape}, {name!r} has shape {new.shape}; make them alike"
            )
        after[name] = mean(new[inside])
    return CalibrationEffect(edges, mean(kept), after, sizes)


def draw_calibration_effect(
    effect: CalibrationEffect,
    axes: tuple[Axes, Axes] | None = None,
    *,
    title: str | None = None,
) -> tuple[Axes, Axes]:
    """Draw the paper's Figure 2 (right): curves above, bin sizes underneath.

    Parameters
    ----------
    effect : CalibrationEffect
        From :func:`compute_calibration_effect`.
    axes : pair of matplotlib Axes, optional
        For the curves and for the bin sizes; a new figure by default.
    title : str, optional
        Printed above.

    Returns
    -------
    axes : pair of matplotlib Axes
    """
    upper, lower = axes if axes is not None else _stacked()
    style.tidy(upper)
    upper.plot([0, 1], [0, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    for place, (name, values) in enumerate(effect.after.items()):
        look = style.look(place)
        upper.plot(
            effect.before,
            values,
            color=look.color,
            linestyle=look.linestyle,
            marker=look.marker,
            markersize=4.5,
            label=style.literal(style.shorten(name)),
        )
    upper.set(xlim=(0, 1), ylim=(0, 1))
    style.name_axes(upper, "", "calibrated, mean")
    style.add_legend(upper)
    style.head(upper, title or "Effect of calibration on every cell")
    _draw_sizes(lower, effect.edges, effect.sizes, "uncalibrated probability", "cells")
    lower.set_xlim(0, 1)
    return upper, lower


def draw_step_function(
    step: StepFunction,
    axes: tuple[Axes, Axes] | None = None,
    *,
    lowest: float = 1e-6,
    title: str | None = None,
) -> tuple[Axes, Axes]:
    """Draw a fitted map, block by block, with the weight of the cells of each block underneath.

    Both axes are logarithmic, since most blocks lie below 1 %; values of zero are drawn at the
    lower edge. The scale of the values is free: rows are divided by their sums afterwards.

    Parameters
    ----------
    step : StepFunction
        For instance ``calibration_map_`` of a fitted ``NormalizationAwareIsotonic``.
    axes : pair of matplotlib Axes, optional
        For the map and for the sizes; a new figure by default.
    lowest : float, default=1e-6
        Lower end of the axis of probabilities.
    title : str, optional
        Printed above.

    Returns
    -------
    axes : pair of matplotlib Axes
    """
    simplex.check_number("lowest", lowest, low=1e-300, high=0.5)
    upper, lower = axes if axes is not None else _stacked()
    style.tidy(upper)
    shown = np.append(step.thresholds[1:], 1.0) > lowest
    starts = np.maximum(step.thresholds[shown], lowest)
    edges = np.append(starts, 1.0)
    values = step.values[shown]
    floor = 0.5 * float(np.min(values[values > 0.0]))
    upper.stairs(np.maximum(values, floor), edges, baseline=None, color=style.BLUE, linewidth=1.6)
    upper.set(xscale="log", yscale="log", xlim=(lowest, 1))
    style.name_axes(upper, "", "g(probability)")
    if values[0] == 0.0:
        upper.annotate("0", (starts[0], floor), xytext=(4, 4), textcoords="offset points")
    style.head(upper, title or f"Fitted map of {step.n_blocks} blocks")
    lower.set(xscale="log", xlim=(lowest, 1))
    _draw_sizes(lower, edges, step.sizes[shown], "probability", "weight of cells")
    return upper, lower


def _stacked() -> tuple[Axes, Axes]:
    figure, axes = style.pyplot().subplots(
        2, 1, figsize=(5.2, 5.6), layout="constrained", sharex=True, height_ratios=HEIGHTS
    )
    figure.get_layout_engine().set(**style.PADS)
    return axes[0], axes[1]


def _draw_sizes(
    ax: Axes, edges: NDArray[np.float64], sizes: NDArray[Any], x_label: str, y_label: str
) -> None:
    style.tidy(ax)
    ax.stairs(sizes, edges, fill=True, color=style.PALE, baseline=0.8)
    ax.stairs(sizes, edges, color=style.GREY, linewidth=0.8, baseline=0.8)
    ax.set_yscale("log")
    style.name_axes(ax, x_label, y_label)
    ax.set_ylim(bottom=0.8, top=2.0 * max(float(np.max(sizes)), 1.0))
