"""How sure a classifier is, and how often it is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.metrics.reliability import reliability_curve
from calibrant.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceHistogram:
    """Result of :func:`compute_confidence_histogram`; arrays have one number per bin.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Bin b is (edges[b], edges[b + 1]], the first with its lower edge.
    right, wrong : ndarray
        Share of all rows whose confidence is in the bin, by whether the prediction is right.
    accuracy : float
        Share of rows that are right.
    mean_confidence : float
        Above the accuracy for an over-confident classifier.
    """

    edges: NDArray[np.float64]
    right: NDArray[np.float64]
    wrong: NDArray[np.float64]
    accuracy: float
    mean_confidence: float

    def __post_init__(self) -> None:
        style.freeze(self)

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus accuracy."""
        return self.mean_confidence - self.accuracy


def compute_confidence_histogram(
    y_true: Any, y_proba: Any, *, n_bins: int = 20, sample_weight: Any = None, classes: Any = None
) -> ConfidenceHistogram:
    """Histogram of the largest probability of each row, split by right and wrong.

    Parameters
    ----------
    y_true, y_proba, sample_weight, classes
        As in :func:`calibrant.metrics.reliability_curve`.
    n_bins : int, default=20
        Number of bins, of equal width.

    Returns
    -------
    ConfidenceHistogram
        Frozen numbers, to print or to draw.

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
    curve = reliability_curve(
        y_true,
        y_proba,
        n_bins=n_bins,
        sample_weight=sample_weight,
        classes=classes,
        n_resamples=0,
    )
    share = curve.weight / curve.weight.sum()
    right = share * np.nan_to_num(curve.frequency)
    return ConfidenceHistogram(
        edges=curve.edges,
        right=right,
        wrong=share - right,
        accuracy=float(right.sum()),
        mean_confidence=float(share @ np.nan_to_num(curve.mean_probability)),
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
        Printed above.

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
    style.tidy(ax)
    left, width = histogram.edges[:-1], np.diff(histogram.edges)
    common: dict[str, Any] = {
        "width": width,
        "align": "edge",
        "edgecolor": "white",
        "linewidth": 0.5,
    }
    ax.bar(left, histogram.right, color=style.SKY, label="right", **common)
    ax.bar(
        left,
        histogram.wrong,
        bottom=histogram.right,
        color=style.VERMILION,
        hatch="////",
        label="wrong",
        **common,
    )
    lines = {"accuracy": (histogram.accuracy, "-"), "confidence": (histogram.mean_confidence, "--")}
    for name, (value, line) in lines.items():
        words = name if name == "accuracy" else "mean confidence"
        label = f"{words} {style.percent(value)}"
        ax.axvline(value, color=style.BLACK, linestyle=line, linewidth=1.4, label=label)
    ax.set_xlim(0, 1)
    style.name_axes(ax, "confidence", "share of rows")
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    style.add_legend(ax)
    if title is not None:
        style.head(ax, title)
    return ax
