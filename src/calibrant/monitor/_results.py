"""Results of a monitor: its status, what to expect of rows without labels, and a proposal."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._kernels.rows import first_top_columns
from calibrant._solvers import prior_shift
from calibrant.metrics._result import Estimate, Result, doc, result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats


@result()
class MonitorStatus(Result):
    """What a monitor has found so far."""

    n_rows: int = doc("Labelled rows counted.")
    e_value: float = doc("Evidence against the probabilities now; infinite above 1e308.")
    log_e_value: float = doc("Its natural logarithm.")
    largest_log_e_value: float = doc("The largest so far, which is what an alarm goes by.")
    alarm: bool = doc("Whether the evidence has ever reached 1 / alpha.")
    alarm_row: int | None = doc("Number of rows counted when it first did.")
    changes: tuple[int, ...] = doc("Numbers of rows counted when the change detector alarmed.")
    detector: float = doc("Its sum now; it alarms at run_length.")
    accuracy: Estimate = doc("Of the rows counted, with an interval that holds at all times.")
    confidence: Estimate = doc("Mean of the largest probability, likewise.")
    gap: Estimate = doc("Accuracy minus confidence, likewise: 0 if the probabilities are right.")
    groups: dict[str, dict[str, Any]] = doc("By group: n_rows, log_e_value, threshold, alarm.")

    def metrics(self) -> dict[str, float]:
        """Return numbers by name, for MLflow, Prometheus or evidently."""
        names = ("n_rows", "log_e_value", "largest_log_e_value", "alarm", "detector")
        found = {name: getattr(self, name) for name in names} | {"n_changes": len(self.changes)}
        for name in ("accuracy", "confidence", "gap"):
            value = getattr(self, name)
            found |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        for group, own in self.groups.items():
            name = re.sub(r"\W", "_", group)
            found |= {f"log_e_value_{name}": own["log_e_value"], f"alarm_{name}": own["alarm"]}
        return {f"calibrant_{k}": float(v) for k, v in found.items() if math.isfinite(v)}


@result(eq=False)
class Proposal(Result):
    """A recalibration of recent rows, judged on rows after those it was fitted to."""

    n_fitted: int = doc("Rows it was fitted to: the older two thirds of those kept.")
    n_judged: int = doc("Rows after them, on which it was judged.")
    nll_served: float = doc("Mean negative log-likelihood of what was served, there.")
    nll_proposed: float = doc("The same after recalibration.")
    gain: float = doc("Their difference, in nats a row.")
    gain_error: float = doc("Its standard error.")
    calibrator: Any = doc("The fitted recalibration of served probabilities.")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, without the calibrator."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "calibrator"}


@result(eq=False)
class UnlabelledReport(Result):
    """What to expect of rows without labels, if the probabilities are right."""

    n_rows: int = doc("Rows of this batch.")
    accuracy: Estimate = doc("Expected, and where that of these rows will be but for alpha.")
    confusion: NDArray[Any] = doc("Expected rows of each label (down) and prediction (across).")
    confusion_error: NDArray[Any] = doc("Standard deviations of what these cells will be.")
    priors: Any = doc("Most likely class frequencies of these rows; None without a reference.")
    priors_low: Any = doc("Their intervals at 1 - alpha, each by itself: from")
    priors_high: Any = doc("these on, up to these.")
    p_value: float = doc("Test of the class frequencies of the labelled rows; NaN without them.")
    cannot_see: str = doc("What no such report can find.")


CANNOT_SEE = (
    "Whether the probabilities are right: where labels follow from the features by another rule "
    "than before, all of this stays as it was. Class frequencies are found if the predictions of a "
    "class are distributed as before."
)


def report_unlabelled(p: Floats, alpha: float, sums: Floats, n_labelled: float) -> UnlabelledReport:
    """Report expected accuracy, confusion matrix and class frequencies of checked rows.

    The accuracy is a mean of independent events: Bernstein's inequality bounds its deviation.
    """
    n_rows, k = p.shape
    top = np.empty(n_rows, dtype=np.int64)
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
        told: Any = {"n_from": n_labelled, "level": 1.0 - alpha}
        low, high = prior_shift.prior_interval(p, before, priors, **told)
    error = np.sqrt(variance)
    return UnlabelledReport(
        n_rows, accuracy, confusion, error, priors, low, high, p_value, CANNOT_SEE
    )
