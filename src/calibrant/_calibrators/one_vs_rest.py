"""Binary calibrators, one per class: isotonic, Platt, Beta, and an average for two classes."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import SMALLEST_POSITIVE, FromMap, choice, fitted, number
from calibrant._maps.curves import ClasswiseCurves
from calibrant._solvers.one_vs_rest import (
    solve_beta,
    solve_isotonic,
    solve_one_vs_rest,
    solve_platt,
)
from calibrant._solvers.rows import SMOOTH_POINTS
from calibrant._solvers.temperature import read_zero
from calibrant._solvers.two_class import solve_two_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._gate import SimplexBatch
    from calibrant._types import Bools, Labels

PRIOR_ROWS = 20.0  # of methods that count: of real classifiers one does most, and more do more


class OneVsRestCalibrator(Calibrator):
    """A calibrator that fits a binary map for each class, then divides rows by their sums.

    ``_solver`` is that of the binary problem of a class.

    Attributes
    ----------
    curves_ : tuple of PiecewiseLinear, Sigmoid, BetaMap, Histogram or AveragedHistogram
        Fitted map of each class; the identity for a class without a label.
    """

    _unlabelled = "they keep their scores"

    map_: ClasswiseCurves = fitted()
    curves_ = FromMap("curves")

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes

    def _solve(self, batch: SimplexBatch) -> dict[str, object]:
        options = self._options()
        prior_rows = options.pop("prior_strength", 0.0)
        if "zero_probability" in options:
            options["zero"] = math.exp(read_zero(batch, options.pop("zero_probability")))
        result = solve_one_vs_rest(batch, partial(self._solver, **options), prior_rows)
        return dict(zip(self._found, result, strict=True))


class OneVsRestCounts(OneVsRestCalibrator):
    """One that counts labels.

    Parameters
    ----------
    prior_strength : float, default=20
        Number of pseudo-observations, spread over the rows and labelled by their scores, so that
        scores at which no row has the label get a small probability, not 0. 0 means none.
    """

    _most_points = 0  # an exact fit takes no longer

    prior_strength: float = number(default=PRIOR_ROWS, high=1e12)


class OneVsRestLogistic(OneVsRestCalibrator):
    """One that takes logarithms.

    Parameters
    ----------
    zero_probability : float, optional
        Value that replaces an exact 0, and its distance from 1 an exact 1; fitted by default.
    """

    zero_probability: float | None = number(default=None, low=SMALLEST_POSITIVE, high=1.0)


class OneVsRestIsotonic(OneVsRestCounts):
    """One-vs-rest isotonic regression (IR-OvR): one isotonic map for each class.

    Each class's indicator is regressed on its probability, and the mapped row is divided by its
    sum. With many classes or few rows it overfits, and it can change the order of the classes.

    Notes
    -----
    Linear between probabilities of the calibration set, as scikit-learn's ``IsotonicRegression``
    is. A row that every map sends to zero keeps its scores.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Transforming Classifier Scores into Accurate Multiclass
       Probability Estimates", KDD 2002.
    """

    method = "ir-ovr"
    title = "IR-OvR"
    summary = "an isotonic map for each class"
    good_for = "comparison"
    place, in_paper = 3, True
    _solver = staticmethod(solve_isotonic)


class OneVsRestPlatt(OneVsRestLogistic):
    """One-vs-rest Platt scaling: sigmoid(a log(p / (1 - p)) + b) for each class.

    Parameters
    ----------
    smooth_labels : bool, default=True
        Whether to fit to Platt's targets, (n + 1) / (n + 2) and 1 / (n' + 2) for a class of n
        rows and n' others, instead of 1 and 0. They save the likelihood of rare classes, and make
        rows too flat where many are rare.

    Notes
    -----
    The slope is found on the log-odds, in which it is 1 for a calibrated classifier.
    scikit-learn's ``CalibratedClassifierCV(method="sigmoid")`` uses the probability itself where a
    classifier has no decision function, so it cannot leave a calibrated classifier as it is [2]_.
    A ridge of 1e-10 towards the identity keeps the convex problem finite. An exact 0 (or 1) is read
    as temperature scaling's fit says, or as the nearest other value if that is less.

    References
    ----------
    .. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to
       Regularized Likelihood Methods", 1999.
    .. [2] https://github.com/scikit-learn/scikit-learn/issues/34312
    """

    method = "platt-ovr"
    title = "Platt-OvR"
    summary = "a sigmoid for each class"
    good_for = "comparison"
    place = 8
    _solver = staticmethod(solve_platt)

    smooth_labels: bool = choice(default=True)


class OneVsRestBeta(OneVsRestLogistic):
    """One-vs-rest Beta calibration: sigmoid(a log p - b log(1 - p) + c) for each class.

    Notes
    -----
    The likelihood is maximised over a, b >= 0, which keeps the map from decreasing. The authors'
    code fits without bounds, drops one feature with a negative slope and fits again, which is not
    always the optimum. Exact 0 and 1 and the ridge are as in ``OneVsRestPlatt``.

    References
    ----------
    .. [1] M. Kull, T. Silva Filho and P. Flach, "Beta calibration: a well-founded and easily
       implemented improvement on logistic calibration for binary classifiers", AISTATS 2017.
    """

    method = "beta-ovr"
    title = "Beta-OvR"
    summary = "a beta map for each class"
    good_for = "comparison"
    place = 9
    _solver = staticmethod(solve_beta)


class TwoClassScaling(OneVsRestLogistic):
    """Two-class scaling: average of small logistic maps of the log-odds, weighted by evidence.

    Made for two classes and few rows. Six maps are fitted: starting at the scores, at temperature
    scaling or at a slope around the base rate, with or without an intercept, each with curvature
    that may treat the two classes differently. Their average, by the evidence for each, is one
    non-decreasing curve of the log-odds. With more than two classes there is one curve for each
    class against all others, and rows are divided by their sums.

    Parameters
    ----------
    tol : float, default=1e-8
        Largest gradient of the mean NLL of any map, in units of its curvature.

    Attributes
    ----------
    curves_ : tuple of LogOddsCurve
        Fitted curve of each class; with two classes the first mirrors the second. With more than
        two, a class without a label keeps its scores.

    Notes
    -----
    Ridge penalties are numbers of rows, and 120 pseudo-observations hold each map to the line that
    it starts from, fewer where it proves to differ; the problem is convex. The weight of a map is
    its marginal likelihood by Laplace's approximation. With E the loss of temperature scaling in
    nats, that has the share ``1 / (1 + E**2 / n)`` of n rows, and the scores have
    ``1 / (1 + exp(gain))`` of what the gain over them is in nats.

    References
    ----------
    .. [1] D. J. C. MacKay, "Bayesian Interpolation", Neural Computation 4, 1992.

    Examples
    --------
    >>> from calibrant import TwoClassScaling
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores(5000, tilt=(1.0, 1.0))
    >>> calibrator = TwoClassScaling().fit(bold, y)
    >>> calibrator.predict_proba([[0.027, 0.973]]).round(1)
    array([[0.2, 0.8]])
    """

    method = "two-class"
    title = "TwoClass"
    summary = "an average of small logistic maps of the log-odds"
    good_for = "two classes"
    place = 16
    _most_points = SMOOTH_POINTS
    _solver = staticmethod(solve_two_class)

    tol: float = number(default=1e-8)

    def _missing(self, present: Bools, classes: Labels) -> Iterator[Warning]:
        if len(classes) > 2:  # the curve of two becomes that of a rare class
            yield from super()._missing(present, classes)

    _solve = Calibrator._solve  # noqa: SLF001  (of all classes at once)
