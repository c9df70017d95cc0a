"""``write_page``: what a monitor has found, as one HTML file made of its state alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant._atomic_file import replace_file
from calibrant._pages.shell import render_page
from calibrant.report import _figures as figures

if TYPE_CHECKING:
    import os

    from calibrant._pages.shell import Markup
    from calibrant.monitor._monitor import CalibrationMonitor

MOST_PANELS, WIDE = 6, 640
SECTIONS = ("Verdict", "Evidence", "Accuracy", "Reliability", "Groups", "Proposal")


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
    absent = [*["Groups"] * (not status.groups), *["Evidence", "Reliability"] * (not status.n_rows)]
    text = render_page(
        "calibrant.monitor",
        style_of="calibrant.report",
        title="Still calibrated?",
        sections=[{"id": t.lower(), "title": t} for t in SECTIONS if t not in absent],
        source=source,
        status=status,
        alpha=monitor.alpha,
        run_length=monitor.run_length,
        evidence=_evidence(monitor),
        accuracy=_accuracy(monitor),
        panels=_panels(monitor),
        proposal=monitor.propose(),
    )
    with replace_file(path) as file:
        file.write(text.encode())


def _evidence(monitor: CalibrationMonitor) -> Markup:
    """Draw the e-process, in powers of ten, with the line of the alarm."""
    rows = np.append(0.0, monitor.periods_.column("rows").cumsum())
    powers = np.append(0.0, monitor.periods_.column("log_e")) / math.log(10.0)
    limit = -math.log10(monitor.alpha)
    x = figures.nice_axis(rows, "rows counted")
    y = figures.nice_axis([*powers, 1.1 * limit], "e-value, power of ten")  # and "alarm" above it
    chart = figures.Chart(x, y, WIDE, 280)
    chart.frame()
    chart.line([x.low, x.high], [limit, limit], "line alarm")
    chart.text(chart.left + 4, float(chart.ys(limit)) - 4, "alarm", "tick alarm", "start")
    chart.line(rows, powers, "curve")
    changes = np.array(monitor.status().changes, dtype=np.float64)
    chart.points(changes, np.full(len(changes), limit), 3.0, "point")
    if (row := monitor.status().alarm_row) is not None:
        chart.points(np.array([row]), np.array([limit]), 4.0, "point alarm")
    return chart.picture(f"The e-value is now 10 to the {powers[-1]:.1f}; alarm at {limit:.1f}.")


def _accuracy(monitor: CalibrationMonitor) -> Markup:
    """Draw expected accuracy of all periods beside the realised one where labels came."""
    periods = monitor.periods_
    weight, said = periods.column("weight"), periods.column("confidence")
    expected = (said + periods.column("expected")) / (weight + periods.column("unlabelled"))
    labelled = weight > 0
    realised = periods.column("hits")[labelled] / weight[labelled]
    half = 2.0 * np.sqrt(realised * (1.0 - realised) / weight[labelled])
    at = np.arange(1.0, len(weight) + 1.0)
    span = [*expected, *(realised - half), *(realised + half)]
    x, y = figures.count_axis(len(at), "period"), figures.nice_axis(span, "accuracy")
    chart = figures.Chart(x, y, WIDE, 280)
    chart.frame()
    chart.bars(at[labelled], realised - half, realised + half, "bar thin")
    ends = np.array([-0.1, 0.1]) if len(at) == 1 else 0.0  # a line of one period is short
    chart.line(at + ends, expected + 0.0 * ends, "line line-2")
    chart.points(at[labelled], realised, 2.5, "point")
    return chart.picture("Expected accuracy as a line, realised accuracy as points, by period.")


def _panels(monitor: CalibrationMonitor) -> list[tuple[str, Markup]]:
    """Draw reliability diagrams of the confidence, of stretches of periods."""
    panels, done = [], 0
    for n_rows, first, last, bins in monitor.periods_.pooled(MOST_PANELS):
        weight, hits, said = bins[:, bins[0] > 0]
        chart = figures.Chart(figures.unit_axis("confidence"), figures.unit_axis("accuracy"))
        chart.frame()
        chart.line([0, 1], [0, 1], "diagonal")
        mean, share = said / weight, hits / weight
        half = 2.0 * np.sqrt(mean * (1.0 - mean) / weight)
        chart.bars(mean, mean - half, mean + half, "bar")
        chart.line(mean, share, "curve")
        chart.points(mean, share, 2.5 + 3.5 * np.sqrt(weight / weight.max()), "point")
        title = f"rows {done + 1:,} to {done + n_rows:,}{_dates(first, last)}"
        pairs = [f"{m:.0%} said, {s:.0%} right" for m, s in zip(mean, share, strict=True)]
        panels.append((title, chart.picture(f"{title}: {'; '.join(pairs)}.")))
        done += n_rows
    return panels


def _dates(*ends: float) -> str:
    """Name the times of a stretch: dates, where seconds since 1970 are of this century."""
    if math.isnan(ends[0]):
        return ""
    are_dates = 9.4e8 < ends[0] < 4.2e9
    texts = [str(np.datetime64(int(t), "s"))[:10] if are_dates else f"{t:.6g}" for t in ends]
    return f", {' to '.join(dict.fromkeys(texts))}"
