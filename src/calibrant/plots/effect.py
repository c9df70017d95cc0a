"""What became of the confidences, whatever the method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import errors, simplex
from calibrant.plots import style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """Result of :func:`compute_effect`; arrays have one number per bin.

    Attributes
    ----------
    before : ndarray
        Mean confidence before, in bins of equal mass.
    low, median, high : ndarray
        The 5 %, 50 % and 95 % quantiles of what became of it: the probability of the same class.
    changed : float
        Share of rows whose most probable class is another one now.
    """

    before: NDArray[np.float64]
    low: NDArray[np.float64]
    median: NDArray[np.float64]
    high: NDArray[np.float64]
    changed: float

    def __post_init__(self) -> None:
        style.freeze(self)


def compute_effect(
    before: Any, after: Any, *, n_bins: int = 20, sample_weight: Any = None
) -> Effect:
    """Summarise what became of the confidence of each row, whatever the method.

    Parameters
    ----------
    before, after : array-like of shape (n_rows, n_classes)
        Probabilities before and after calibration.
    n_bins : int, default=20
        Number of bins, of equal mass.
    sample_weight : array-like of shape (n_rows,), optional
        Weight of each row.

    Returns
    -------
    Effect
        Frozen numbers, to print or to draw.

    Examples
    --------
    >>> from calibrant.plots import compute_effect
    >>> effect = compute_effect([[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.55, 0.45]], n_bins=2)
    >>> effect.before, effect.median, effect.changed
    (array([0.6, 0.9]), array([0.45, 0.7 ]), 0.5)
    """
    simplex.check_number("n_bins", n_bins, low=1, whole=True)
    old, new = simplex.check_scores(before), simplex.check_scores(after)
    if old.shape != new.shape or not len(old):
        raise errors.ShapeError(f"before has shape {old.shape}, after {new.shape}; make them alike")
    weight = np.ones(len(old)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    top = old.argmax(axis=1)
    rows = np.arange(len(old))
    x, y = old[rows, top], new[rows, top]
    order = np.argsort(x, kind="stable")
    middle = np.cumsum(weight[order]) - weight[order] / 2
    bins = np.minimum((n_bins * middle / weight.sum()).astype(np.int64), int(n_bins) - 1)
    parts = [order[bins == b] for b in range(int(n_bins))]
    parts = [part for part in parts if weight[part].sum() > 0]
    quantiles = np.array([_quantiles(y[part], weight[part]) for part in parts])
    low, median, high = quantiles.T.copy()
    return Effect(
        np.array([np.average(x[part], weights=weight[part]) for part in parts]),
        low,
        median,
        high,
        changed=float(weight @ (y < new.max(axis=1)) / weight.sum()),
    )


def _quantiles(values: NDArray[np.float64], weight: NDArray[np.float64]) -> Sequence[float]:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    places = np.searchsorted(reached, [0.05, 0.5, 0.95])
    found: list[float] = values[order][np.minimum(places, len(values) - 1)].tolist()
    return found


def draw_effect(effect: Effect, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw what became of the confidence, with the middle nine tenths of the rows as a band.

    Parameters
    ----------
    effect : Effect
        From :func:`compute_effect`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional
        Printed above.

    Returns
    -------
    ax : matplotlib Axes
    """
    ax = style.axes_or_new(ax)
    style.tidy(ax)
    ax.plot([0, 1], [0, 1], ":", color=style.GREY, linewidth=1.2, label="unchanged")
    band: dict[str, Any] = {
        "color": style.SKY,
        "alpha": 0.35,
        "linewidth": 0,
        "label": "nine rows in ten",
    }
    ax.fill_between(effect.before, effect.low, effect.high, **band)
    ax.plot(effect.before, effect.median, "o-", color=style.BLUE, markersize=4, label="median")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    style.name_axes(ax, "confidence before", "probability of the same class after")
    style.add_legend(ax)
    if title is not None:
        style.head(ax, title, [f"{style.percent(effect.changed)} of rows change their class"])
    return ax
