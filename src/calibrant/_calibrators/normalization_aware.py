"""FIR and NA-FIR: one isotonic map for all classes, also fitted with the division in mind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, fitted, number
from calibrant._maps.steps import SharedSteps
from calibrant._solvers.normalization_aware import solve_normalization_aware
from calibrant._solvers.one_vs_rest import solve_flattened
from calibrant._types import Floats

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch


class FlattenedIsotonic(Calibrator):
    """Flattened isotonic regression (FIR): one isotonic map for all classes.

    All cells of the matrix are pooled into one binary problem, "is this cell the label?", and
    isotonic regression is fitted to it; new rows are mapped cell by cell and divided by their
    sum. Keeps the order of the classes and does not depend on which class is which, so classes
    without a label in the calibration set need no special treatment.

    Attributes
    ----------
    step_function_ : StepFunction
        The fitted map, before division by the sum.

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
        5-fold cross-validation inside the calibration set. 0 is the paper's objective, whose
        optimum usually lies at infinity; see Notes.
    tol : float, default=1e-8
        Tolerance of the optimality conditions, relative to the total weight.
    max_rounds : int, optional
        Largest number of iterations, 100 by default; 2 to 6 are usual.

    Attributes
    ----------
    step_function_ : StepFunction
        The fitted map, before division by the sum; its largest value is 1.
    solver_report_ : SolverReport
        Convergence of the solver, with the certificate of optimality.
    prior_strength_ : float
        Number of pseudo-observations used.
    cv_results_ : dict or None
        Held-out NLL ("negative_log_likelihood") of each "prior_strength" tried.

    See Also
    --------
    FlattenedIsotonic : The first round of this method.
    SortedCumulativeIsotonic : The paper's other method.

    Notes
    -----
    In the logarithm of the map the problem is convex (the paper, in the map itself, calls it
    non-convex). It is solved by iterating FIR with weights that account for the division,
    accelerated by Newton's method on the pooled blocks; see "Why NA-FIR is convex" in the
    documentation.

    Without a prior, a lowest block that holds no label gets the value 0, and a top block that is
    always right an infinite multiple of the others: held-out rows that disagree then have an
    infinite NLL but for ``min_probability``. Such values are set to their limits and reported.

    A row of weight 2 is two equal rows. The fit does not depend on the order of rows or columns.

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

    prior_strength: Any = number(default="cv", high=1e12, words=("cv",))
    tol: float = number(default=1e-8, low=1e-15, high=1.0)
    max_rounds: int | None = number(default=None, low=1, whole=True)
    map_: SharedSteps = fitted()
    prior_strength_: float = fitted()
    cv_results_: StrengthResults | None = fitted()

    step_function_ = FromMap("step_function")

    def _solve(self, batch: SimplexBatch, **known: Any) -> dict[str, Any]:
        result, report, choice = solve_normalization_aware(batch, **self._options(), **known)
        return {
            "map_": result,
            "solver_report_": report,
            "prior_strength_": float(self.prior_strength) if choice is None else choice.best,
            "cv_results_": None if choice is None else choice.results,
        }
