"""Box plots of a metric by method: over data sets, and over architectures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant.plots import style
from calibrant.study.figures import lay_out, new_figure, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


class Box(NamedTuple):
    """Quartiles, and the last values within 1.5 times their distance, as Tukey has them."""

    low: float
    first: float
    median: float
    third: float
    high: float


def box_of(values: Matrix) -> Box:
    """Return the numbers of a box plot.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.study.boxes import box_of
    >>> box_of(np.array([1.0, 2.0, 3.0, 4.0, 20.0]))
    Box(low=1.0, first=2.0, median=3.0, third=4.0, high=4.0)
    """
    first, median, third = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    within = values[(values >= first - reach) & (values <= third + reach)]
    return Box(float(within.min()), first, median, third, float(within.max()))


def draw_boxes(
    values: Matrix,
    groups: Sequence[str],
    methods: Sequence[str],
    label: str,
    title: str,
) -> Figure:
    """Draw a box per method in a panel of all classifiers and in one for each group.

    Parameters
    ----------
    values : ndarray of shape (n_cases, n_methods)
        What is not finite is left out.
    groups : sequence of str, of length n_cases
        The data set or architecture of each case.
    methods : sequence of str
    label : str
        Of the horizontal axes.
    title : str

    Notes
    -----
    Every classifier is a point as well: most groups have few, and a box of three says nothing.
    """
    names = np.asarray(groups)
    present = sorted({str(name) for name in names})
    n_columns = 4 if len(present) > 5 else 3
    n_rows = math.ceil((len(present) + 1) / n_columns)
    height = 0.19 * len(methods) + 0.75
    figure = new_figure(2.3 * n_columns + 1.4, n_rows * height + 0.5)
    first: Axes | None = None
    for place, name in enumerate([None, *present]):
        ax = figure.add_subplot(n_rows, n_columns, place + 1, sharey=first)
        first = first or ax
        part = values if name is None else values[names == name]
        _draw_panel(ax, part, place)
        words = f"all ({len(part)})" if name is None else f"{style.shorten(name, 20)} ({len(part)})"
        style.head(ax, words)
        ax.tick_params(labelleft=place % n_columns == 0, labelsize=8)
    if first is not None:
        first.set_yticks(range(len(methods)), [short(method) for method in methods], fontsize=8.5)
        first.set_ylim(len(methods) - 0.4, -0.6)
    figure.supxlabel(label, fontsize=9)
    figure.suptitle(style.literal(title), fontsize=11, fontweight="bold")
    return lay_out(figure)


def _draw_panel(ax: Axes, part: Matrix, seed: int) -> None:
    """Draw boxes where there are at least four values, and all values as points."""
    style.tidy(ax)
    rng = np.random.default_rng(seed)  # points are moved apart, always in the same way
    for row, column in enumerate(part.T):
        held = column[np.isfinite(column)]
        color = style.look(row).color
        if len(held) >= 4:
            box = box_of(held)
            ax.hlines(row, box.low, box.high, color=style.GREY, linewidth=1)
            width = box.third - box.first
            ax.barh(row, width, 0.62, box.first, facecolor="#EFEFEF", edgecolor=style.GREY)
            ax.vlines(box.median, row - 0.31, row + 0.31, color="black", linewidth=1.6)
        spread = row + rng.uniform(-0.14, 0.14, len(held)) * (len(held) > 1)
        ax.plot(held, spread, "o", color=color, markersize=2.8, alpha=0.75, zorder=3)
