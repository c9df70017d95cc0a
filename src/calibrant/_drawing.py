"""What every picture shares: colours that colour-blind readers can tell apart, words, axes, SVG.

Curves differ in marker and line as well as in colour, so that a print in grey is enough.
"""

from __future__ import annotations

import io
import math
import re
import warnings
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, NamedTuple

from calibrant._extras import needed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK = "#CC79A7", "#56B4E9", "#000000"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, BLACK, SKY)
"""M. Okabe and K. Ito, "Color Universal Design", 2008; without yellow, too faint for lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
GREY, PALE, GRID, RED = "#5F5F5F", "#BDBDBD", "#E6E6E6", "#C4001A"


class Look(NamedTuple):
    """Colour, marker and line of a curve."""

    color: str
    marker: str
    linestyle: str | tuple[int, tuple[int, ...]]


def look(place: int) -> Look:
    """Look of the curve number ``place``: distinct for the first 49."""
    turn = place // len(PALETTE)
    return Look(
        PALETTE[place % len(PALETTE)],
        MARKERS[(place + turn) % len(MARKERS)],
        LINES[(place + turn) % len(LINES)],
    )


def pyplot() -> ModuleType:
    """Import ``matplotlib.pyplot`` when something is drawn, and not before."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise needed(error, "drawing", "cli") from error
    return plt


def axes_or_new(ax: Axes | None, size: tuple[float, float] = (4.2, 4.2)) -> Axes:
    """Return the axes given, or those of a new figure, without the frame that they had."""
    if ax is None:
        return new_grid(1, 1, size)[1][0]
    tidy(ax)
    return ax


def new_grid(
    n_panels: int, n_columns: int, panel: tuple[float, float]
) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``n_panels`` axes, row by row."""
    n_columns = min(n_columns, n_panels)
    n_rows = math.ceil(n_panels / n_columns)
    size = (panel[0] * n_columns, panel[1] * n_rows)
    figure, axes = pyplot().subplots(
        n_rows, n_columns, figsize=size, layout="constrained", squeeze=False
    )
    figure.get_layout_engine().set(h_pad=0.12, w_pad=0.08)
    flat = list(axes.flat)
    for ax in flat[:n_panels]:
        tidy(ax)
    for spare in flat[n_panels:]:
        spare.remove()
    return figure, flat[:n_panels]


def add_legend(ax: Axes) -> None:
    """Print a legend where it hides the least."""
    ax.legend(
        loc="best", fontsize=8, borderpad=0.3, labelspacing=0.3, handlelength=1.8, framealpha=0.9
    )


def tidy(ax: Axes) -> None:
    """Remove the frame's upper and right sides and draw a faint grid behind everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)


def probability_axes(ax: Axes, smallest: float = 0.0) -> None:
    """Let both axes be probabilities: from 0 on, or from a power of ten on if they are not 0."""
    ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    if smallest > 0.0:
        ax.set(xscale="log", yscale="log")
        ticks = [10.0**power for power in range(round(math.log10(smallest)), 1)]
    ax.set(xlim=(smallest, 1), ylim=(smallest, 1), xticks=ticks, yticks=ticks)
    print_plain_numbers(ax)


def print_plain_numbers(ax: Axes) -> None:
    """Print probabilities along both axes as 0.01 or 1e-3, which need less room than powers."""
    ax.minorticks_off()
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(
            lambda p, _: f"{p:.0e}".replace("e-0", "e-") if 0.0 < p < 0.0099 else f"{p:g}"
        )


def add_heading(ax: Axes, title: str | None) -> None:
    """Print a title above a panel, if there is one."""
    if title is not None:
        ax.set_title(literal(title), fontsize=10, fontweight="bold")


def literal(text: object) -> str:
    """Text that matplotlib prints as it is, with no formula between dollars."""
    return str(text).replace("$", r"\$")


LOOK_OF_PAGES = {
    "svg.fonttype": "none",  # words stay words, which the reader's fonts show and a search finds
    "font.size": 9.5,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.bottom": False,  # the grid is enough
    "ytick.left": False,
}
_DIGITS = re.compile(r"(\.\d)\d+")
_NAMESPACE = re.compile(r"\{.*?\}")


def to_svg(
    draw: Callable[[Axes], object], size: tuple[float, float], *, name: str, label: str
) -> str:
    """Draw on new axes, and return an SVG element that can stand in a page.

    Parameters
    ----------
    draw : callable
        Draws on the axes that it is given.
    size : (float, float)
        Width and height, in inches.
    name : str
        Name of the picture, no other of the same page.
    label : str
        What the picture shows, for those who cannot see it.
    """
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise needed(error, "drawing", "cli") from error
    file = io.BytesIO()
    # Identifiers of marks and clips are hashes, which must differ between pictures of a page.
    look = {**LOOK_OF_PAGES, "svg.hashsalt": name}
    # A page looks the same whatever the user's settings are, which come back afterwards.
    with style.context(["default", look]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # which the reader's fonts may have
        figure = Figure(size, layout="constrained")
        ax = figure.subplots()
        tidy(ax)
        draw(ax)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(file.getvalue())  # noqa: S314  (matplotlib wrote it just now)
    for parent in list(root.iter()):
        for child in list(parent):
            if _NAMESPACE.sub("", child.tag) in {"metadata", "style"}:
                parent.remove(child)
    for element in root.iter():
        _clean(element)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return ET.tostring(root, encoding="unicode")


def _clean(element: ET.Element) -> None:
    """Turn the style of an element into attributes, and shorten what it holds.

    Pages forbid styles inside elements. Their style sheet knows the colours of this module by
    their values, and replaces them in the dark.
    """
    attributes = {_NAMESPACE.sub("", key): value for key, value in element.attrib.items()}
    styles = re.findall(r"([\w-]+): ([^;]+)", attributes.pop("style", ""))
    attributes |= {part: value for part, value in styles if part != "font-family"}
    for key in attributes.keys() & {"d", "x", "y", "transform", "points"}:
        attributes[key] = _DIGITS.sub(r"\1", " ".join(attributes[key].split()))
    element.tag, element.attrib = _NAMESPACE.sub("", element.tag), attributes
    if element.tag == "g":
        attributes.pop("id", None)  # nothing refers to groups
    if element.text is not None and element.text.isspace():
        element.text = None
    element.tail = None
