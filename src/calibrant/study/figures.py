"""The figures of a study: numbers come in, a matplotlib ``Figure`` goes out.

No figure touches the state of pyplot. Box plots are in ``boxes.py``.
"""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.extras import advice
from calibrant.plots import style
from calibrant.study import significance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

_SHORT = 18
# White in the middle, so that the cells in which a method wins or loses stand out.
_WIN_COLORS = (style.VERMILION, "#F7D9C4", "#FFFFFF", "#C6DFF0", style.BLUE)
_RANK_COLORS = (style.BLUE, "#C6DFF0", "#FFFFFF")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"drawing needs matplotlib; {advice()}") from error
    return Figure(figsize=(width, height))


def lay_out(figure: Figure) -> Figure:
    """Place the axes once; an engine that stays with the figure would do so in every draw."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08).execute(figure)
    return figure


def short(name: str) -> str:
    """Return a name of bounded length that matplotlib prints as it is."""
    return style.literal(style.shorten(name, _SHORT))


def figure_bytes(figure: Figure, suffix: str) -> bytes:
    """Return a figure as "png" or "svg"; the same numbers give the same bytes."""
    import matplotlib as mpl

    # Dates and random ids would differ between runs; text stays text, so that it can be searched.
    settings: Any = {
        "svg.hashsalt": "calibrant",
        "svg.fonttype": "none",
        "font.sans-serif": ["DejaVu Sans", "Verdana"],  # repeated in every word of an SVG
    }
    metadata = {"Date": None} if suffix == "svg" else {"Software": None}
    out = io.BytesIO()
    with mpl.rc_context(settings):
        figure.savefig(out, format=suffix, dpi=150, metadata=metadata, facecolor="white")
    return _shorten_svg(out.getvalue()) if suffix == "svg" else out.getvalue()


def _shorten_svg(svg: bytes) -> bytes:
    """Round coordinates to hundredths of a point and drop what draws nothing: half of a file."""
    svg = re.sub(rb"\n\s+", b"\n", svg)
    svg = re.sub(rb' transform="rotate\(-?0 [^"]*\)"', b"", svg)
    attribute = re.compile(rb'( (?:d|x|y|transform)="[^"]*")')
    return attribute.sub(lambda m: re.sub(rb"(\.\d\d)\d+", rb"\1", m[1]), svg)


def luminance(color: Sequence[float]) -> float:
    """Return the relative luminance of a colour of sRGB, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def readable_ink(ground: Sequence[float]) -> str:
    """Return black or white, whichever has the higher contrast: at least 4.5 on any ground."""
    return "black" if (luminance(ground) + 0.05) ** 2 > 1.05 * 0.05 else "white"


