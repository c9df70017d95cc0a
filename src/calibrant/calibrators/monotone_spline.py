"""Monotone spline: one smooth, strictly increasing curve for all classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant import simplex
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import FromMap, fitted
from calibrant.maps.logits import SplineMap
from calibrant.solvers.monotone_spline import solve_monotone_spline
from calibrant.solvers.pseudo_rows import AT_TEMPERATURE

if TYPE_CHECKING:
    from calibrant.simplex import SimplexBatch


class MonotoneSpline(Calibrator):
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
    zero_probability : float, optional
        What an exact zero is read as; by default temperature scaling's fit of it.
    scores, classes, normalize, min_probability
        As for every calibrator.

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots,)
        Log-probabilities at which the slope changes, increasing; fewer than asked for where
        predictions take few values.
    slopes_ : ndarray of shape (n_knots + 1,)
        Slope of theta below the first knot, between knots and above the last; positive.
    zero_logit_ : float
        Log-probability that an exact zero is read as.
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
    >>> import numpy as np
    >>> from calibrant.calibrators.monotone_spline import MonotoneSpline
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=5000)
    >>> y = (honest.cumsum(axis=1) > rng.random((5000, 1))).argmax(axis=1)
    >>> bold = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    >>> calibrator = MonotoneSpline().fit(bold, y)
    >>> new = np.array([[0.6, 0.3, 0.1]]) ** 3
    >>> calibrator.predict_proba(new / new.sum()).round(1)
    array([[0.6, 0.3, 0.1]])
    """

    method = "spline"
    title = "Spline"
    summary = "one smooth increasing curve"
    good_for = "no ties, no steps"
    same_for_all_classes = True
    place, keeps_order = 16, True
    _copies = 12

    n_knots: int = 12
    strength: str | float = "cv"
    prior_strength: float = AT_TEMPERATURE
    tol: float = 1e-8
    max_rounds: int = 100
    zero_probability: float | None = None
    map_: SplineMap = fitted()

    knots_ = FromMap("knots")
    slopes_ = FromMap("slopes")
    zero_logit_ = FromMap("zero_logit")

    def _check_parameters(self) -> None:
        simplex.check_zero_probability(self.zero_probability)
        simplex.check_number("prior_strength", self.prior_strength, low=0.0, high=1e12)
        simplex.check_number("n_knots", self.n_knots, low=1, high=1000, whole=True)
        if not isinstance(self.strength, str):
            simplex.check_number("strength", self.strength, low=0.0, infinite=True)
        else:
            simplex.check_option("strength", self.strength, ("cv",))
        simplex.check_number("tol", self.tol, low=0.0)
        simplex.check_number("max_rounds", self.max_rounds, low=1, whole=True)

    def _n_parameters(self, n_classes: int) -> int:  # noqa: ARG002
        return int(self.n_knots) + 1

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        found, report = solve_monotone_spline(
            batch,
            n_knots=self.n_knots,
            strength=None if isinstance(self.strength, str) else float(self.strength),
            prior_strength=float(self.prior_strength),
            tol=self.tol,
            max_rounds=self.max_rounds,
            zero_probability=self.zero_probability,
        )
        return {"map_": found, "solver_report_": report}
