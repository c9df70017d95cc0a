"""``SegmentDisplay``: predicted and observed shares of segments of rows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _drawing as style
from calibrant._text import p_words, shorten
from calibrant.metrics import calibration_segments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant.metrics import SegmentTable

MOST_DRAWN, LETTERS = 12, 34
"""Segments that are drawn, and letters of a line of their names."""


class SegmentDisplay:
    """Predicted and observed shares of segments of rows, a line for each.

    Parameters
    ----------
    result : SegmentTable
        From :func:`calibrant.metrics.calibration_segments`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.

    Examples
    --------
    >>> from calibrant.plots import SegmentDisplay
    >>> display = SegmentDisplay.from_predictions(
    ...     [0, 1] * 50, [0.2, 0.7] * 50, [["a"], ["b"]] * 50
    ... )  # doctest: +SKIP
    """

    ax_: Axes
    figure_: Any

    def __init__(self, result: SegmentTable) -> None:
        self.result = result

    def plot(self, ax: Axes | None = None) -> SegmentDisplay:
        """Draw the segments, the worst at the top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : SegmentDisplay
        """
        shown = self.result.segments[:MOST_DRAWN]
        self.ax_ = style.axes_or_new(ax, (6.4, 1.3 + 0.5 * max(len(shown), 2)))
        self.figure_ = self.ax_.figure
        y = np.arange(len(shown))
        said = np.array([100 * own.predicted for own in shown])
        seen, low, high = 100 * np.array([own.observed for own in shown]).reshape(-1, 3).T
        self.ax_.hlines(y, low, high, color=style.BLUE, linewidth=1.6)
        level = f"observed, {100 * (1 - self.result.alpha):g} % interval"
        self.ax_.plot(seen, y, "o", color=style.BLUE, markersize=6, label=level)
        (points,) = self.ax_.plot(said, y, "D", markersize=5.5, label="predicted")
        points.set(color=style.VERMILION, markerfacecolor="white", markeredgewidth=1.4)
        names = []
        for own in shown:
            name = "\n".join(textwrap.wrap(shorten(own.condition, 2 * LETTERS), LETTERS))
            names.append(style.literal(f"{name}\n{own.n_rows:,.7g} rows, {p_words(own.p_value)}"))
        self.ax_.set_yticks(y, names, fontsize=8)
        self.ax_.set(ylim=(max(len(shown), 2) - 0.5, -0.5))
        kind = style.literal(shorten(str(self.result.kind)))
        share = "of rows that are right" if kind == "confidence" else f"of {kind}"
        self.ax_.set_xlabel(f"share {share}, %")
        if shown:
            self.ax_.legend(
                loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8, frameon=False
            )
        else:
            words = "\n".join(textwrap.wrap(self.result.describe()[0], LETTERS))
            self.ax_.set_xticks([])
            self.ax_.text(0.5, 0.5, words, transform=self.ax_.transAxes, ha="center", va="center")
        return self

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike | Predictions,
        y_proba: ArrayLike | None = None,
        features: Any = None,
        *,
        kind: Any = None,
        alpha: float = 0.05,
        max_conditions: int = 2,
        min_rows: float = 50,
        random_state: Any = 0,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        pos_label: Any = None,
        ax: Axes | None = None,
    ) -> SegmentDisplay:
        """Find the segments of predictions, and draw them.

        Parameters
        ----------
        y_true, y_proba, features, kind, alpha, max_conditions, min_rows
            As in :func:`calibrant.metrics.calibration_segments`.
        random_state, sample_weight, classes, pos_label
            As in :func:`calibrant.metrics.calibration_segments`.
        ax
            As in :meth:`plot`.

        Returns
        -------
        display : SegmentDisplay
        """
        result = calibration_segments(
            y_true,
            y_proba,
            features,
            kind=kind,
            alpha=alpha,
            max_conditions=max_conditions,
            min_rows=min_rows,
            random_state=random_state,
            sample_weight=sample_weight,
            classes=classes,
            pos_label=pos_label,
        )
        return cls(result).plot(ax)
