"""The figures of a study: numbers come in, a matplotlib ``Figure`` goes out.

No figure touches the state of pyplot.
"""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _drawing as style
from calibrant._extras import needed
from calibrant._text import shorten
from calibrant.study._ranks import indistinct_groups

try:
    import matplotlib as mpl
    from matplotlib.cbook import boxplot_stats
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
except ImportError as error:
    raise needed(error, "drawing", "cli") from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from calibrant._types import Floats

_SHORT = 18
# White in the middle, so that the cells in which a method wins or loses stand out.
_WIN_COLORS = (style.VERMILION, "#F7D9C4", "#FFFFFF", "#C6DFF0", style.BLUE)


def lay_out(figure: Figure, title: str = "") -> Figure:
    """Place the axes once; an engine that stays with the figure would do so in every draw."""
    if title:
        figure.suptitle(style.literal(title), fontsize=11, fontweight="bold")
    ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08).execute(figure)
    return figure


def short(name: str) -> str:
    """Return a name of bounded length that matplotlib prints as it is."""
    return style.literal(shorten(name, _SHORT))


def figure_bytes(figure: Figure, suffix: str) -> bytes:
    """Return a figure as "png" or "svg"; the same numbers give the same bytes."""
    # Dates and random ids would differ between runs; text stays text, so that it can be searched.
    metadata, out = {"Date": None} if suffix == "svg" else {"Software": None}, io.BytesIO()
    with mpl.rc_context(
        {
            "svg.hashsalt": "calibrant",
            "svg.fonttype": "none",
            "font.sans-serif": ["DejaVu Sans", "Verdana"],  # repeated in every word of an SVG
        }
    ):
        figure.savefig(out, format=suffix, dpi=150, metadata=metadata, facecolor="white")
    return _shorten_svg(out.getvalue()) if suffix == "svg" else out.getvalue()


def _shorten_svg(svg: bytes) -> bytes:
    """Round coordinates to hundredths of a point and drop what draws nothing: half of a file."""
    svg = re.sub(rb"\n\s+", b"\n", svg)
    svg = re.sub(rb' transform="rotate\(-?0 [^"]*\)"', b"", svg)
    attribute = re.compile(rb'( (?:d|x|y|transform)="[^"]*")')
    return attribute.sub(lambda m: re.sub(rb"(\.\d\d)\d+", rb"\1", m[1]), svg)


