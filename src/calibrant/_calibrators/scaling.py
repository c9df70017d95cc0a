"""Maps of the logits: temperature, vector, matrix and structured scaling, Dirichlet, a spline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from scipy.special import log_softmax

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import SMALLEST_POSITIVE, FromMap, choice, fitted, number
from calibrant._maps.logits import AffineMap, DirichletMap, SplineMap, StructuredMap, TemperatureMap
from calibrant._objectives.affine import RidgePenalty
from calibrant._solvers.affine import solve_affine
from calibrant._solvers.monotone_spline import solve_monotone_spline
from calibrant._solvers.rows import AT_SCORES, AT_TEMPERATURE, SMOOTH_POINTS
from calibrant._solvers.structured import refit_structured, solve_structured
from calibrant._solvers.temperature import HELD, solve_temperature

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._solvers.structured import StructuredFit

MOST_CLASSES = 200  # up to which "auto" fits a matrix: its cost grows with their square


class LogitCalibrator(Calibrator):
    """A calibrator of logits, in which an exact zero has none.

    Parameters
    ----------
    zero_probability : float, optional
        Probability that replaces an exact zero; by default fitted with the temperature.

    Attributes
    ----------
    zero_logit_ : float
        Log-probability that replaces an exact zero.
    """

    zero_probability: float | None = number(default=None, low=SMALLEST_POSITIVE, high=1.0)
    zero_logit_ = FromMap("zero_logit")


class TemperatureScaling(LogitCalibrator):
    """Temperature scaling (TS): softmax(z / T) with one temperature for all classes.

    Parameters
    ----------
    tol : float, default=1e-10
        Largest slope of the mean NLL in the inverse temperature, in units of the typical gap
        between logits.
    prior_strength : float, default=120
        Number of pseudo-observations, rows of the calibration set with the scores as labels, that
        shrink T towards 1 where there are few rows or no errors. It falls as the scores prove to be
        miscalibrated. 0 is the paper's, which is infinitely confident on a set without errors;
        1e12, the largest, gives T = 1.

    Attributes
    ----------
    inverse_temperature_ : float
        1 / T, not negative.
    temperature_ : float
        T; above 1 for an over-confident classifier.

    Notes
    -----
    The problem is convex in 1 / T, and solved by a safeguarded Newton method. Where scores are
    exactly zero, as those of forests and nearest neighbours often are, the logit of a zero is a
    second parameter, which keeps the order of the classes and the problem convex. A zero that the
    calibration set lacks is read as 1e-12, or as its smallest positive probability if that is less.

    References
    ----------
    .. [1] C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores(5000)
    >>> calibrator = TemperatureScaling().fit(bold, y)
    >>> round(calibrator.temperature_)
    3
    """

    method = "ts"
    title = "TS"
    summary = "one number, the temperature"
    good_for = "few rows; does not correct the base rate of two classes"
    same_for_all_classes = True
    place, in_paper, keeps_order = 4, True, True
    _solver = staticmethod(solve_temperature)

    tol: float = number(default=1e-10)
    prior_strength: float = number(default=AT_SCORES, high=HELD)
    map_: TemperatureMap = fitted()
    inverse_temperature_ = FromMap("inverse_temperature")

    @property
    def temperature_(self) -> float:
        """Temperature T; above 1 for an over-confident classifier."""
        beta = self.inverse_temperature_
        return 1.0 / beta if beta > 0 else float("inf")


class _AffineScaling(LogitCalibrator):
    """Softmax of an affine map of the logits.

    Parameters
    ----------
    prior_strength : float, default=1000
        Number of pseudo-observations, labelled by temperature scaling, that shrink the map towards
        it. 0 is the paper's, which overfits where a class has few rows.
    ridge : float, default=0.0
        Strength of the squared penalty on all parameters, divided by k (k + 1).
    tol : float, default=1e-6
        Largest gradient of the penalised mean NLL, each in units of its curvature.
    max_rounds : int, default=500
        Largest number of iterations: L-BFGS, and Newton's method in the last tenth.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_classes)
        The matrix W.
    intercept_ : ndarray of shape (n_classes,)
        The intercepts b.

    References
    ----------
    .. [1] C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
    .. [2] M. Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multi-class
       probabilities with Dirichlet calibration", NeurIPS 2019.
    """

    _unlabelled = "they keep the temperature-scaled logit"

    prior_strength: float = number(default=AT_TEMPERATURE)
    ridge: float = number(default=0.0)
    tol: float = number(default=1e-6)
    max_rounds: int = number(default=500, low=1, whole=True)
    map_: AffineMap = fitted()
    coef_ = FromMap("coef")
    intercept_ = FromMap("intercept")

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        options = self._options()
        penalty = RidgePenalty(options.pop("ridge"), options.pop("odir", 0.0))
        full = self._fits_matrix(batch.n_classes)
        result = solve_affine(batch, full=full, penalty=penalty, **options)
        return {"map_": result.map, "solver_report_": result.report}


class VectorScaling(_AffineScaling):
    """Vector scaling (VS): softmax(a * z + b), with a slope and an intercept for each class.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,)
        Slope of each class.

    Examples
    --------
    >>> from calibrant import VectorScaling
    >>> from calibrant.datasets import simulated_scores
    >>> tilted, y = simulated_scores(5000, power=1, tilt=(4, 1, 1))
    >>> calibrator = VectorScaling().fit(tilted, y)
    >>> calibrator.predict_proba([[0.8, 0.15, 0.05]]).round(1)
    array([[0.5, 0.4, 0.1]])
    """

    method = "vs"
    title = "VS"
    summary = "a slope and an intercept for each logit"
    good_for = "few classes, many rows"
    place, in_paper = 5, True

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes


class MatrixScaling(_AffineScaling):
    """Matrix scaling (MS): softmax(W z + b), multinomial logistic regression on the logits.

    Parameters
    ----------
    odir : float, default=100.0
        Strength of the squared penalties off the diagonal of W, divided by k (k - 1), and on the
        intercepts, divided by k (ODIR, Kull et al. 2019). 0 is Guo et al.'s, which overfits.
    """

    method = "ms"
    title = "MS"
    summary = "affine in the logits"
    good_for = "few classes, many rows"
    place, in_paper = 6, True

    odir: float = number(default=100.0)

    def _n_parameters(self, n_classes: int) -> int:
        return n_classes * (n_classes + 1)

    def _fits_matrix(self, n_classes: int) -> bool:  # noqa: ARG002
        return True


class DirichletCalibration(MatrixScaling):
    """Dirichlet calibration: softmax(W log p + b), with the ODIR penalty.

    It is matrix scaling of the log-probabilities; the penalty off the diagonal and on the
    intercepts (ODIR) is what makes it usable with more than a few classes.

    Notes
    -----
    In cross-validation over the calibration sets of 41 real classifiers the best ``odir`` was 1 or
    less for five classes, 100 for ten to thirty, and 1000 for more. The diagonal is not penalised,
    so many classes with few rows overfit at any strength.
    """

    method = "dirichlet"
    title = "Dirichlet"
    summary = "affine in the log-probabilities"
    good_for = "few classes, many rows"
    place, in_paper = 7, False

    map_: DirichletMap = fitted()

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        if batch.kind == "logits":
            batch = replace(batch, scores=log_softmax(batch.scores, axis=1))
        fitted = super()._solve(batch)
        affine = cast("AffineMap", fitted["map_"])
        numbers = affine.coef, affine.intercept, affine.zero_logit
        return fitted | {"map_": DirichletMap(*numbers, affine.kind)}


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
        Number of pseudo-observations with temperature-scaled labels, which shrink the map towards
        temperature scaling; it falls as the map proves to differ. 0 means none.
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

    Notes
    -----
    A penalty is a number of rows times half the square of a parameter: 32 for the diagonal's
    distance from its common value, 16 off it, 4 for intercepts, 1 for the common value and for
    the distance of 1 / T from temperature scaling's; these numbers and the bound come from
    cross-validation on 46 real classifiers. "evidence" takes three steps of MacKay's fixed point
    from there: few labels per class, or classes that need nothing, give stronger penalties.

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

    form: str = choice(("auto", "matrix", "diagonal"), default="auto")
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
        options = self._options()
        del options["form"]
        full = self._fits_matrix(batch.n_classes)
        return solve_structured(batch, full=full, temperature=temperature, like=like, **options)

    def _solve(
        self,
        batch: SimplexBatch,
        temperature: TemperatureMap | None = None,
        whole: StructuredFit | None = None,
        whole_weight: float | None = None,
    ) -> dict[str, object]:
        """Fit the batch: that of ``whole``, or, if its weight is given, a part of its rows."""
        if whole is None:
            whole = self._fit_whole(batch, temperature)
        result, report = whole[:2]
        if whole_weight is not None:
            result, report = refit_structured(
                batch, whole, whole_weight, tol=self.tol, max_rounds=self.max_rounds
            )
        return {"map_": result, "solver_report_": report}


class MonotoneSpline(LogitCalibrator):
    """Monotone spline: softmax(theta(log p)) with one increasing, piecewise linear theta.

    A smooth version of NA-FIR: its fit takes the division by the sum of the row into account, but
    it is continuous, strictly increasing and shrunk to a straight line, which is temperature
    scaling. It makes no ties or zeros.

    Parameters
    ----------
    n_knots : int, default=12
        Largest number of knots, at which the slope of theta may change.
    strength : "cv" or float, default="cv"
        Penalty on squared differences of neighbouring slopes, relative to temperature scaling's,
        as a number of rows. "cv" takes 8, unless another one between 0.125 and 8**8 is better by
        two standard errors in 5-fold cross-validation.
    prior_strength : float, default=1000
        Number of pseudo-observations with temperature-scaled labels, which shrink the map towards
        temperature scaling; it falls as the map proves to differ. 0 means none.
    tol : float, default=1e-8
        Largest projected gradient of the mean NLL, each in units of its curvature.
    max_rounds : int, default=100
        Largest number of evaluations of Newton's method.

    Attributes
    ----------
    knots_ : ndarray of shape (n_knots,)
        Log-probabilities at which the slope changes, increasing; fewer than asked for where
        predictions take few values.
    slopes_ : ndarray of shape (n_knots + 1,)
        Slope of theta below the first knot, between knots and above the last; positive.

    Notes
    -----
    The mean NLL is convex in the slopes, which stay between a thousandth and a thousand times that
    of temperature scaling; a projected Newton method solves it. Knots are quantiles of the
    log-probabilities of all cells, weighted by q (1 - q) with q their temperature-scaled
    probability: that is where the likelihood can tell slopes apart.

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
    _most_points = SMOOTH_POINTS
    _starts_at_temperature = True
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