def _grid_of_numbers(
    ax: Axes, numbers: Matrix, colors: Sequence[str], limits: tuple[float, float], fmt: str
) -> None:
    """Draw a matrix as coloured cells with a number in each."""
    from matplotlib.colors import LinearSegmentedColormap

    table = LinearSegmentedColormap.from_list("cells", list(colors)).with_extremes(bad="#E9E9E9")
    ax.imshow(np.ma.masked_invalid(numbers), cmap=table, vmin=limits[0], vmax=limits[1])
    for (i, j), number in np.ndenumerate(numbers):
        if math.isnan(number):
            continue
        place = (number - limits[0]) / (limits[1] - limits[0])
        ink = readable_ink(table(min(max(place, 0.0), 1.0))[:3])
        ax.text(j, i, format(number, fmt), ha="center", va="center", fontsize=8, color=ink)
    ax.spines[:].set_visible(False)
    ax.set_xticks(np.arange(numbers.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(numbers.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1.2)
    ax.tick_params(which="both", length=0)


def _label_cells(ax: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    ax.set_xticks(range(len(columns)), [short(name) for name in columns], fontsize=9)
    ax.set_yticks(range(len(rows)), [short(name) for name in rows], fontsize=9)
    ax.xaxis.tick_top()
    for word in ax.get_xticklabels():
        word.set(rotation=45, ha="left", rotation_mode="anchor")


def draw_wins(shares: Matrix, methods: Sequence[str], title: str) -> Figure:
    """Draw how often the method of the row beats that of the column, in percent.

    Parameters
    ----------
    shares : ndarray of shape (n_methods, n_methods)
        From :func:`calibrant.study.ranks.win_shares`.
    methods : sequence of str
    title : str
    """
    size = 0.46 * len(methods)
    figure = new_figure(size + 2.0, size + 1.9)
    ax = figure.add_subplot()
    _grid_of_numbers(ax, 100 * shares, _WIN_COLORS, (0.0, 100.0), ".0f")
    _label_cells(ax, methods, methods)
    ax.set_xlabel("% of classifiers on which the row beats the column", fontsize=9)
    figure.suptitle(style.literal(title), fontsize=11, fontweight="bold")
    return lay_out(figure)


def draw_group_ranks(
    average: Matrix, groups: Sequence[str], methods: Sequence[str], title: str
) -> Figure:
    """Draw average ranks, groups of classifiers by methods."""
    figure = new_figure(0.5 * len(methods) + 2.6, 0.4 * len(groups) + 1.9)
    ax = figure.add_subplot()
    _grid_of_numbers(ax, average, _RANK_COLORS, (1.0, float(len(methods))), ".1f")
    _label_cells(ax, groups, methods)
    ax.set_aspect("auto")
    ax.set_xlabel("average rank: smaller and darker is better", fontsize=9)
    figure.suptitle(style.literal(title), fontsize=11, fontweight="bold")
    return lay_out(figure)


def draw_critical_difference(
    average: Matrix, methods: Sequence[str], difference: float, title: str
) -> Figure:
    """Draw the diagram of Demšar: methods on a line of ranks, bars join those that do not differ.

    Parameters
    ----------
    average : ndarray of shape (n_methods,)
        Average ranks.
    methods : sequence of str
    difference : float
        From :func:`calibrant.study.significance.critical_difference`.
    title : str
    """
    groups = significance.indistinct_groups(average, difference)
    order = np.argsort(average, kind="stable")
    half = math.ceil(len(order) / 2)
    depth = 0.55 + 0.22 * len(groups)
    figure = new_figure(8.0, 1.5 + 0.24 * (half + len(groups)))
    ax = figure.add_subplot()
    k = len(methods)
    ax.set_xlim(1 - 0.28 * (k - 1), k + 0.28 * (k - 1))
    ax.set_ylim(-(depth + 0.3 * half + 0.1), 1.0)
    ax.axis("off")
    ax.plot([1, k], [0, 0], color="black", linewidth=1.2)
    for rank in range(1, k + 1):
        ax.plot([rank, rank], [0, 0.12], color="black", linewidth=1)
        ax.text(rank, 0.18, str(rank), ha="center", va="bottom", fontsize=8.5)
    ax.plot([1, min(1 + difference, k + 0.28 * (k - 1))], [0.72, 0.72], color=style.GREY, lw=2.5)
    words = f"critical difference {difference:.2f}"
    ax.text(1, 0.78, words, ha="left", va="bottom", fontsize=8.5, color=style.GREY)
    for level, group in enumerate(groups):
        ends = average[list(group)]
        at = -(0.25 + 0.22 * level)
        ax.plot([ends.min() - 0.04, ends.max() + 0.04], [at, at], color=style.BLUE, lw=3.5)
    for place, j in enumerate(order):
        left = place < half
        row = place if left else k - 1 - place
        at = -(depth + 0.3 * row)
        end = 1 - 0.03 * (k - 1) if left else k + 0.03 * (k - 1)
        ax.plot([average[j], average[j], end], [0, at, at], color="black", linewidth=0.8)
        words = f"{short(methods[j])}  {average[j]:.2f}"
        if not left:
            words = f"{average[j]:.2f}  {short(methods[j])}"
        side = "right" if left else "left"
        gap = -0.008 * (k - 1) if left else 0.008 * (k - 1)
        ax.text(end + gap, at, words, ha=side, va="center", fontsize=9)
    style.head(ax, title)
    return lay_out(figure)


def draw_intervals(
    averages: Mapping[str, Matrix], bounds: Mapping[str, Matrix], methods: Sequence[str]
) -> Figure:
    """Draw average ranks with their bootstrap intervals, one panel for each metric.

    Parameters
    ----------
    averages : mapping of str to ndarray of shape (n_methods,)
        By the metric's title.
    bounds : mapping of str to ndarray of shape (n_methods, 2)
    methods : sequence of str
    """
    from matplotlib.ticker import MaxNLocator

    n_columns = min(3, len(averages))
    n_rows = math.ceil(len(averages) / n_columns)
    figure = new_figure(3.4 * n_columns + 0.6, n_rows * (0.24 * len(methods) + 0.9))
    for place, (metric, average) in enumerate(averages.items()):
        ax = figure.add_subplot(n_rows, n_columns, place + 1)
        style.tidy(ax)
        order = np.argsort(-average, kind="stable")
        low, high = bounds[metric][order].T
        rows = np.arange(len(order))
        ax.hlines(rows, low, high, color=style.SKY, linewidth=3)
        ax.plot(average[order], rows, "o", color=style.BLUE, markersize=5)
        ax.set_yticks(rows, [short(methods[j]) for j in order], fontsize=8.5)
        ax.set_xlim(0.8, len(methods) + 0.2)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.tick_params(axis="x", labelsize=8.5)
        style.head(ax, metric)
    figure.supxlabel("average rank, with 95 % interval over data sets", fontsize=9)
    return lay_out(figure)


def draw_sensitivity(
    averages: Mapping[str, Mapping[int, Matrix]], methods: Sequence[str]
) -> Figure:
    """Draw how average ranks move with the number of bins, one panel for each metric."""
    figure = new_figure(3.4 * len(averages) + 0.6, 0.26 * len(methods) + 1.4)
    for place, (metric, by_bins) in enumerate(averages.items()):
        ax = figure.add_subplot(1, len(averages), place + 1)
        style.tidy(ax)
        numbers = np.stack(list(by_bins.values()))
        order = np.argsort(-numbers[len(numbers) // 2], kind="stable")
        rows = np.arange(len(order))
        spans = numbers[:, order]
        ax.hlines(rows, spans.min(axis=0), spans.max(axis=0), color=style.PALE, linewidth=2)
        for turn, n_bins in enumerate(by_bins):
            look = style.look(turn)
            marks: dict[str, Any] = {"color": look.color, "marker": look.marker, "markersize": 5.5}
            label = f"{n_bins} bins"
            ax.plot(spans[turn], rows, linestyle="none", alpha=0.9, label=label, **marks)
        ax.set_yticks(rows, [short(methods[j]) for j in order], fontsize=8.5)
        ax.tick_params(axis="x", labelsize=8.5)
        if place == 0:
            figure.legend(loc="outside upper center", ncols=len(by_bins), fontsize=9, frameon=False)
        style.head(ax, metric)
    figure.supxlabel("average rank", fontsize=9)
    return lay_out(figure)


def draw_times(seconds: Matrix, methods: Sequence[str]) -> Figure:
    """Draw the seconds of all fits, one line of points per method, the median marked.

    Parameters
    ----------
    seconds : ndarray of shape (n_cases, n_methods)
    methods : sequence of str
    """
    figure = new_figure(7.2, 0.3 * len(methods) + 1.2)
    ax = figure.add_subplot()
    style.tidy(ax)
    ax.set_xscale("log")
    held = [column[~np.isnan(column) & (column > 0.0)] for column in seconds.T]
    medians = np.array([np.median(part) if len(part) else np.inf for part in held])
    order = np.argsort(-medians, kind="stable")
    for row, j in enumerate(order):
        if len(held[j]):
            ax.plot(held[j], np.full(len(held[j]), row), "o", color=style.SKY, ms=4, alpha=0.6)
            ax.plot(medians[j], row, "|", color="black", markersize=13, markeredgewidth=2)
    ax.set_yticks(range(len(order)), [short(methods[j]) for j in order], fontsize=9)
    ax.set_ylim(-0.7, len(order) - 0.3)
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    ax.set_xlabel("seconds of a fit; a point per classifier, the median as a bar", fontsize=9)
    return lay_out(figure)
