"""Results of a monitor: its status, what to expect of rows without labels, and a proposal."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._kernels.rows import first_top_columns
from calibrant._result import Estimate, Result, doc, result
from calibrant._solvers import prior_shift

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats


MOST_CHANGES_NAMED = 5


@result()
class MonitorStatus(Result):
    """The evidence and the means of a monitor."""

    n_rows: int = doc("Number of labelled rows counted.")
    e_value: float = doc("Current e-value against calibration; infinite above 1e308.")
    log_e_value: float = doc("Natural logarithm of ``e_value``.")
    largest_log_e_value: float = doc("Largest ``log_e_value`` so far, which decides the alarm.")
    alarm: bool = doc("Whether the e-value has ever reached 1 / alpha.")
    alarm_row: int | None = doc("Number of rows counted at the first alarm; None without one.")
    changes: tuple[int, ...] = doc("Numbers of rows counted when a change was found, the last 100.")
    detector: float = doc("Current value of the change detector; it alarms at run_length.")
    accuracy: Estimate = doc("Accuracy of the rows counted, with an interval valid at all times.")
    confidence: Estimate = doc("Mean of the largest probability, with such an interval.")
    gap: Estimate = doc("Accuracy minus confidence of all rows, with such an interval.")
    recent_gap: Estimate = doc(
        "Accuracy minus confidence of the last rows, with an interval at 1 - alpha for one look."
    )
    n_recent: int = doc("Number of these last rows, at most 2,000.")
    groups: dict[str, dict[str, Any]] = doc(
        "Evidence by group: n_rows, log_e_value, threshold, alarm."
    )

    def changes_in_words(self) -> str:
        """Return the number of changes, and the rows of the last ones."""
        last = [f"{row:,}" for row in self.changes[-MOST_CHANGES_NAMED:]]
        if len(self.changes) <= 1:
            return f"1, at row {last[0]}" if last else "none"
        which = "at rows" if len(last) == len(self.changes) else "the last at rows"
        return f"{len(self.changes)}, {which} {'; '.join(last)}"

    def metrics(self) -> dict[str, float]:
        """Return numbers by name, for MLflow, Prometheus or evidently."""
        names = ("n_rows", "log_e_value", "largest_log_e_value", "alarm", "detector")
        numbers = {name: getattr(self, name) for name in names} | {"n_changes": len(self.changes)}
        for name in ("accuracy", "confidence", "gap", "recent_gap"):
            value = getattr(self, name)
            numbers |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        for group, evidence in self.groups.items():
            name = re.sub(r"\W", "_", group)
            numbers |= {
                f"log_e_value_{name}": evidence["log_e_value"],
                f"alarm_{name}": evidence["alarm"],
            }
        return {f"calibrant_{k}": float(v) for k, v in numbers.items() if math.isfinite(v)}


@result(eq=False)
class Proposal(Result):
    """A recalibration of recent rows, judged on rows after those it was fitted to."""

    n_fitted: int = doc("Number of rows fitted to: the older two thirds of the recent rows.")
    n_judged: int = doc("Number of later rows, on which the recalibration was judged.")
    nll_served: float = doc("Mean negative log-likelihood of the served probabilities.")
    nll_proposed: float = doc("Mean negative log-likelihood after recalibration.")
    gain: float = doc("``nll_served`` minus ``nll_proposed``, in nats per row.")
    gain_error: float = doc("Standard error of ``gain``.")
    calibrator: Any = doc("Calibrator fitted to the served probabilities.")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, without the calibrator."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "calibrator"}


@result(eq=False)
class UnlabelledReport(Result):
    """Expected accuracy and class frequencies of rows without labels."""

    n_rows: int = doc("Number of rows of the batch.")
    accuracy: Estimate = doc("Expected accuracy, with a prediction interval at level 1 - alpha.")
    confusion: NDArray[Any] = doc(
        "Expected number of rows of each label (row) and prediction (column)."
    )
    confusion_error: NDArray[Any] = doc("Standard deviations of the entries of ``confusion``.")
    priors: Any = doc("Estimated class frequencies of these rows; None without labelled rows.")
    priors_low: Any = doc("Lower ends of the intervals of ``priors``, each at level 1 - alpha.")
    priors_high: Any = doc("Upper ends of these intervals.")
    p_value: float = doc(
        "P-value of a test for changed class frequencies; NaN without labelled rows."
    )
    cannot_see: str = doc("Changes that a report without labels cannot find.")


CANNOT_SEE = (
    "Whether the probabilities are right: if the relation between features and labels changes, "
    "nothing in this report does. Class frequencies are right only if the predictions within each "
    "class are distributed as before."
)


def report_unlabelled(p: Floats, alpha: float, sums: Floats, n_labelled: float) -> UnlabelledReport:
    """Report expected accuracy, confusion matrix and class frequencies of checked rows.

    The accuracy is a mean of independent events: Bernstein's inequality bounds its deviation.
    """
    n_rows, k = p.shape
    top = np.empty(n_rows, dtype=np.intp)
    first_top_columns(p, top)
    confidence = p[np.arange(n_rows), top]
    predicted = np.zeros((n_rows, k))
    predicted[np.arange(n_rows), top] = 1.0
    confusion, variance = p.T @ predicted, (p * (1.0 - p)).T @ predicted
    level = math.log(2.0 / alpha)
    spread = float((confidence * (1.0 - confidence)).sum())
    half = (math.sqrt(2.0 * spread * level + (level / 3.0) ** 2) + level / 3.0) / n_rows
    mean = float(confidence.mean())
    accuracy = Estimate(mean, max(mean - half, 0.0), min(mean + half, 1.0))
    priors, low, high, p_value = None, None, None, math.nan
    if n_labelled:
        before = sums / sums.sum()
        priors, _ = prior_shift.solve_priors(p, before)
        p_value = prior_shift.prior_shift_test(p, before, priors, n_labelled).p_value
        low, high = prior_shift.prior_interval(
            p, before, priors, n_from=n_labelled, level=1.0 - alpha
        )
    error = np.sqrt(variance)
    return UnlabelledReport(
        n_rows, accuracy, confusion, error, priors, low, high, p_value, CANNOT_SEE
    )
