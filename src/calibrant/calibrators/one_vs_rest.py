"""Binary calibrators, one per class: isotonic and logistic."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.parameters import SMALLEST, FromMap, choice, fitted, number
from calibrant.maps.cells import ClasswiseCurves
from calibrant.solvers.beta import solve_beta
from calibrant.solvers.one_vs_rest import solve_isotonic, solve_one_vs_rest
from calibrant.solvers.platt import solve_platt
from calibrant.solvers.temperature import read_zero

if TYPE_CHECKING:
    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.one_vs_rest import Solve


PRIOR_ROWS = 20.0
"""Pseudo-observations of methods that count: within the validation parts of real classifiers one
does most of the good, and more do more."""


class OneVsRestCalibrator(Calibrator):
    """A calibrator that fits a binary map for each class, then divides rows by their sums."""

    _unlabelled = "they keep their scores"
    _copies = 5

    map_: ClasswiseCurves = fitted()

    curves_ = FromMap("curves")

    @abstractmethod
    def _binary_solver(self, batch: SimplexBatch) -> Solve:
        """Return the solver of the binary problem of a class."""

    def _prior_rows(self) -> float:
        """Return the number of pseudo-observations labelled by the scores."""
        return 0.0

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        solve = self._binary_solver(batch)
        found, report = solve_one_vs_rest(batch, solve, self._prior_rows())
        return {"map_": found, "solver_report_": report}


class OneVsRestIsotonic(OneVsRestCalibrator):
    """One-vs-rest isotonic regression (IR-OvR): one isotonic map for each class.

    The classic extension of isotonic regression to many classes: each class's indicator is
    regressed on its probability, and the mapped row is divided by its sum. With many classes or
    few rows it overfits, and it can change the order of the classes.

    Parameters
    ----------
    prior_strength : float, default=20
        Number of pseudo-observations, spread over the rows and labelled by their scores: a part of
        the scores in which no row had the label gets little, but not nothing. 0 is the textbook's.
    scores, classes, normalize, min_probability, n_jobs
        As for every calibrator.

    Attributes
    ----------
    curves_ : tuple of PiecewiseLinear
        The map of each class; the identity for a class without a label.
    classes_, map_, solver_report_
        As of every calibrator.

    See Also
    --------
    FlattenedIsotonic : One map for all classes.

    Notes
    -----
    Linear between probabilities of the calibration set, as scikit-learn's ``IsotonicRegression``
    is. A row that every map sends to zero keeps its scores.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Transforming Classifier Scores into Accurate Multiclass
       Probability Estimates", KDD 2002.

    Examples
    --------
    >>> from calibrant import OneVsRestIsotonic
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = OneVsRestIsotonic().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.67, 0.22, 0.11]])
    """

    method = "ir-ovr"
    title = "IR-OvR"
    summary = "an isotonic map for each class"
    good_for = "comparison"
    place, in_paper = 3, True

    prior_strength: float = number(default=PRIOR_ROWS, high=1e12)

    def _prior_rows(self) -> float:
        return float(self.prior_strength)

    def _binary_solver(self, batch: SimplexBatch) -> Solve:  # noqa: ARG002
        return solve_isotonic


class OneVsRestPlatt(OneVsRestCalibrator):
    """One-vs-rest Platt scaling: sigmoid(a log(p / (1 - p)) + b) for each class.

    Parameters
    ----------
    smooth_labels : bool, default=True
        Whether to fit to Platt's targets, (n + 1) / (n + 2) and 1 / (n' + 2) for a class of n
        rows and n' others, instead of 1 and 0. They save the likelihood of rare classes, and make
        rows too flat where many are rare.
    zero_probability : float, optional
        What an exact 0 is read as, and how far from it a 1; by default temperature scaling's fit.
    scores, classes, normalize, min_probability, n_jobs
        As for every calibrator.

    Attributes
    ----------
    curves_ : tuple of Sigmoid
        The map of each class; the identity for a class without a label.
    solver_report_ : SolverReport
        What the solver reached, at the worst class.

    Notes
    -----
    The slope is found on the log-odds, in which it is 1 for a calibrated classifier.
    scikit-learn's ``CalibratedClassifierCV(method="sigmoid")`` uses the probability itself where a
    classifier has no decision function, so it cannot leave a calibrated classifier as it is [2]_.
    The problem is convex and solved by Newton's method; a ridge of 1e-10 towards the identity
    keeps it finite where the labels do not. An exact 0 (or 1) is read as
    temperature scaling's fit says, or as the nearest other value of the calibration set if that is
    less.

    References
    ----------
    .. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to
       Regularized Likelihood Methods", 1999.
    .. [2] https://github.com/scikit-learn/scikit-learn/issues/34312

    Examples
    --------
    >>> from calibrant import OneVsRestPlatt
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = OneVsRestPlatt().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.6 , 0.24, 0.15]])
    """

    method = "platt-ovr"
    title = "Platt-OvR"
    summary = "a sigmoid for each class"
    good_for = "comparison"
    place = 8

    smooth_labels: bool = choice(default=True)
    zero_probability: float | None = number(default=None, low=SMALLEST, high=1.0)

    def _binary_solver(self, batch: SimplexBatch) -> Solve:
        zero = _read_zero(batch, self.zero_probability)
        return partial(solve_platt, zero=zero, smooth_labels=bool(self.smooth_labels))


class OneVsRestBeta(OneVsRestCalibrator):
    """One-vs-rest Beta calibration: sigmoid(a log p - b log(1 - p) + c) for each class.

    Parameters
    ----------
    zero_probability : float, optional
        What an exact 0 is read as, and how far from it a 1; by default temperature scaling's fit.
    scores, classes, normalize, min_probability, n_jobs
        As for every calibrator.

    Attributes
    ----------
    curves_ : tuple of BetaMap
        The map of each class; the identity for a class without a label.
    solver_report_ : SolverReport
        What the solver reached, at the worst class.

    Notes
    -----
    The likelihood is maximised over a, b >= 0, which keeps the map from decreasing: a convex
    problem with bounds, solved by Newton's method. The authors' code fits without bounds, drops
    one feature with a negative slope and fits again, which is not always the optimum. Exact 0
    and 1 are read as in ``OneVsRestPlatt``, and the same ridge of 1e-10 is added.

    References
    ----------
    .. [1] M. Kull, T. Silva Filho and P. Flach, "Beta calibration: a well-founded and easily
       implemented improvement on logistic calibration for binary classifiers", AISTATS 2017.

    Examples
    --------
    >>> from calibrant import OneVsRestBeta
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = OneVsRestBeta().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.61, 0.24, 0.15]])
    """

    method = "beta-ovr"
    title = "Beta-OvR"
    summary = "a beta map for each class"
    good_for = "comparison"
    place = 9

    zero_probability: float | None = number(default=None, low=SMALLEST, high=1.0)

    def _binary_solver(self, batch: SimplexBatch) -> Solve:
        return partial(solve_beta, zero=_read_zero(batch, self.zero_probability))


def _read_zero(batch: SimplexBatch, zero_probability: float | None) -> float:
    """Return what an exact zero is read as."""
    return math.exp(read_zero(batch, zero_probability))