def readable_ink(ground: Sequence[float]) -> str:
    """Return black or white, whichever has the higher contrast by WCAG 2: at least 4.5."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in ground[:3]]
    luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def draw_wins(shares: Floats, methods: Sequence[str], title: str) -> Figure:
    """Draw how often the method of the row beats that of the column, as cells with percentages."""
    k = len(methods)
    figure = Figure(figsize=(0.46 * k + 2.0, 0.46 * k + 1.9))
    ax = figure.add_subplot()
    plain = LinearSegmentedColormap.from_list("wins", list(_WIN_COLORS))
    colors = plain.with_extremes(bad="#E9E9E9")
    ax.imshow(np.ma.masked_invalid(shares), cmap=colors, vmin=0.0, vmax=1.0)
    for i, j in np.argwhere(~np.isnan(shares)):
        words, ink = f"{100 * shares[i, j]:.0f}", readable_ink(colors(shares[i, j]))
        ax.text(j, i, words, ha="center", va="center", fontsize=8, color=ink)
    ax.spines[:].set_visible(False)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(np.arange(k + 1) - 0.5, minor=True)
        axis.set_ticks(range(k), [short(name) for name in methods], fontsize=9)
    ax.grid(which="minor", color="white", linewidth=1.2)
    ax.tick_params(which="both", length=0)
    ax.xaxis.tick_top()
    for word in ax.get_xticklabels():
        word.set(rotation=45, ha="left", rotation_mode="anchor")
    ax.set_xlabel("% of classifiers on which the row beats the column", fontsize=9)
    return lay_out(figure, title)


def draw_critical_difference(
    average: Floats, methods: Sequence[str], difference: float, title: str
) -> Figure:
    """Draw the diagram of Demšar: methods on a line of ranks, bars join those that do not differ.

    ``average`` are ranks, ``difference`` the critical one of them.
    """
    groups = indistinct_groups(average, difference)
    order = np.argsort(average, kind="stable")
    half = math.ceil(len(order) / 2)
    depth = 0.55 + 0.22 * len(groups)
    figure = Figure(figsize=(8.0, 1.5 + 0.24 * (half + len(groups))))
    ax = figure.add_subplot()
    k = len(methods)
    ax.set_xlim(1 - 0.28 * (k - 1), k + 0.28 * (k - 1))
    ax.set_ylim(-(depth + 0.3 * half + 0.1), 1.0)
    ax.axis("off")
    ax.plot([1, k], [0, 0], color="black", linewidth=1.2)
    for rank in range(1, k + 1):
        ax.plot([rank, rank], [0, 0.12], color="black", linewidth=1)
        if k <= 15 or rank in {1, k} or (rank % 5 == 0 and rank < k - 1):  # apart from others
            ax.text(rank, 0.18, str(rank), ha="center", va="bottom", fontsize=8.5)
    ax.plot([1, min(1 + difference, k + 0.28 * (k - 1))], [0.72, 0.72], color=style.GREY, lw=2.5)
    words = f"critical difference {difference:.2f}"
    ax.text(1, 0.78, words, ha="left", va="bottom", fontsize=8.5, color=style.GREY)
    for level, group in enumerate(groups):
        ends = average[list(group)]
        at = -(0.25 + 0.22 * level)
        ax.plot([ends.min() - 0.04, ends.max() + 0.04], [at, at], color=style.BLUE, lw=3.5)
    for place, j in enumerate(order):
        name, number = short(methods[j]), f"{average[j]:.2f}"
        if place < half:  # beside the left end, from the top
            row, end, gap, side, words = place, 1.0, -0.008, "right", f"{name}  {number}"
        else:
            row, end, gap, side, words = k - 1 - place, k, 0.008, "left", f"{number}  {name}"
        at = -(depth + 0.3 * row)
        end += math.copysign(0.03, gap) * (k - 1)
        ax.plot([average[j], average[j], end], [0, at, at], color="black", linewidth=0.8)
        ax.text(end + gap * (k - 1), at, words, ha=side, va="center", fontsize=9)
    style.add_heading(ax, title)
    return lay_out(figure)


def draw_times(seconds: Floats, methods: Sequence[str]) -> Figure:
    """Draw the seconds of all fits, one line of points per method, the median marked."""
    figure = Figure(figsize=(7.2, 0.3 * len(methods) + 1.2))
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


def draw_boxes(values: pd.DataFrame, methods: Sequence[str], label: str, title: str) -> Figure:
    """Draw a box per method in a panel of all classifiers and in one for each data set.

    Every classifier is a point as well: most data sets have few, and a box of three says nothing.
    What is not finite is left out.
    """
    parts = [("all", values), *values.groupby(level="dataset")]
    n_columns = 4 if len(parts) > 6 else 3
    n_rows = math.ceil(len(parts) / n_columns)
    height = 0.19 * len(methods) + 0.75
    figure = Figure(figsize=(2.3 * n_columns + 1.4, n_rows * height + 0.5))
    first: Axes | None = None
    for place, (name, part) in enumerate(parts):
        ax = figure.add_subplot(n_rows, n_columns, place + 1, sharey=first)
        first = first or ax
        _draw_panel(ax, part.to_numpy(), place)
        style.add_heading(ax, f"{shorten(str(name), 20)} ({len(part)})")
        ax.tick_params(labelleft=place % n_columns == 0, labelsize=8)
    if first is not None:
        first.set_yticks(range(len(methods)), [short(method) for method in methods], fontsize=8.5)
        first.set_ylim(len(methods) - 0.4, -0.6)
    figure.supxlabel(label, fontsize=9)
    return lay_out(figure, title)


def _draw_panel(ax: Axes, part: Floats, seed: int) -> None:
    """Draw boxes where there are at least four values, and all values as points."""
    style.tidy(ax)
    rng = np.random.default_rng(seed)  # points are moved apart, always in the same way
    for row, column in enumerate(part.T):
        held = column[np.isfinite(column)]
        if len(held) >= 4:
            (box,) = boxplot_stats(held)
            ax.hlines(row, box["whislo"], box["whishi"], color=style.GREY, linewidth=1)
            (bar,) = ax.barh(row, box["iqr"], 0.62, box["q1"])
            bar.set(facecolor="#EFEFEF", edgecolor=style.GREY)
            ax.vlines(box["med"], row - 0.31, row + 0.31, color="black", linewidth=1.6)
        spread = row + rng.uniform(-0.14, 0.14, len(held)) * (len(held) > 1)
        color = style.look(row).color
        ax.plot(held, spread, "o", color=color, markersize=2.8, alpha=0.75, zorder=3)
