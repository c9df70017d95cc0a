"""NA-FIR: one isotonic map for all classes, fitted with the division by the sum in mind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from calibrant import simplex
from calibrant.calibrators.flattened import SharedStepCalibrator
from calibrant.solvers.annealing import solve_annealing
from calibrant.solvers.normalization_aware import solve_normalization_aware
from calibrant.solvers.penalty import solve_penalty
from calibrant.solvers.prior_strength import build_likelihood
from calibrant.solvers.projected_gradient import solve_projected_gradient
from calibrant.solvers.slsqp import solve_slsqp
from calibrant.solvers.trust_constr import solve_trust_constr

if TYPE_CHECKING:
    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.solvers.report import SolverReport
    from calibrant.step_function import StepFunction

SOLVERS: dict[str, Any] = {
    "exact": solve_normalization_aware,
    "annealing": solve_annealing,
    "projected-gradient": solve_projected_gradient,
    "slsqp": solve_slsqp,
    "trust-constr": solve_trust_constr,
    "penalty": solve_penalty,
}


class NormalizationAwareIsotonic(SharedStepCalibrator):
    """Normalization-aware flattened isotonic regression (NA-FIR).

    Like FIR one non-decreasing map for all classes, followed by division by the sum of the row;
    but the map is the one of least NLL *after* the division. Keeps the order of the classes and
    does not depend on which class is which.

    Parameters
    ----------
    solver : str, default="exact"
        "exact" reaches the optimum over all non-decreasing maps and proves it. The paper's own
        ways, for comparison, search the values of the blocks that PAVA finds: "annealing" (its
        Algorithm 1), "projected-gradient", "slsqp", "trust-constr" and "penalty".
    prior_strength : "cv" or float, default="cv"
        The map is drawn towards temperature scaling by this many pseudo-observations, rows like
        those of the calibration set with temperature-scaled labels. "cv" chooses it between 10 and
        10,000 by 5-fold cross-validation inside the calibration set. 0 is the paper's objective,
        whose optimum usually lies at infinity; see Notes.
    tol : float, default=1e-8
        Violation of the optimality conditions to reach, relative to the total weight.
    max_rounds : int, optional
        Limit of iterations; by default the solver's own (100 for "exact", which needs 2 to 6).
    random_state : int, RandomState or None, default=None
        Random numbers of "annealing".
    min_blocks : int, optional
        "annealing": split the blocks of PAVA until there are so many.
    split_size_threshold : int, default=100
        "annealing": no split makes a block with less weight of cells than this.
    epsilon_change : float, default=1e-3
        "annealing": change of a block's value in one step.
    beta : float, default=200
        "annealing": inverse temperature of the acceptance of steps for the worse.
    n_iterations : int, default=100_000
        "annealing": number of steps.
    n_iterations_no_change : int, default=10_000
        "annealing": stop after so many steps without a new best.
    verbose : bool, default=False
        "annealing": show progress (if ``rich`` is installed).
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
        The fitted map, before division by the sum; its largest value is 1.
    solver_report_ : SolverReport
        What the solver reached, with the certificate of optimality.
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
    >>> import numpy as np
    >>> from calibrant import NormalizationAwareIsotonic
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (honest.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> bold = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    >>> calibrator = NormalizationAwareIsotonic().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.59, 0.26, 0.15]])
    >>> calibrator.solver_report_.converged
    True
    """

    prior_strength_: float
    cv_results_: dict[str, Any] | None
    _copies = 6

    def __init__(
        self,
        solver: str = "exact",
        *,
        prior_strength: Any = "cv",
        tol: float = 1e-8,
        max_rounds: int | None = None,
        random_state: Any = None,
        min_blocks: int | None = None,
        split_size_threshold: int = 100,
        epsilon_change: float = 1e-3,
        beta: float = 200.0,
        n_iterations: int = 100_000,
        n_iterations_no_change: int = 10_000,
        verbose: bool = False,
        scores: str = "probabilities",
        classes: Any = None,
        normalize: str | None = None,
        min_probability: float = 1e-12,
    ) -> None:
        super().__init__(
            scores=scores, classes=classes, normalize=normalize, min_probability=min_probability
        )
        self.solver = solver
        self.prior_strength = prior_strength
        self.tol = tol
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.min_blocks = min_blocks
        self.split_size_threshold = split_size_threshold
        self.epsilon_change = epsilon_change
        self.beta = beta
        self.n_iterations = n_iterations
        self.n_iterations_no_change = n_iterations_no_change
        self.verbose = verbose

    @property
    def calibration_map_(self) -> StepFunction:
        """``step_function_``, by the paper's name for it."""
        return self.step_function_

    def _check_parameters(self) -> None:
        simplex.check_option("solver", self.solver, tuple(SOLVERS))
        if not isinstance(self.prior_strength, str):
            simplex.check_number("prior_strength", self.prior_strength, low=0.0, high=1e12)
        else:
            simplex.check_option("prior_strength", self.prior_strength, ("cv",))
        simplex.check_number("tol", self.tol, low=1e-15, high=1.0)
        for name in ("max_rounds", "min_blocks"):
            if getattr(self, name) is not None:
                simplex.check_number(name, getattr(self, name), low=1, whole=True)
        for name in ("split_size_threshold", "n_iterations", "n_iterations_no_change"):
            simplex.check_number(name, getattr(self, name), low=1, whole=True)
        simplex.check_number("epsilon_change", self.epsilon_change, low=1e-15, high=1.0)
        simplex.check_number("beta", self.beta, low=0.0)

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        strength = None if isinstance(self.prior_strength, str) else float(self.prior_strength)
        likelihood, choice = build_likelihood(batch, strength)
        step, report = self._minimise(likelihood)
        return {
            "step_function_": step,
            "solver_report_": report,
            "prior_strength_": likelihood.prior_strength,
            "cv_results_": None
            if choice is None
            else {
                "prior_strength": choice.strengths,
                "negative_log_likelihood": choice.losses,
            },
        }

    def _minimise(self, likelihood: NormalizedLikelihood) -> tuple[StepFunction, SolverReport]:
        options: dict[str, Any]
        if self.solver == "annealing":
            seed = self.random_state
            if not isinstance(seed, np.random.Generator):
                seed = np.random.default_rng(check_random_state(seed).randint(2**31))
            options = {
                "random_state": seed,
                "min_blocks": self.min_blocks,
                "split_size_threshold": self.split_size_threshold,
                "epsilon_change": self.epsilon_change,
                "beta": self.beta,
                "n_iterations": self.n_iterations,
                "n_iterations_no_change": self.n_iterations_no_change,
                "verbose": self.verbose,
            }
        else:
            options = {"tol": self.tol}
            if self.max_rounds is not None:
                options["max_rounds"] = self.max_rounds
        step, report = SOLVERS[self.solver](likelihood, **options)
        return step, report
