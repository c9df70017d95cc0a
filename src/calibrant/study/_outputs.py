"""``write_outputs``: a study as Markdown, LaTeX, PNG, SVG and one page.

The page is one HTML file, with nothing to load and nothing that runs. No figure touches the state
of pyplot.
"""

from __future__ import annotations

import base64
import io
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import _drawing as style
from calibrant._atomic_file import replace_file
from calibrant._extras import needed
from calibrant._text import p_words, shorten
from calibrant._trial import UNCALIBRATED
from calibrant.errors import ParameterError
from calibrant.study import _ranks as ranks
from calibrant.study import _tables as tables
from calibrant.study._tables import columns_of, method_title, metric_title

try:
    import matplotlib as mpl
    from matplotlib.cbook import boxplot_stats
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
except ImportError as error:
    raise needed(error, "drawing", "cli") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from matplotlib.axes import Axes

    from calibrant._types import Floats
    from calibrant.study._table import StudyTable

SECTIONS = {
    "ranks": "Average ranks",
    "significance": "More than chance?",
    "wins": "Head to head",
    "boxes": "By data set",
    "bins": "Numbers of bins",
    "times": "Wall-clock times",
    "models": "Every classifier",
}
_HOME = {"intervals": "significance", "tests": "significance", "sensitivity": "bins"}
"""Section of tables whose names do not begin with it."""

STANDARDIZED = ("nll", "brier", "cw-ece")
PLAIN = ("conf-ece", "tece", "cw-ece")
"""Which box plots the paper has: NLL and Brier score standardised, cw-ECE both ways."""


class Picture(NamedTuple):
    """A figure, the name of its files, its section of the page, its title and its caption."""

    name: str
    section: str
    title: str
    caption: str
    figure: Figure


def write_outputs(table: StudyTable, directory: str | os.PathLike[str]) -> list[Path]:
    """Write the tables and figures of a study, and a page that shows all of them.

    Parameters
    ----------
    table : StudyTable
        Table with at least two methods and one metric of the paper.
    directory : path-like
        Directory to write to; it is created if needed. Other files in it are kept.

    Returns
    -------
    paths : list of Path
        What was written: ``tables/*.md``, ``tables/*.tex``, ``figures/*.png``,
        ``figures/*.svg`` and ``index.html``.

    Raises
    ------
    ParameterError
        If there are fewer than two methods, or no metric of the paper.

    Examples
    --------
    >>> from calibrant.study import read_table, write_outputs
    >>> paths = write_outputs(read_table("out/study.csv"), "out")  # doctest: +SKIP
    """
    if len(table.methods) < 2 or not ranks.known_metrics(table, ranks.TABLE_METRICS):
        raise ParameterError(
            f"table has the methods {table.methods!r} and {len(table.frame)} numbers; ranks need "
            f"two methods and one of the metrics {ranks.TABLE_METRICS}",
            argument="table",
        )
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as file:
            file.write(content)
        written.append(path)

    all_tables = tables.build_tables(table)
    for one in all_tables:
        write(f"tables/{one.name}.md", tables.to_markdown(one).encode("utf-8"))
        write(f"tables/{one.name}.tex", tables.to_latex(one).encode("utf-8"))
    shown = []
    for picture in build_pictures(table):
        svg = figure_bytes(picture.figure, "svg")
        shown.append((picture, svg))
        write(f"figures/{picture.name}.svg", svg)
        write(f"figures/{picture.name}.png", figure_bytes(picture.figure, "png"))
    write("index.html", build_page(table, all_tables, shown).encode("utf-8"))
    return written


# The page


def build_page(
    table: StudyTable, all_tables: Sequence[tables.Table], shown: Sequence[tuple[Picture, bytes]]
) -> str:
    """Return the page, of tables and of pictures with their SVG; names are plain text in it."""
    from calibrant._pages.shell import render_page  # which needs a template engine

    sections: list[dict[str, object]] = [{"id": "best", "title": "Best methods"}]
    for name, title in SECTIONS.items():
        pictures = [_embed(picture, svg) for picture, svg in shown if picture.section == name]
        own = [one for one in all_tables if _section_of(one) == name]
        if pictures or own:
            sections.append({"id": name, "title": title, "pictures": pictures, "tables": own})
    return render_page(
        "calibrant.study",
        has_images=True,
        title="Calibration study",
        sections=[*sections, {"id": "run", "title": "What was run"}],
        unfolded={"ranks", "times", "tests"},
        n_cases=len(table.cases),
        n_datasets=len(table.datasets),
        n_methods=len(table.methods),
        findings=find_best(table),
        failures=find_failures(table),
        versions=sorted(filter(None, table.frame["versions"].unique())),
    )


