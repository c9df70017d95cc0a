"""What every picture shares: colours that colour-blind readers can tell apart, words, axes.

Curves differ in marker and line as well as in colour, so that a print in grey is enough.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.extras import advice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK = "#CC79A7", "#56B4E9", "#000000"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, BLACK, SKY)
"""M. Okabe and K. Ito, "Color Universal Design", 2008; without yellow, too faint for lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
PADS: dict[str, Any] = {"h_pad": 0.12, "w_pad": 0.08}
GREY, PALE = "#5F5F5F", "#BDBDBD"


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
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    figure, new = pyplot().subplots(figsize=size, layout="constrained")
    figure.get_layout_engine().set(**PADS)
    found: Axes = new
    return found


def new_grid(
    n_panels: int, n_columns: int, panel: tuple[float, float]
) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``n_panels`` axes, row by row."""
    n_rows = math.ceil(n_panels / n_columns)
    size = (panel[0] * n_columns, panel[1] * n_rows)
    figure, axes = pyplot().subplots(
        n_rows, n_columns, figsize=size, layout="constrained", squeeze=False
    )
    figure.get_layout_engine().set(**PADS)
    flat = list(axes.flat)
    for spare in flat[n_panels:]:
        spare.remove()
    return figure, flat[:n_panels]


def tidy(ax: Axes) -> None:
    """Remove the frame's upper and right sides and draw a faint grid behind everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color="#E6E6E6", linewidth=0.6)
    ax.set_axisbelow(True)


def head(ax: Axes, title: str, lines: Sequence[str] = ()) -> None:
    """Print a title above a panel, and smaller lines between the two."""
    ax.set_title(literal(title), fontsize=10, fontweight="bold", pad=6 + 11 * len(lines))
    if lines:
        at: dict[str, Any] = {
            "xytext": (0, 4),
            "textcoords": "offset points",
            "xycoords": "axes fraction",
        }
        words = literal("\n".join(lines))
        ax.annotate(words, (0.5, 1.0), ha="center", va="bottom", fontsize=8.5, **at)


def percent(value: float, digits: int = 1) -> str:
    """Format a share as a percentage."""
    return "-" if math.isnan(value) else f"{100 * value:.{digits}f} %"


def p_words(p_value: float) -> str:
    """Format a p-value: ``p = 0.21``, ``p < 0.001``; empty where there is none."""
    if math.isnan(p_value):
        return ""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def shorten(text: str, length: int = 24) -> str:
    """Cut a long name in the middle, where names of classes differ least."""
    text = " ".join(str(text).split())
    if len(text) <= length:
        return text
    tail = (length - 1) // 3
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def literal(text: object) -> str:
    """Text that matplotlib prints as it is, with no formula between dollars."""
    return str(text).replace("$", r"\$")


def freeze(numbers: Any) -> None:
    """Make the arrays of a dataclass read-only."""
    for field in fields(numbers):
        value = getattr(numbers, field.name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
