"""What a monitor tells: its status, means, sums by period, and reports on unlabelled rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant._result import Estimate, Result, doc, result
from calibrant._solvers import prior_shift

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._types import Floats


MOST_PERIODS = 64  # periods that are kept: of more, neighbours become one
LARGEST_PART = 1000  # rows of a batch that are one period at most, while there are few
FIELDS = ("rows", "hits", "confidence", "log_e")
"""Columns of a period: sums over its rows, and the evidence at its end."""

_GROWTH, _POWER, _ZETA = 2.0, 1.4, 3.105  # of the epochs, of their prior, and zeta(1.4)
_K1, _K2 = (_GROWTH**0.25 + _GROWTH**-0.25) / math.sqrt(2.0), (math.sqrt(_GROWTH) + 1.0) / 2.0


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


@dataclass
class MeanSequence:
    """Mean of numbers in [low, high].

    The interval covers the mean of the conditional expectations of the rows counted, at all times
    at once, whatever they are and however they change: the empirical Bernstein confidence sequence
    with the stitched boundary of Howard, Ramdas, McAuliffe and Sekhon (2021, Theorem 4, eq. 10).
    """

    low: float
    high: float
    n_rows: int = 0
    total: float = 0.0
    variance: float = 0.0
    KEPT: ClassVar[tuple[str, ...]] = ("n_rows", "total", "variance")

    def count(self, values: Floats) -> None:
        """Add rows; each is compared with the mean of those before it."""
        totals = np.cumsum(values)
        middle = 0.5 * (self.low + self.high)
        n_before = self.n_rows + 1.0 + np.arange(len(values))  # and one row at the middle
        deviation = values - (self.total + middle + totals - values) / n_before
        self.variance += float(deviation @ deviation)
        self.n_rows += len(values)
        self.total += float(totals[-1])

    def estimate(self, alpha: float) -> Estimate:
        """Return the mean and its interval, which misses at some time with probability alpha."""
        if self.n_rows == 0:
            return Estimate(math.nan, self.low, self.high)
        v, scale = max(self.variance, 1.0), self.high - self.low
        epochs = _POWER * math.log(math.log(_GROWTH * v) / math.log(_GROWTH))
        level = epochs + math.log(2.0 * _ZETA / alpha)
        bound = math.sqrt(_K1**2 * v * level + (_K2 * scale * level) ** 2) + _K2 * scale * level
        mean, half = self.total / self.n_rows, bound / self.n_rows
        return Estimate(mean, max(mean - half, self.low), min(mean + half, self.high))


class Periods:
    """Sums over stretches of rows; when there are too many, neighbours become one."""

    KEPT: ClassVar[tuple[str, ...]] = ("table", "fewest_rows")

    def __init__(self) -> None:
        self.table = np.zeros((0, len(FIELDS)))
        self.fewest_rows = 1

    def column(self, name: str) -> Floats:
        """One field of all periods."""
        return self.table[:, FIELDS.index(name)]

    def add(self, confidence: Floats, hit: Floats, log_e: Floats) -> None:
        """Add rows, in several parts if they are many: a large batch has a course as well."""
        step = max(self.fewest_rows, LARGEST_PART)
        for start in range(0, len(hit), step):
            part = slice(start, start + step)
            sums = len(hit[part]), hit[part].sum(), confidence[part].sum(), log_e[part][-1]
            self._add(np.array(sums, dtype=np.float64))

    def _add(self, new: Floats) -> None:
        """Add sums, to the last period if that is not full."""
        if len(self.table) and self.column("rows")[-1] < self.fewest_rows:
            self.table[-1] = _join(self.table[-1], new)
        else:
            self.table = np.concatenate([self.table, new[None]])
        if len(self.table) > MOST_PERIODS:
            odd = self.table[len(self.table) // 2 * 2 :]
            self.table = np.concatenate([_join(self.table[:-1:2], self.table[1::2]), odd])
            self.fewest_rows = int(self.column("rows")[:-1].min())


def _join(first: Floats, second: Floats) -> Floats:
    """Add up periods that follow each other; the evidence is that at the end."""
    joined = first + second
    joined[..., -1] = second[..., -1]
    return joined
