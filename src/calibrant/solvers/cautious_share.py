"""How far to leave a baseline for a mixture that did better on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant import threads
from calibrant.kernels.softmax import add_gains

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SHARES = np.linspace(0.0, 1.0, 21)
"""What is tried; the gain is flat at its top."""


@dataclass(frozen=True, slots=True)
class CautiousShare:
    """A share of the mixture; the baseline has the rest."""

    share: float
    gain: float  # mean held-out log-likelihood less that of the baseline
    standard_error: float  # of the gain, if the baseline were the truth


def solve_cautious_share(
    baseline: Array,
    mixture: Array,
    class_index: NDArray[np.int64],
    weight: Array,
    caution: float,
) -> CautiousShare:
    """Share of the largest gain, of those whose gain is at least ``caution`` standard errors.

    The gain of share s in row i is g = log(1 + s (mixture_ij / baseline_ij - 1)) at the row's
    label j. Its variance is taken over j from the baseline's own probabilities, as in a score
    test of the baseline, and not from the sample: a confident mistake that happens once in ten
    thousand rows is in few samples, but it is what a mixture that is too sharp pays for.
    """
    gains, variances = np.zeros(len(SHARES)), np.zeros(len(SHARES))
    baseline, mixture = map(np.ascontiguousarray, (baseline, mixture))

    def add(some: slice) -> None:
        add_gains(
            baseline, mixture, class_index, weight, SHARES[some], gains[some], variances[some]
        )

    for _ in threads.each(add, [slice(s, s + 1) for s in range(len(SHARES))]):
        pass
    total = weight.sum()
    mean, error = gains / total, np.sqrt(np.maximum(variances, 0.0)) / total
    best = int(np.argmax(np.where(mean >= caution * error, mean, -np.inf)))  # 0 always is
    return CautiousShare(float(SHARES[best]), float(mean[best]), float(error[best]))
