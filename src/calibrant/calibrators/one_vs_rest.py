"""Binary calibrators, one per class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.calibrators.base import Calibrator
from calibrant.solvers.one_vs_rest import solve_one_vs_rest_isotonic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.one_vs_rest import PiecewiseLinear
    from calibrant.solvers.report import SolverReport


class OneVsRestIsotonic(Calibrator):
    """One-vs-rest isotonic regression (IR-OvR): one isotonic map for each class.

    The classic extension of isotonic regression to many classes: each class's indicator is
    regressed on its probability, and the mapped row is divided by its sum. With many classes or
    few rows it overfits, and it can change the order of the classes.

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
    curves_ : list of PiecewiseLinear
        The map of each class; the identity for a class without a label.
    solver_report_ : SolverReport
        What the solver reached.

    See Also
    --------
    FlattenedIsotonic : One map for all classes.

    Notes
    -----
    Uses scikit-learn's ``IsotonicRegression``, which interpolates linearly. A row that every map
    sends to zero keeps its scores.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Transforming Classifier Scores into Accurate Multiclass
       Probability Estimates", KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import OneVsRestIsotonic
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (honest.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> bold = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    >>> calibrator = OneVsRestIsotonic().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.66, 0.22, 0.12]])
    """

    curves_: list[PiecewiseLinear]
    solver_report_: SolverReport

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        curves, report = solve_one_vs_rest_isotonic(batch)
        return {"curves_": curves, "solver_report_": report}

    def _calibrate(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.scores == "logits":
            rows = simplex.softmax(rows)
        out = np.column_stack([curve(rows[:, j]) for j, curve in enumerate(self.curves_)])
        total = out.sum(axis=1, keepdims=True)
        return np.where(total > 0, out / np.where(total > 0, total, 1.0), rows)
