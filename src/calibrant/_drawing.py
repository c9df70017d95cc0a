"""What every picture shares: colours that colour-blind readers can tell apart, words, axes, SVG.

Curves differ in marker and line as well as in colour, so that a print in grey is enough.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant._extras import advice
from calibrant._text import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK = "#CC79A7", "#56B4E9", "#000000"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, BLACK, SKY)
"""M. Okabe and K. Ito, "Color Universal Design", 2008; without yellow, too faint for lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
GREY, PALE, GRID, RED = "#5F5F5F", "#BDBDBD", "#E6E6E6", "#C4001A"
WIDTH_OF_LETTERS, SMALLEST_NAME = 0.56, 8.0
"""Width of a letter on average, of its size; the smallest size of names of axes, in points."""


class Look(NamedTuple):
    """Colour, marker and line of a curve."""

    color: str
    marker: str
    linestyle: Any


def look(place: int) -> Look:
    """Look of the curve number ``place``: distinct for the first 49."""
    turn = place // len(PALETTE)
    return Look(
        PALETTE[place % len(PALETTE)],
        MARKERS[(place + turn) % len(MARKERS)],
        LINES[(place + turn) % len(LINES)],
    )


def pyplot() -> Any:
    """Import ``matplotlib.pyplot`` when something is drawn, and not before."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"drawing needs matplotlib; {advice()}") from error
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


class ReservedSpace:
    """Locator of axes that leave room, inside their slot, for what is drawn around them.

    A grid of the user's own has no place but the slots of its axes: a strip under a diagram or
    lines above it would be cut off, or lie on the neighbours.
    """

    def __init__(self, ax: Axes) -> None:
        self.inner: Any = ax.get_axes_locator()
        self.get_subplotspec = ax.get_subplotspec  # by which tight_layout knows the slot
        self.below = 0.0
        self.above = 0.0

    def __call__(self, ax: Any, renderer: Any) -> Bbox:
        """Return where the axes are to be, in parts of the figure."""
        from matplotlib.transforms import Bbox

        slot = ax.get_position(original=True) if self.inner is None else self.inner(ax, renderer)
        inch = ax.figure.dpi / ax.figure.bbox.height
        low, high = slot.y0 + self.below * slot.height, slot.y1 - self.above / 72 * inch
        return Bbox.from_extents(slot.x0, low, slot.x1, max(high, low + 0.1 * slot.height))


def reserve_space(ax: Axes, *, below: float = 0.0, above: float = 0.0) -> None:
    """Keep a share of the height under the axes free, and points above them."""
    room: Any = ax.get_axes_locator()
    if not isinstance(room, ReservedSpace):
        room = ReservedSpace(ax)
        ax.set_axes_locator(room)
    room.below = max(room.below, below)
    room.above = max(room.above, above)


def wrap(text: str, points: float, size: float) -> list[str]:
    """Break text into lines that are about as wide as ``points``."""
    return textwrap.wrap(text, max(12, int(points / (WIDTH_OF_LETTERS * size))))


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of axes; before the picture is laid out, roughly."""
    box, room = ax.get_window_extent(), ax.get_axes_locator()
    share = 1 - room.below if isinstance(room, ReservedSpace) else 1.0
    return 72 * box.width / ax.figure.dpi, 72 * share * box.height / ax.figure.dpi


def name_axes(ax: Axes, x: str, y: str) -> None:
    """Print the names of both axes: smaller, or in lines, where the axes are short."""
    width, height = size_in_points(ax)
    _name_axis(ax.xaxis, x, width)
    _name_axis(ax.yaxis, y, height)


def _name_axis(axis: Any, name: str, points: float) -> None:
    size = float(axis.label.get_fontsize())
    while size > SMALLEST_NAME and len(name) * WIDTH_OF_LETTERS * size > points:
        size = max(SMALLEST_NAME, size - 1)
    axis.set_label_text("\n".join(wrap(name, points, size)), fontsize=size)


def _legend_size(ax: Axes) -> int:
    """Size of the letters in the legend, in points: smaller in small axes."""
    return 8 if min(size_in_points(ax)) > 190 else 7


def add_legend(ax: Axes) -> None:
    """Print a legend where it hides the least."""
    size = _legend_size(ax)
    ax.legend(
        loc="best", fontsize=size, borderpad=0.3, labelspacing=0.3, handlelength=1.8, framealpha=0.9
    )


