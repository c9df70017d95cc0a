"""One binary problem per class, each solved on its own."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from sklearn.isotonic import IsotonicRegression

from calibrant.errors import MissingClassWarning
from calibrant.solvers.report import SolverReport

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch


@dataclass(frozen=True, slots=True, eq=False)
class PiecewiseLinear:
    """A function that is linear between ``x`` and constant outside."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Value at each ``x``."""
        return np.interp(x, self.x, self.y)


IDENTITY = PiecewiseLinear(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def warn_of_missing_classes(batch: SimplexBatch, remedy: str) -> NDArray[np.bool_]:
    """Return which classes have a label, and warn if some have none."""
    present = np.isin(np.arange(batch.n_classes), batch.class_index)
    if not present.all():
        missing = batch.classes[~present]
        warnings.warn(
            f"{len(missing)} of {batch.n_classes} classes have no label in the calibration set, "
            f"{missing[0]!r} for one; {remedy}",
            MissingClassWarning,
            stacklevel=5,
        )
    return present


def solve_one_vs_rest_isotonic(
    batch: SimplexBatch,
) -> tuple[list[PiecewiseLinear], SolverReport]:
    """scikit-learn's isotonic regression of each class's indicator on its probability.

    The objective reported is the mean squared error over cells, before division by the sum.
    """
    started = perf_counter()
    present = warn_of_missing_classes(batch, "they keep their scores")
    batch = batch.in_canonical_order()
    probabilities = batch.probabilities()
    curves, loss = [], 0.0
    for j in range(batch.n_classes):
        if not present[j]:
            curves.append(IDENTITY)
            continue
        column = np.ascontiguousarray(probabilities[:, j])
        label = (batch.class_index == j).astype(np.float64)
        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        model.fit(column, label, sample_weight=batch.weight)
        curves.append(PiecewiseLinear(model.X_thresholds_, model.y_thresholds_))
        loss += float(np.sum(batch.weight * (model.predict(column) - label) ** 2))
    n_cells = float(batch.weight.sum()) * max(int(present.sum()), 1)
    report = SolverReport(
        "pava per class",
        loss / n_cells,
        0.0,
        0.0,
        batch.n_classes,
        perf_counter() - started,
        n_blocks=sum(len(np.unique(curve.y)) for curve in curves),
    )
    return curves, report
