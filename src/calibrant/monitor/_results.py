"""What a monitor tells: its status, reports on unlabelled rows, and ``write_page``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _drawing as style
from calibrant._atomic_file import replace_file
from calibrant._result import Estimate, Result, doc, result

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes

    from calibrant._types import Floats
    from calibrant.monitor._monitor import CalibrationMonitor

SIZE = (6.4, 2.8)
SECTIONS = ("Verdict", "Evidence", "Accuracy")


@result()
class MonitorStatus(Result):
    """The evidence and the means of a monitor."""

    n_rows: int = doc("Number of labelled rows counted.")
    e_value: float = doc("Current e-value against calibration; infinite above 1e308.")
    log_e_value: float = doc("Natural logarithm of ``e_value``.")
    largest_log_e_value: float = doc("Largest ``log_e_value`` so far, which decides the alarm.")
    alarm: bool = doc("Whether the e-value has ever reached 1 / alpha.")
    alarm_row: int | None = doc("Number of rows counted at the first alarm; None without one.")
    change_row: int | None = doc("Number of rows counted when a change was found; None so far.")
    accuracy: Estimate = doc("Accuracy of the rows counted, with an interval valid at all times.")
    confidence: Estimate = doc("Mean of the largest probability, with such an interval.")
    gap: Estimate = doc("Accuracy minus confidence of all rows, with such an interval.")
    power: float = doc(
        "Power of the probabilities that fits the last rows: below 1 they are over-confident."
    )
    class_factors: tuple[float, ...] = doc(
        "Factor of each class's probability that fits the last rows: above 1 the class is more "
        "frequent than predicted. Empty above 2,000 classes."
    )

    def metrics(self) -> dict[str, float]:
        """Return numbers by name, for MLflow, Prometheus or evidently."""
        plain = "n_rows", "log_e_value", "largest_log_e_value", "alarm", "power"
        numbers: dict[str, float] = {name: float(getattr(self, name)) for name in plain}
        for name in ("accuracy", "confidence", "gap"):
            numbers[name], numbers[f"{name}_low"], numbers[f"{name}_high"] = getattr(self, name)
        return {f"calibrant_{k}": v for k, v in numbers.items() if math.isfinite(v)}

    def describe(self, alpha: float) -> dict[str, str]:
        """Return the evidence and the means in words; ``alpha`` is that of the monitor."""
        means = {"accuracy": self.accuracy, "confidence": self.confidence, "gap": self.gap}
        return {
            "e-value": f"{self.e_value:.4g} (alarm at {1 / alpha:,.0f})",
            "alarm": f"at row {self.alarm_row:,}" if self.alarm else "no",
            "change": f"found at row {self.change_row:,}" if self.change_row else "none found",
            "power that fits the last rows": f"{self.power:.2f}",
            **{name: "{:.4f} ({:.4f} .. {:.4f})".format(*mean) for name, mean in means.items()},
        }


@result(eq=False)
class UnlabelledReport(Result):
    """Expected accuracy and class frequencies of rows without labels.

    It cannot tell whether the probabilities are right: if the relation between features and labels
    changes, nothing in this report does. Class frequencies are right only if the predictions within
    each class are distributed as before.
    """

    n_rows: int = doc("Number of rows of the batch.")
    accuracy: float = doc("Expected accuracy.")
    confusion: Floats = doc("Expected number of rows of each label (row) and prediction (column).")
    priors: Floats | None = doc(
        "Estimated class frequencies of these rows; None without labelled rows."
    )
    p_value: float = doc(
        "P-value of a test for changed class frequencies; NaN without labelled rows."
    )

    def describe(self) -> dict[str, str]:
        """Return the expected accuracy and the test of class frequencies, in words."""
        has_reference = not math.isnan(self.p_value)
        p_value = f"{self.p_value:.3g}" if has_reference else "no labelled rows to compare"
        return {
            "expected accuracy, new rows": f"{self.accuracy:.4f}",
            "p of equal class frequencies": p_value,
        }


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
    from calibrant._pages.shell import Markup, render_page  # which needs a template engine

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
        evidence=Markup(_evidence(monitor)),
        accuracy=Markup(_accuracy(monitor)),
    )
    with replace_file(path) as file:
        file.write(text.encode())


def _evidence(monitor: CalibrationMonitor) -> str:
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
    return style.to_svg(draw, SIZE, name="evidence", label=label)


def _accuracy(monitor: CalibrationMonitor) -> str:
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
    return style.to_svg(draw, SIZE, name="accuracy", label=label)
