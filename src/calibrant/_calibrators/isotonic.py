"""The paper's methods: FIR and NA-FIR, one isotonic map for all classes, and SCIR, of sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._calibrators.scaling import LogitCalibrator
from calibrant._maps.steps import RankedSteps, SharedSteps
from calibrant._solvers.normalization_aware import solve_normalization_aware
from calibrant._solvers.one_vs_rest import solve_flattened
from calibrant._solvers.report import SolverReport
from calibrant._solvers.sorted_cumulative import solve_sorted_cumulative
from calibrant._types import Floats

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap


class FlattenedIsotonic(Calibrator):
    """Flattened isotonic regression (FIR): one isotonic map for all classes.

    All cells of the matrix are pooled into one binary problem, "is this cell the label?", and
    isotonic regression is fitted to it; new rows are mapped cell by cell and divided by their
    sum. Keeps the order of the classes and does not depend on which class is which.

    Attributes
    ----------
    step_function_ : StepFunction
        The fitted map, before division by the sum.

    Notes
    -----
    Exact, in O(m k log m) time; only exact ties are merged. A row that lies wholly below everything
    the map has seen keeps its scores.

    References
    ----------
    .. [1] A. Arad and S. Rosset, "Improving Multi-Class Calibration through Normalization-Aware
       Isotonic Techniques", ICML 2025.
    .. [2] J. Zhang, B. Kailkhura and T. Han, "Mix-n-Match: Ensemble and Compositional Methods for
       Uncertainty Calibration in Deep Learning", ICML 2020.
    """

    method = "fir"
    title = "FIR"
    summary = "one isotonic step function"
    good_for = "comparison"
    same_for_all_classes = True
    place, in_paper, keeps_order = 2, True, True
    _most_points = 0  # an exact fit takes no longer
    _solver = staticmethod(solve_flattened)

    map_: SharedSteps = fitted()
    step_function_ = FromMap("step_function")


class StrengthResults(TypedDict):
    """Held-out NLL of each strength tried."""

    prior_strength: Floats
    negative_log_likelihood: Floats


class NormalizationAwareIsotonic(Calibrator):
    """Normalization-aware flattened isotonic regression (NA-FIR).

    As in FIR, one non-decreasing map is applied to all classes and rows are divided by their sums;
    but the map minimises the NLL *after* the division. It keeps the order of the classes and is the
    same for all classes.

    Parameters
    ----------
    prior_strength : "cv" or float, default="cv"
        Number of pseudo-observations, rows of the calibration set with temperature-scaled labels,
        that shrink the map towards temperature scaling. "cv" chooses it between 10 and 10,000 by
        5-fold cross-validation. 0 is the paper's objective, whose optimum usually lies at infinity.
    tol : float, default=1e-8
        Tolerance of the optimality conditions, relative to the total weight.
    max_rounds : int, optional
        Largest number of iterations, 100 by default; 2 to 6 are usual.

    Attributes
    ----------
    step_function_ : StepFunction
        The fitted map, before division by the sum; its largest value is 1.
    prior_strength_ : float
        Number of pseudo-observations used.
    cv_results_ : dict or None
        Held-out NLL ("negative_log_likelihood") of each "prior_strength" tried.

    Notes
    -----
    In the logarithm of the map the problem is convex (the paper, in the map itself, calls it
    non-convex): FIR is iterated with weights that account for the division, accelerated by Newton's
    method on the pooled blocks; see "Why NA-FIR is convex" in the documentation.

    Without a prior, a lowest block that holds no label gets the value 0, and a top block that is
    always right an infinite multiple of the others: held-out rows that disagree then have an
    infinite NLL but for ``min_probability``. Such values are set to their limits and reported.

    References
    ----------
    .. [1] A. Arad and S. Rosset, "Improving Multi-Class Calibration through Normalization-Aware
       Isotonic Techniques", ICML 2025.

    Examples
    --------
    >>> from calibrant import NormalizationAwareIsotonic
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = NormalizationAwareIsotonic().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.59, 0.26, 0.15]])
    >>> calibrator.solver_report_.converged
    True
    """

    method = "na-fir"
    title = "NA-FIR"
    summary = "one isotonic step function, fitted with the normalisation"
    good_for = (
        "many classes with the same bias; does not correct the base rate of two; the paper's "
        "method, [solved exactly](../explanation/why-na-fir-is-convex.md)"
    )
    same_for_all_classes = True
    place, in_paper, keeps_order = 0, True, True
    _starts_at_temperature = True

    prior_strength: str | float = number(default="cv", high=1e12, words=("cv",))
    tol: float = number(default=1e-8, low=1e-15, high=1.0)
    max_rounds: int | None = number(default=None, low=1, whole=True)
    map_: SharedSteps = fitted()
    prior_strength_: float = fitted()
    cv_results_: StrengthResults | None = fitted()
    step_function_ = FromMap("step_function")

    def _solve(
        self, batch: SimplexBatch, temperature: TemperatureMap | None = None
    ) -> dict[str, object]:
        result, report, choice = solve_normalization_aware(
            batch, temperature=temperature, **self._options()
        )
        return {
            "map_": result,
            "solver_report_": report,
            "prior_strength_": float(self.prior_strength) if choice is None else choice.best,
            "cv_results_": None if choice is None else choice.results,
        }


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
        0 inside its plateaus. "cv" takes the smallest weight whose held-out NLL is within 1 % of
        the minimum. 0 means none.
    max_rank : int, optional
        Pool this rank and higher ones, where g then depends on q alone: smaller and faster with
        many classes. 1 is isotonic regression on q.
    raise_to_even : bool, default=True
        Whether g is raised to r / k where it is below; see Notes. The paper does not.

    Attributes
    ----------
    step_function_ : RankedStepFunction
        The fitted g.
    prior_share_, inverse_temperature_ : float
        Weight of the temperature-scaled row, and its 1 / T.
    prior_report_ : SolverReport or None
        Result of the cross-validation.

    See Also
    --------
    FlattenedIsotonic : One isotonic map of the probability of each class.
    bivariate_isotonic_regression : The regression under this method, for any points.

    Notes
    -----
    The fit is exact: integers are split by maximal upper sets until no part has one, in O(N)
    memory for the N = m (k - 1) points. Classes with equal probabilities share the label at fit and
    get the average of their outputs. The regression is the same for every proper scoring rule.
    Where it is below r / k, what the top r classes have if all tie, g is raised to that: else two
    classes would change places across the tie.

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
