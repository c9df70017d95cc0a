"""Structured scaling: a matrix for the logits, shrunk to one temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._calibrators.scaling import LogitCalibrator
from calibrant._maps.logits import StructuredMap
from calibrant._solvers.rows import AT_TEMPERATURE
from calibrant._solvers.structured import refit_structured, solve_structured

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._maps.logits import TemperatureMap
    from calibrant._solvers.structured import StructuredFit

FORMS = ("auto", "matrix", "diagonal")

MOST_CLASSES = 200
"""Up to which "auto" fits a matrix: its cost grows with the square of the number of classes."""


class StructuredScaling(LogitCalibrator):
    """Structured scaling: softmax(z / T + A x + c), shrunk to temperature scaling.

    z are the logits, and x = log(q + bound), minus its mean over the row, are bounded logarithms of
    the temperature-scaled probabilities q. Ridge penalties shrink the diagonal of A to a common
    value and all other entries of A and c to zero, with strengths that need no tuning. Corrects
    single classes and pairs of classes; the order of the classes can change.

    Parameters
    ----------
    form : {"auto", "matrix", "diagonal"}, default="auto"
        "matrix" lets each class depend on all others, "diagonal" only on itself. "auto" is a
        matrix up to 200 classes, where it is both affordable and better.
    strength : "evidence" or float, default="evidence"
        Factor of all penalties. "evidence" adapts those on the diagonal, off it and on the
        intercepts to the calibration set. 0 is no penalty; a very large number is temperature
        scaling.
    prior_strength : float, default=1000
        Number of pseudo-observations, rows of the calibration set with temperature-scaled labels,
        that shrink the map towards temperature scaling where there are few rows or no errors. It
        falls as the map proves to differ. 0 means none.
    bound : float, default=0.02
        Constant added to q before the logarithm. 0 leaves the logarithms unbounded, as in matrix
        scaling.
    tol : float, default=1e-6
        Largest gradient of the mean NLL, each in units of its curvature.
    max_rounds : int, default=100
        Largest number of iterations of Newton's method.

    Attributes
    ----------
    inverse_temperature_ : float
        1 / T, not negative.
    coef_ : ndarray of shape (n_classes, n_classes) or (n_classes,)
        Matrix A, or its diagonal.
    intercept_ : ndarray of shape (n_classes,)
        Intercepts c.
    scale_ : float
        Inverse temperature of q.
    solver_report_ : SolverReport
        Convergence of the solver; its notes name the penalties.

    Notes
    -----
    A penalty is a number of rows times half the square of a parameter: 32 for the diagonal's
    distance from its common value, 16 off it, 4 for intercepts, 1 for the common value and for
    the distance of 1 / T from temperature scaling's. These numbers and the bound come from
    cross-validation within the validation parts of 46 real classifiers, where doubling or halving
    them changes the NLL by less than half a percent on average. "evidence" takes three steps of
    MacKay's fixed point from there: few labels per class, or classes that need nothing, give
    stronger penalties. A weight is a number of rows: all of them doubled are twice as many rows
    against the same penalties, which shrink the map less.

    The penalised problem is convex, with a single optimum, which exists also where classes have
    no label. It is solved by Newton's method with conjugate gradients.

    References
    ----------
    .. [1] E. Berta, D. Holzmueller, M. I. Jordan, F. Bach, "Structured Matrix Scaling for
       Multi-Class Calibration", 2025.
    .. [2] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992.

    Examples
    --------
    >>> from calibrant import StructuredScaling
    >>> from calibrant.datasets import simulated_scores
    >>> tilted, y = simulated_scores(5000, power=2, tilt=(4, 1, 1))
    >>> calibrator = StructuredScaling().fit(tilted, y)
    >>> calibrator.predict_proba([[0.855, 0.137, 0.008]]).round(1)  # of 0.5, 0.4, 0.1
    array([[0.5, 0.4, 0.1]])
    """

    method = "structured"
    title = "Structured"
    summary = "a matrix of weights, held near one temperature"
    good_for = "classes that are biased differently"
    place = 15
    _unlabelled = "their probabilities are shrunk, like those of rare classes"
    _starts_at_temperature = True

    form: str = choice(FORMS, default="auto")
    strength: str | float = number(default="evidence", high=1e12, words=("evidence",))
    bound: float = number(default=0.02, high=1.0)
    prior_strength: float = number(default=AT_TEMPERATURE, high=1e12)
    tol: float = number(default=1e-6)
    max_rounds: int = number(default=100, low=1, whole=True)
    map_: StructuredMap = fitted()

    inverse_temperature_ = FromMap("inverse_temperature")
    coef_ = FromMap("coef")
    intercept_ = FromMap("intercept")
    scale_ = FromMap("scale")

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes  # the penalties hold the matrix

    def _fits_matrix(self, n_classes: int) -> bool:
        return self.form == "matrix" or (self.form == "auto" and n_classes <= MOST_CLASSES)

    def _fit_whole(
        self,
        batch: SimplexBatch,
        temperature: TemperatureMap | None = None,
        like: StructuredFit | None = None,
    ) -> StructuredFit:
        """Fit a checked calibration set, to return what fits to parts of it begin with."""
        return solve_structured(
            batch,
            full=self._fits_matrix(batch.n_classes),
            strength=None if isinstance(self.strength, str) else float(self.strength),
            bound=float(self.bound),
            prior_strength=float(self.prior_strength),
            tol=self.tol,
            max_rounds=self.max_rounds,
            zero_probability=self.zero_probability,
            temperature=temperature,
            like=like,
        )

    def _solve(
        self,
        batch: SimplexBatch,
        temperature: TemperatureMap | None = None,
        whole: StructuredFit | None = None,
        whole_weight: float | None = None,
    ) -> dict[str, Any]:
        """Fit the batch: that of ``whole``, or, if its weight is given, a part of its rows."""
        if whole is None:
            whole = self._fit_whole(batch, temperature)
        result, report = whole[:2]
        if whole_weight is not None:
            limits = {"tol": self.tol, "max_rounds": self.max_rounds}
            result, report = refit_structured(batch, whole, whole_weight, **limits)
        return {"map_": result, "solver_report_": report}
