"""SCIR: one isotonic map of cumulative probability and rank."""

from __future__ import annotations

from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._calibrators.scaling import LogitCalibrator
from calibrant._maps.steps import RankedSteps
from calibrant._solvers.report import SolverReport
from calibrant._solvers.sorted_cumulative import solve_sorted_cumulative


class SortedCumulativeIsotonic(LogitCalibrator):
    """Sorted cumulative isotonic regression (SCIR) of the top-r probabilities.

    Every row gives a point (q, r) for each rank r: q is the sum of its r largest probabilities,
    and the label of the point is whether the true class is among them. Isotonic regression of
    these points in both coordinates gives g(q, r), the calibrated probability of the top r
    classes; the differences of g along a row are the calibrated probabilities. Does not depend on
    which class is which, and rows sum to 1 by construction; the order of the classes may change.

    Parameters
    ----------
    prior_share : "cv" or float in [0, 1], default="cv"
        Weight of the temperature-scaled row in the result, because the differences of g are exactly
        0 inside its plateaus. "cv" chooses it by cross-validation inside the calibration set: the
        smallest weight whose held-out NLL is within 1 % of the minimum. 0 means none.
    max_rank : int, optional
        Pool this rank and higher ones, where g then depends on q alone. This makes the fit smaller
        and faster with many classes; 1 is isotonic regression on q.
    raise_to_even : bool, default=True
        Whether g is raised to r / k where it is below; see Notes. The paper does not.

    Attributes
    ----------
    step_function_ : RankedStepFunction
        The fitted g.
    prior_share_ : float
        Weight of the temperature-scaled row.
    inverse_temperature_ : float
        1 / T of the temperature-scaled rows.
    solver_report_ : SolverReport
        Convergence of the isotonic regression.
    prior_report_ : SolverReport or None
        Result of the cross-validation.

    See Also
    --------
    FlattenedIsotonic : One isotonic map of the probability of each class.
    bivariate_isotonic_regression : The regression under this method, for any points.

    Notes
    -----
    The fit is exact: integers are split by maximal upper sets until no part has one, in O(N)
    memory for the N = m (k - 1) points. Exact ties are merged. Classes with equal probabilities
    have no order; they share the label at fit and get the average of their outputs. The regression
    is the same for every proper scoring rule, squared error and log loss among them. Where it is
    below r / k, what the top r classes have if all tie, g is raised to that: else two classes would
    change places across the tie.

    References
    ----------
    .. [1] A. Arad and S. Rosset, "Improving Multi-Class Calibration through Normalization-Aware
       Isotonic Techniques", ICML 2025.
    .. [2] J. Spouge, H. Wan and W. J. Wilbur, "Least squares isotonic regression in two
       dimensions", Journal of Optimization Theory and Applications 117, 2003.
    """

    method = "scir"
    title = "SCIR"
    summary = "an isotonic map of the sum of the r largest scores, for each r"
    good_for = "the confidence; [ImageNet size in seconds](../explanation/scir.md)"
    same_for_all_classes = True
    place, in_paper = 1, True
    _starts_at_temperature = True
    _solver = staticmethod(solve_sorted_cumulative)
    _found = ("map_", "solver_report_", "prior_report_")

    prior_share: str | float = number(default="cv", high=1.0, words=("cv",))
    max_rank: int | None = number(default=None, low=1, whole=True)
    raise_to_even: bool = choice(default=True)
    map_: RankedSteps = fitted()
    prior_report_: SolverReport | None = fitted()

    step_function_ = FromMap("step_function")
    prior_share_ = FromMap("prior_share")
    inverse_temperature_ = FromMap("inverse_temperature")