def _section_of(table: tables.Table) -> str:
    kind = table.name.partition("-")[0]
    return _HOME.get(kind, kind)


def _embed(picture: Picture, svg: bytes) -> dict[str, object]:
    width = picture.figure.get_size_inches()[0]
    return {
        **picture._asdict(),
        "inches": min(max(math.ceil(width), 4), 14),
        "pixels": round(96 * width),
        # Inside an image nothing runs and nothing is loaded, whatever the names are.
        "source": "data:image/svg+xml;base64," + base64.b64encode(svg).decode(),
    }


def find_best(table: StudyTable) -> list[tuple[str, str, str]]:
    """Return for every metric its name, the best method, and those that may be as good.

    These are within the Nemenyi critical difference of the best.
    """
    result = []
    for metric in ranks.known_metrics(table):
        ranked = ranks.rank_cases(table, metric, columns := columns_of(table))
        average = ranked.mean().set_axis(list(columns.values()))
        best = ranks.best_of(average)
        width = ranks.critical_difference(*reversed(ranked.shape))
        near = average[~best & (average <= average.min() + width)].sort_values(kind="stable")
        first = f"{', '.join(average.index[best])} ({average.min():.2f})"
        others = ", ".join(f"{title} ({rank:.2f})" for title, rank in near.items())
        result.append((metric_title(metric), first, others))
    return result


def find_failures(table: StudyTable) -> dict[str, list[str]]:
    """Return the methods that have no number on some classifiers, and on which."""
    values = table.wide(ranks.known_metrics(table, ranks.TABLE_METRICS)[0])
    where = {
        method: [" / ".join(case) for case in column.index[column.isna()]]
        for method, column in values.items()
        if column.isna().any()
    }
    return dict(sorted(where.items(), key=lambda item: -len(item[1])))


# The pictures


def build_pictures(table: StudyTable) -> Iterator[Picture]:
    """Draw the figures of a study one by one, so that only one is in memory at a time."""
    columns = columns_of(table)
    titles = list(columns.values())
    for metric in ranks.known_metrics(table):
        ranked = ranks.rank_cases(table, metric, columns)
        yield _wins(table.wide(metric, columns), titles, metric)
        yield _critical_difference(ranked, titles, metric)
    for standard, metrics in ((False, PLAIN), (True, STANDARDIZED)):
        for metric in ranks.known_metrics(table, metrics):
            yield _boxes(table.wide(metric, columns), titles, metric, standard)
    fitted = [method for method in table.methods if method != UNCALIBRATED]
    yield Picture(
        "times",
        "times",
        "Seconds of a fit",
        "A point per classifier, the median as a bar; the scale is logarithmic.",
        draw_times(table.seconds(fitted).to_numpy(), [method_title(method) for method in fitted]),
    )


def _wins(values: pd.DataFrame, titles: list[str], metric: str) -> Picture:
    title = f"{metric_title(metric)}, head to head"
    return Picture(
        f"wins-{metric}",
        "wins",
        title,
        f"Percentage of the {len(values)} classifiers for which the method of the row is better "
        "than the method of the column; ties count for neither.",
        draw_wins(ranks.win_shares(values, metric).to_numpy(), titles, title),
    )


def _critical_difference(ranked: pd.DataFrame, titles: list[str], metric: str) -> Picture:
    width = ranks.critical_difference(*reversed(ranked.shape))
    chance = p_words(ranks.friedman_test(ranked).p_value) or "one classifier is too few"
    title = f"{metric_title(metric)}, average ranks of {len(titles)} methods"
    return Picture(
        f"critical-difference-{metric}",
        "significance",
        title,
        f"Over {len(ranked)} classifiers. A bar joins methods whose average ranks are closer than "
        f"the Nemenyi critical difference at the level 0.05. Friedman test: {chance}.",
        draw_critical_difference(ranked.mean().to_numpy(), titles, width, title),
    )


def _boxes(values: pd.DataFrame, titles: list[str], metric: str, standard: bool) -> Picture:
    known = ranks.BY_NAME[metric]
    shown = ranks.standardize_within(values) if standard else known.factor * values
    label = f"standardised {known.title}" if standard else known.heading
    title = f"{label} by data set"
    return Picture(
        f"boxes-{metric}{'-standardised' if standard else ''}",
        "boxes",
        title,
        "A point per classifier, and a box (quartiles, whiskers of at most 1.5 times their "
        "distance) for data sets with at least four."
        + (" Mean 0 and standard deviation 1 in every data set." if standard else ""),
        draw_boxes(shown, titles, label, title),
    )


# Figures: numbers come in, a matplotlib Figure goes out

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
    groups = ranks.indistinct_groups(average, difference)
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
