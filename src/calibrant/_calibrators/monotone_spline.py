"""Monotone spline: one smooth, strictly increasing curve for all classes."""

from __future__ import annotations

from calibrant._calibrators.parameters import FromMap, fitted, number
from calibrant._calibrators.scaling import LogitCalibrator
from calibrant._maps.logits import SplineMap
from calibrant._solvers.monotone_spline import solve_monotone_spline
from calibrant._solvers.pseudo_rows import AT_TEMPERATURE
from calibrant.scale._scaling import SplineStatistics


class MonotoneSpline(LogitCalibrator):
    """Monotone spline: softmax(theta(log p)) with one increasing, piecewise linear theta.

    The smooth sibling of NA-FIR: fitted with the division by the sum of the row in mind, but
    continuous, strictly increasing and shrunk to a straight line, which is temperature scaling.
    Keeps the order of the classes strictly, so it makes no ties and no zeros, and does not depend
    on which class is which.

    Parameters
    ----------
    n_knots : int, default=12
        Most knots at which the slope of theta may change.
    strength : "cv" or float, default="cv"
        Penalty on squared differences of neighbouring slopes, relative to temperature scaling's,
        as a number of rows. A very large one is temperature scaling. "cv" takes 8, unless another
        one between 0.125 and 8**8 is better by two standard errors in 5-fold cross-validation
        inside the calibration set.
    prior_strength : float, default=1000
        Number of pseudo-observations, rows like those of the calibration set with labels from
        temperature scaling, that hold the map where there are few rows, or none that is wrong. The
        farther it proves to be from temperature scaling, the fewer they become. 0 has none.
    tol : float, default=1e-8
        Largest projected gradient of the mean NLL, each in units of its curvature.
    max_rounds : int, default=100
        Most evaluations of Newton's method.

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots,)
        Log-probabilities at which the slope changes, increasing; fewer than asked for where
        predictions take few values.
    slopes_ : ndarray of shape (n_knots + 1,)
        Slope of theta below the first knot, between knots and above the last; positive.
    solver_report_ : SolverReport
        What the solver reached; its notes name the strength that was chosen.

    Notes
    -----
    The mean NLL is convex in the slopes. It is solved by a projected Newton method on a kernel
    that works row by row; slopes stay between a thousandth and a thousand times that of
    temperature scaling. Knots are quantiles of the log-probabilities of all cells, weighted by
    q (1 - q) with q their temperature-scaled probability: that is where the likelihood can tell
    slopes apart. Beyond the outer knots theta goes on as a straight line.

    Examples
    --------
    >>> from calibrant import MonotoneSpline
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores(5000)
    >>> calibrator = MonotoneSpline().fit(bold, y)
    >>> calibrator.predict_proba([[0.885, 0.111, 0.004]]).round(1)  # 0.6, 0.3, 0.1 to the third
    array([[0.6, 0.3, 0.1]])
    """

    method = "spline"
    title = "Spline"
    summary = "one smooth increasing curve"
    good_for = "no ties, no steps"
    same_for_all_classes = True
    place, keeps_order = 16, True
    _copies = 12
    _starts_at_temperature = True
    _statistics = SplineStatistics
    _solver = staticmethod(solve_monotone_spline)

    n_knots: int = number(default=12, low=1, high=1000, whole=True)
    strength: str | float = number(default="cv", infinite=True, words=("cv",))
    prior_strength: float = number(default=AT_TEMPERATURE, high=1e12)
    tol: float = number(default=1e-8)
    max_rounds: int = number(default=100, low=1, whole=True)
    map_: SplineMap = fitted()

    knots_ = FromMap("knots")
    slopes_ = FromMap("slopes")

    def _n_parameters(self, n_classes: int) -> int:  # noqa: ARG002
        return int(self.n_knots) + 1
