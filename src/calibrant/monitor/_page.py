"""``write_page``: the state of a monitor as one HTML file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _drawing as style
from calibrant._atomic_file import replace_file
from calibrant._pages.shell import Markup, render_page

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes

    from calibrant.monitor._monitor import CalibrationMonitor

SIZE = (6.4, 2.8)
SECTIONS = ("Verdict", "Evidence", "Accuracy")


def write_page(
    path: str | os.PathLike[str], monitor: CalibrationMonitor, *, source: str = ""
) -> None:
    """Write the state of a monitor as a self-contained HTML page.

    Parameters
    ----------
    path : path-like
        HTML file to write; it is replaced atomically.
    monitor : CalibrationMonitor
        What to show.
    source : str, optional
        Name of the monitored model, for the heading.

    Examples
    --------
    >>> from calibrant.monitor import CalibrationMonitor, write_page
    >>> write_page("monitor.html", CalibrationMonitor.load("monitor.json"))  # doctest: +SKIP
    """
    status = monitor.status()
    text = render_page(
        "calibrant.monitor",
        style_of="calibrant.report",
        title="Still calibrated?",
        sections=[{"id": t.lower(), "title": t} for t in SECTIONS[: 3 if status.n_rows else 1]],
        source=source,
        status=status,
        alpha=monitor.alpha,
        run_length=monitor.run_length,
        evidence=_evidence(monitor),
        accuracy=_accuracy(monitor),
    )
    with replace_file(path) as file:
        file.write(text.encode())


def _evidence(monitor: CalibrationMonitor) -> Markup:
    """Draw the e-process, in powers of ten, with the line of the alarm."""
    status = monitor.status()
    rows = np.append(0.0, monitor.periods_.column("rows").cumsum())
    powers = np.append(0.0, monitor.periods_.column("log_e")) / math.log(10.0)
    limit = -math.log10(monitor.alpha)

    def draw(ax: Axes) -> None:
        ax.axhline(limit, color=style.RED, linestyle="--", linewidth=1.4)
        ax.annotate("alarm", (0, limit), (4, 3), ("axes fraction", "data"), "offset points").set(
            color=style.RED, fontsize=9
        )
        ax.plot(rows, powers, color=style.BLUE, linewidth=1.6)
        for row, color in ((status.change_row, style.BLUE), (status.alarm_row, style.RED)):
            if row is not None:
                ax.plot([row], [limit], "o", color=color, markersize=7)
        ax.set_ylim(top=max(1.2 * limit, 1.05 * powers.max()))
        ax.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
        ax.set(xlabel="rows counted", ylabel="e-value, power of ten")

    label = f"The e-value is now 10 to the {powers[-1]:.1f}; alarm at {limit:.1f}."
    return Markup(style.to_svg(draw, SIZE, name="evidence", label=label))


def _accuracy(monitor: CalibrationMonitor) -> Markup:
    """Draw the accuracy of all periods beside the one that the probabilities predict."""
    periods = monitor.periods_
    rows = periods.column("rows")
    expected, realised = periods.column("confidence") / rows, periods.column("hits") / rows
    half = 2.0 * np.sqrt(realised * (1.0 - realised) / rows)
    at = np.arange(1.0, len(rows) + 1.0)
    ends = np.array([-0.1, 0.1]) if len(at) == 1 else 0.0  # a line of one period is short

    def draw(ax: Axes) -> None:
        ax.vlines(at, realised - half, realised + half, color=style.PALE, linewidth=1.6)
        ax.plot(at + ends, expected + 0.0 * ends, "-.", color=style.GREEN, linewidth=1.6)
        ax.plot(at, realised, "o", color=style.BLUE, markersize=4.5)
        ax.locator_params(axis="x", integer=True, min_n_ticks=1)
        ax.set(xlabel="period", ylabel="accuracy")

    label = "Expected accuracy as a line, realised accuracy as points, by period."
    return Markup(style.to_svg(draw, SIZE, name="accuracy", label=label))
