"""FIR: one isotonic map for all classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.calibrators.base import Calibrator
from calibrant.kernels.lookup import apply_step, build_lookup
from calibrant.solvers.flattened import solve_flattened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.report import SolverReport
    from calibrant.step_function import StepFunction


class SharedStepCalibrator(Calibrator):
    """A calibrator whose map is one step function for every class, then division by the sum."""

    step_function_: StepFunction
    solver_report_: SolverReport
    _copies = 2

    def _calibrate(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.scores == "logits":
            rows = simplex.softmax(rows)
        out = np.empty_like(rows)
        lookup = build_lookup(self.step_function_.thresholds)
        apply_step(rows, rows.view(np.int64), *lookup, self.step_function_.values, out)
        return out


class FlattenedIsotonic(SharedStepCalibrator):
    """Flattened isotonic regression (FIR): one isotonic map for all classes.

    All cells of the matrix are pooled into one binary problem, "is this cell the label?", and
    isotonic regression is fitted to it; new rows are mapped cell by cell and divided by their
    sum. Keeps the order of the classes and does not depend on which class is which, so classes
    without a label in the calibration set are no problem.

    Parameters
    ----------
    scores : {"probabilities", "logits"}, default="probabilities"
        What the matrix holds; never guessed.
    classes : array-like of shape (n_classes,), optional
        Label of each column, where the labels do not name every column.
    normalize : {None, "rows"}, default=None
        "rows" divides rows by their sums, whatever they are.
    min_probability : float, default=1e-12
        Floor of the output; the order is kept and rows sum to 1.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Label of each column.
    step_function_ : StepFunction
        The fitted map, before division by the sum.
    solver_report_ : SolverReport
        What the solver reached.

    See Also
    --------
    NormalizationAwareIsotonic : Takes the division into account when it fits.
    OneVsRestIsotonic : One map for each class.

    Notes
    -----
    Exact, in O(m k log m) time, by pooling the segments between the probabilities that were
    given to true labels; only exact ties are merged. A row that lies wholly below everything the
    map has seen keeps its scores.

    References
    ----------
    .. [1] A. Arad and S. Rosset, "Improving Multi-Class Calibration through Normalization-Aware
       Isotonic Techniques", ICML 2025.
    .. [2] J. Zhang, B. Kailkhura and T. Han, "Mix-n-Match: Ensemble and Compositional Methods for
       Uncertainty Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import FlattenedIsotonic
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (honest.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> bold = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    >>> calibrator = FlattenedIsotonic().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.61, 0.23, 0.16]])
    """

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        step, report = solve_flattened(batch)
        return {"step_function_": step, "solver_report_": report}
