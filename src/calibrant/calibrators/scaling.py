"""Parametric maps of the logits: temperature, vector and matrix scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.calibrators.base import Calibrator
from calibrant.kernels.temperature import scaled_softmax
from calibrant.solvers.affine import AffineMap, RidgePenalty, solve_affine
from calibrant.solvers.pseudo_rows import AT_SCORES
from calibrant.solvers.temperature import Temperature, solve_temperature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.report import SolverReport


class TemperatureScaling(Calibrator):
    """Temperature scaling (TS): softmax(z / T) with one temperature for all classes.

    Keeps the order of the classes and does not depend on which class is which.

    Parameters
    ----------
    scores : {"probabilities", "logits"}, default="probabilities"
        What the matrix holds; never guessed. Probabilities are logged.
    classes : array-like of shape (n_classes,), optional
        Label of each column, where the labels do not name every column.
    normalize : {None, "rows"}, default=None
        "rows" divides rows by their sums, whatever they are.
    min_probability : float, default=1e-12
        Floor of the output; the order is kept and rows sum to 1.
    tol : float, default=1e-10
        Largest slope of the mean NLL in the inverse temperature, in units of the typical gap
        between logits.
    prior_strength : float, default=120
        Number of pseudo-observations, rows like those of the calibration set with labels as likely
        as the scores say: they draw T to 1 where there are few rows, or none that is wrong. The
        farther the scores prove to be from honest, the fewer they become. 0 is the paper's, which
        is boundlessly confident on a set without errors.
    zero_probability : float, optional
        What an exact zero, which has no logarithm, is read as; by default that is fitted, too.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Label of each column.
    inverse_temperature_ : float
        1 / T, not negative.
    temperature_ : float
        T; above 1 for an over-confident classifier.
    zero_logit_ : float
        Log-probability that an exact zero is read as.
    solver_report_ : SolverReport
        What the solver reached.

    Notes
    -----
    The problem is convex in 1 / T; it is solved by a safeguarded Newton method on a kernel that
    stores nothing of the size of the softmax. Where scores are exactly zero, as those of forests
    and nearest neighbours often are, the logit of a zero is a second parameter, which keeps the
    order of the classes and the problem convex. A zero that the calibration set lacks is read as
    1e-12, or as its smallest positive probability if that is less.

    References
    ----------
    .. [1] C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=5000)
    >>> y = (honest.cumsum(axis=1) > rng.random((5000, 1))).argmax(axis=1)
    >>> bold = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    >>> calibrator = TemperatureScaling().fit(bold, y)
    >>> round(calibrator.temperature_)
    3
    """

    inverse_temperature_: float
    zero_logit_: float
    solver_report_: SolverReport
    _copies = 2

    def __init__(
        self,
        *,
        scores: str = "probabilities",
        classes: Any = None,
        normalize: str | None = None,
        min_probability: float = 1e-12,
        tol: float = 1e-10,
        prior_strength: float = AT_SCORES,
        zero_probability: float | None = None,
    ) -> None:
        super().__init__(
            scores=scores, classes=classes, normalize=normalize, min_probability=min_probability
        )
        self.tol = tol
        self.prior_strength = prior_strength
        self.zero_probability = zero_probability

    @property
    def temperature_(self) -> float:
        """The temperature T."""
        beta = self.inverse_temperature_
        return 1.0 / beta if beta > 0 else float("inf")

    def _check_parameters(self) -> None:
        simplex.check_number("tol", self.tol, low=0.0)
        simplex.check_number("prior_strength", self.prior_strength, low=0.0, high=1e12)
        simplex.check_zero_probability(self.zero_probability)

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        found, report = solve_temperature(
            batch,
            prior_strength=float(self.prior_strength),
            zero_probability=self.zero_probability,
            tol=self.tol,
        )
        return {
            "inverse_temperature_": found.inverse,
            "zero_logit_": found.zero_logit,
            "solver_report_": report,
        }

    def _calibrate(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return Temperature(self.inverse_temperature_, self.zero_logit_)(rows, self.scores)


class _AffineScaling(Calibrator):
    """Softmax of an affine map of the logits."""

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    zero_logit_: float
    solver_report_: SolverReport
    _unlabelled = "they keep the temperature-scaled logit"
    _copies = 6

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        tol: float = 1e-6,
        max_rounds: int = 500,
        zero_probability: float | None = None,
        scores: str = "probabilities",
        classes: Any = None,
        normalize: str | None = None,
        min_probability: float = 1e-12,
    ) -> None:
        super().__init__(
            scores=scores, classes=classes, normalize=normalize, min_probability=min_probability
        )
        self.ridge = ridge
        self.tol = tol
        self.max_rounds = max_rounds
        self.zero_probability = zero_probability

    def _check_parameters(self) -> None:
        simplex.check_number("ridge", self.ridge, low=0.0)
        simplex.check_number("tol", self.tol, low=0.0)
        simplex.check_number("max_rounds", self.max_rounds, low=1, whole=True)
        simplex.check_zero_probability(self.zero_probability)

    def _fit_affine(
        self, batch: SimplexBatch, penalty: RidgePenalty, *, full: bool
    ) -> dict[str, Any]:
        temperature, _ = solve_temperature(batch, zero_probability=self.zero_probability)
        found, report = solve_affine(
            batch, temperature, full=full, penalty=penalty, tol=self.tol, max_rounds=self.max_rounds
        )
        return {
            "coef_": found.slope,
            "intercept_": found.intercept,
            "zero_logit_": temperature.zero_logit,
            "solver_report_": report,
        }

    def _calibrate(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        logits = simplex.to_logits(rows, self.scores, self.zero_logit_)
        mapped = np.ascontiguousarray(AffineMap(self.coef_, self.intercept_)(logits))
        scaled_softmax(mapped, 1.0, mapped)
        return mapped


class VectorScaling(_AffineScaling):
    """Vector scaling (VS): softmax(a * z + b), with a slope and an intercept for each class.

    Parameters
    ----------
    ridge : float, default=0.0
        Strength of the squared penalty on slopes and intercepts.
    tol : float, default=1e-6
        Largest gradient of the mean NLL, each in units of its curvature.
    max_rounds : int, default=500
        Most iterations: of L-BFGS, and in the last tenth of Newton's method.
    zero_probability : float, optional
        What an exact zero is read as; by default temperature scaling's fit of it.
    scores : {"probabilities", "logits"}, default="probabilities"
        What the matrix holds; never guessed. Probabilities are logged.
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
    coef_ : ndarray of shape (n_classes,)
        Slope of each class.
    intercept_ : ndarray of shape (n_classes,)
        Intercept of each class.
    zero_logit_ : float
        Log-probability that an exact zero is read as.
    solver_report_ : SolverReport
        What the solver reached.

    References
    ----------
    .. [1] C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=5000)
    >>> y = (honest.cumsum(axis=1) > rng.random((5000, 1))).argmax(axis=1)
    >>> tilted = honest * [4.0, 1.0, 1.0]
    >>> calibrator = VectorScaling(normalize="rows").fit(tilted, y)
    >>> calibrator.predict_proba([[0.8, 0.15, 0.05]]).round(1)
    array([[0.5, 0.4, 0.1]])
    """

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        return self._fit_affine(batch, RidgePenalty(self.ridge), full=False)


class MatrixScaling(_AffineScaling):
    """Matrix scaling (MS): softmax(W z + b), multinomial logistic regression on the logits.

    With many classes it has more parameters than the calibration set can tell, so it is drawn to
    a map of each class by itself.

    Parameters
    ----------
    ridge : float, default=0.0
        Strength of the squared penalty on all parameters.
    odir : float, default=100.0
        Strength of the penalty off the diagonal and on the intercepts, as in
        ``DirichletCalibration`` (Kull et al. 2019). 0 is Guo et al.'s, which overfits.
    tol : float, default=1e-6
        Largest gradient of the mean NLL, each in units of its curvature.
    max_rounds : int, default=500
        Most iterations: of L-BFGS, and in the last tenth of Newton's method.
    zero_probability : float, optional
        What an exact zero is read as; by default temperature scaling's fit of it.
    scores : {"probabilities", "logits"}, default="probabilities"
        What the matrix holds; never guessed. Probabilities are logged.
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
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix W.
    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.
    zero_logit_ : float
        Log-probability that an exact zero is read as.
    solver_report_ : SolverReport
        What the solver reached.

    References
    ----------
    .. [1] C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
    .. [2] M. Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multi-class
       probabilities with Dirichlet calibration", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import MatrixScaling
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=5000)
    >>> y = (honest.cumsum(axis=1) > rng.random((5000, 1))).argmax(axis=1)
    >>> tilted = honest * [4.0, 1.0, 1.0]
    >>> calibrator = MatrixScaling(normalize="rows", odir=1e-3).fit(tilted, y)
    >>> calibrator.predict_proba([[0.8, 0.15, 0.05]]).round(1)
    array([[0.5, 0.4, 0.1]])
    """

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        odir: float = 100.0,
        tol: float = 1e-6,
        max_rounds: int = 500,
        zero_probability: float | None = None,
        scores: str = "probabilities",
        classes: Any = None,
        normalize: str | None = None,
        min_probability: float = 1e-12,
    ) -> None:
        super().__init__(
            ridge=ridge,
            tol=tol,
            max_rounds=max_rounds,
            zero_probability=zero_probability,
            scores=scores,
            classes=classes,
            normalize=normalize,
            min_probability=min_probability,
        )
        self.odir = odir

    def _check_parameters(self) -> None:
        super()._check_parameters()
        simplex.check_number("odir", self.odir, low=0.0)

    def _n_parameters(self, n_classes: int) -> int:
        return n_classes * (n_classes + 1)

    def _peak_bytes(self, n_rows: int, n_classes: int) -> int:
        # L-BFGS keeps twenty vectors of all parameters and works on as many more.
        parameters = 50 * self._n_parameters(n_classes)
        return super()._peak_bytes(n_rows, n_classes) + 8 * parameters

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        return self._fit_affine(batch, RidgePenalty(self.ridge, self.odir), full=True)
