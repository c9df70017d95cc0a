"""Results of a monitor: its status, and what to expect of rows without labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._result import Estimate, Result, doc, result
from calibrant._solvers import prior_shift

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats


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
        numbers: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("n_rows", "log_e_value", "largest_log_e_value", "alarm", "power")
        }
        for name in ("accuracy", "confidence", "gap"):
            value = getattr(self, name)
            numbers |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        return {f"calibrant_{k}": float(v) for k, v in numbers.items() if math.isfinite(v)}

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
    confusion: NDArray[Any] = doc(
        "Expected number of rows of each label (row) and prediction (column)."
    )
    priors: NDArray[Any] | None = doc(
        "Estimated class frequencies of these rows; None without labelled rows."
    )
    p_value: float = doc(
        "P-value of a test for changed class frequencies; NaN without labelled rows."
    )

    def describe(self) -> dict[str, str]:
        """Return what to expect of these rows, in words."""
        has_reference = not math.isnan(self.p_value)
        p_value = f"{self.p_value:.3g}" if has_reference else "no labelled rows to compare"
        return {
            "expected accuracy, new rows": f"{self.accuracy:.4f}",
            "p of equal class frequencies": p_value,
        }


def report_unlabelled(p: Floats, sums: Floats, n_labelled: int) -> UnlabelledReport:
    """Report expected accuracy, confusion matrix and class frequencies of checked rows.

    ``sums`` are those of the probabilities of the labelled rows counted so far.
    """
    predicted = np.zeros(p.shape)
    predicted[np.arange(len(p)), p.argmax(axis=1)] = 1.0
    priors, p_value = None, math.nan
    if n_labelled:
        before = sums / sums.sum()
        priors, _ = prior_shift.solve_priors(p, before)
        p_value = prior_shift.prior_shift_test(p, before, priors, n_labelled).p_value
    return UnlabelledReport(len(p), float(p.max(axis=1).mean()), p.T @ predicted, priors, p_value)
