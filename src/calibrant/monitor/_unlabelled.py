"""What rows tell before their labels come, as far as the probabilities are right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._kernels.rows import first_top_columns
from calibrant.metrics._result import Estimate, Result, doc, result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats


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
    from calibrant._solvers import prior_shift

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
        ends = {"level": 1.0 - alpha}
        low, high = prior_shift.prior_interval(p, before, priors, n_labelled, **ends)
    error = np.sqrt(variance)
    return UnlabelledReport(
        n_rows, accuracy, confusion, error, priors, low, high, p_value, CANNOT_SEE
    )
