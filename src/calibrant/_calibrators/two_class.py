"""Two-class scaling: an average of small logistic maps of the log-odds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.one_vs_rest import OneVsRestLogistic
from calibrant._calibrators.parameters import number
from calibrant._solvers.rows import SMOOTH_POINTS
from calibrant._solvers.two_class import solve_two_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray


class TwoClassScaling(OneVsRestLogistic):
    """Two-class scaling: average of small logistic maps of the log-odds, weighted by evidence.

    Made for two classes and few rows. Six maps are fitted: starting at the scores, at temperature
    scaling or at a slope around the base rate, with or without an intercept, each with curvature
    that may treat the two classes differently. Their probabilities are averaged with weights by
    the evidence for each. Temperature scaling gets weight where errors are few, and the scores
    where the gain is small. The result is one non-decreasing curve of the log-odds. With more than
    two classes there is one curve for each class against all others, and rows are divided by their
    sums.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest gradient of the mean NLL of any map, in units of its curvature.

    Attributes
    ----------
    curves_ : tuple of LogOddsCurve
        Fitted curve of each class; with two classes the first mirrors the second. With more than
        two, a class without a label keeps its scores.
    solver_report_ : SolverReport
        Convergence of the worst map; its notes name the weights.

    Notes
    -----
    Ridge penalties are numbers of rows, and 120 pseudo-observations hold each map to the line that
    it starts from, fewer where it proves to differ; the problem is convex. The weight of a map is
    its marginal likelihood by Laplace's approximation. With E the loss of temperature scaling in
    nats, that has the share ``1 / (1 + E**2 / n)`` of n rows, and the scores have
    ``1 / (1 + exp(gain))`` of what the gain over them is in nats. The penalties were chosen within
    the validation parts of real classifiers (``tools/measure_auto.py``). A weight is a number of
    rows: all of them doubled are twice as many rows against the same penalties.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992.

    Examples
    --------
    >>> from calibrant import TwoClassScaling
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores(5000, tilt=(1.0, 1.0))
    >>> calibrator = TwoClassScaling().fit(bold, y)
    >>> calibrator.predict_proba([[0.027, 0.973]]).round(1)
    array([[0.2, 0.8]])
    """

    method = "two-class"
    title = "TwoClass"
    summary = "an average of small logistic maps of the log-odds"
    good_for = "two classes"
    place = 16
    _most_points = SMOOTH_POINTS
    _solver = staticmethod(solve_two_class)

    tol: float = number(default=1e-8)

    def _missing(self, present: NDArray[np.bool_], classes: NDArray[Any]) -> Iterator[Warning]:
        if len(classes) > 2:  # the curve of two becomes that of a rare class
            yield from super()._missing(present, classes)

    _solve = Calibrator._solve  # noqa: SLF001  (of all classes at once)
