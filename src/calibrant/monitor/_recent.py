"""``RecentRows``: the last rows that were counted, and what a recalibration of them would gain."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._calibrators.structured import StructuredScaling
from calibrant._simplex import SimplexBatch
from calibrant.metrics._result import Result, doc, result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.monitor._bets import Floats

MOST_ROWS, MOST_CELLS = 2000, 40_000
FEWEST_ROWS, SHARE = 100, 2 / 3
"""A proposal needs so many rows, and is fitted to that share of them, the oldest."""


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


class RecentRows:
    """The last 2,000 rows, or 40,000 cells, in single precision."""

    KEPT = ("p", "label")

    def __init__(self) -> None:
        self.p, self.label = np.zeros((0, 0), np.float32), np.zeros(0, np.int64)

    def add(self, p: Floats, label: NDArray[np.int64]) -> None:
        """Keep new rows, and forget the oldest."""
        most = max(1, min(MOST_ROWS, MOST_CELLS // p.shape[1]))
        new, labels = p[-most:].astype(np.float32), label[-most:]
        if len(new) < most and len(self.p):
            keep = most - len(new)
            new = np.concatenate([self.p[-keep:], new])
            labels = np.concatenate([self.label[-keep:], labels])
        self.p, self.label = new, labels

    def propose(self, calibrator: Any, classes: Any) -> Proposal | None:
        """Fit a recalibration to the older rows, and judge it on the others, if there are many."""
        n_fitted = round(SHARE * len(self.p))
        if len(self.p) < FEWEST_ROWS:
            return None
        p = self.p.astype(np.float64)
        p /= p.sum(axis=1, keepdims=True)
        batch = SimplexBatch(p, "probabilities", self.label, np.ones(len(p)), classes)
        found = StructuredScaling() if calibrator is None else calibrator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.fit(batch.take(slice(n_fitted)), None)
        label = self.label[n_fitted:, None]
        judged = p[n_fitted:], found.predict_proba(p[n_fitted:])
        both = [np.take_along_axis(q, label, 1) for q in judged]
        served, proposed = -np.log(np.maximum(np.hstack(both), 1e-12)).T
        gains = served - proposed
        numbers = served.mean(), proposed.mean(), gains.mean(), gains.std() / np.sqrt(len(gains))
        return Proposal(n_fitted, len(gains), *map(float, numbers), found)