def entry(ax: Axes, name: str, facts: str) -> str:
    """Text of a legend: a name and numbers, one under the other where the axes are narrow."""
    name = shorten(name)
    letters = len(name) + len(facts) + 3
    if WIDTH_OF_LETTERS * _legend_size(ax) * letters <= 0.6 * size_in_points(ax)[0]:
        return literal(f"{name} ({facts})")
    return literal(f"{name}\n{facts}")


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


def number_ranks(ax: Axes, n_ranks: int, few: int) -> None:
    """Give an axis of ranks whole numbers, on a logarithmic scale if they are not few."""
    from matplotlib.ticker import MaxNLocator

    if n_ranks > few:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda rank, _: f"{rank:g}")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def add_heading(ax: Axes, title: str | None, lines: Sequence[str] = ()) -> None:
    """Print a title above a panel, if there is one, and smaller lines between the two."""
    if title is None:
        return
    above = 11 * len(lines)
    ax.set_title(literal(title), fontsize=10, fontweight="bold", pad=6 + above)
    if ax.figure.get_layout_engine() is None:  # which would make room by itself
        reserve_space(ax, above=above)
    if lines:
        words = literal("\n".join(lines))
        note = ax.annotate(words, (0.5, 1.0), (0, 4), "axes fraction", "offset points")
        note.set(ha="center", va="bottom", fontsize=8.5)


def add_title(figure: Figure, title: str | None) -> None:
    """Print a title above all panels, if there is one, in a figure that grows by it."""
    if title is not None:
        figure.suptitle(literal(title))
        figure.set_figheight(figure.get_figheight() + 0.4)


def literal(text: object) -> str:
    """Text that matplotlib prints as it is, with no formula between dollars."""
    return str(text).replace("$", r"\$")


LOOK_OF_PAGES = {
    "svg.fonttype": "none",  # words stay words, which the reader's fonts show and a search finds
    "svg.hashsalt": "calibrant",
    "font.size": 9.5,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.bottom": False,  # the grid is enough
    "ytick.left": False,
}
_DIGITS = re.compile(r"(\.\d)\d+")
NAMESPACE = re.compile(r"\{.*?\}")


def to_svg(
    draw: Callable[[Axes], object], size: tuple[float, float], *, name: str, label: str
) -> str:
    """Draw on new axes, and return an SVG element that can stand in a page.

    Pages forbid styles inside elements, so these become attributes. The style sheet of pages knows
    the colours of this module by their values, and replaces them in the dark.

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
        raise ImportError(f"drawing needs matplotlib; {advice()}") from error
    file = io.BytesIO()
    # A page looks the same whatever the user's settings are, which come back afterwards.
    with style.context(["default", LOOK_OF_PAGES]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # which the reader's fonts may have
        figure = Figure(size, layout="constrained")
        ax = figure.subplots()
        tidy(ax)
        draw(ax)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(file.getvalue())  # noqa: S314  (matplotlib wrote it just now)
    picture = ET.Element("svg", viewBox=root.attrib["viewBox"], role="img")
    picture.set("aria-label", label)
    _copy(root, picture, f"-{name}")
    return ET.tostring(picture, encoding="unicode")


def _copy(source: ET.Element, target: ET.Element, mark: str) -> None:
    """Copy what is drawn, without styles and with identifiers that end in ``mark``.

    Marks and clips have identifiers, which must differ from those of other pictures of a page;
    groups have some that nothing refers to.
    """
    for child in source:
        tag = NAMESPACE.sub("", child.tag)
        if tag in {"metadata", "style"} or (tag in {"g", "defs"} and not len(child)):
            continue
        if tag == "g" and not child.attrib.keys() - {"id"}:
            _copy(child, target, mark)
            continue
        own = ET.SubElement(target, tag)
        own.text = None if child.text is None or child.text.isspace() else child.text
        for key, value in child.attrib.items():
            name = NAMESPACE.sub("", key)
            if name == "style":
                for part, setting in re.findall(r"([\w-]+): ([^;]+)", value):
                    if part != "font-family":  # the page has its own
                        own.set(part, setting)
            elif name == "href":
                own.set(name, value + mark)
            elif name == "clip-path":
                own.set(name, value.replace(")", f"{mark})"))
            elif name == "id" and tag != "g":
                own.set(name, value + mark)
            elif name in {"d", "x", "y", "transform", "width", "height", "points"}:
                own.set(name, _DIGITS.sub(r"\1", " ".join(value.split())))
        _copy(child, own, mark)
