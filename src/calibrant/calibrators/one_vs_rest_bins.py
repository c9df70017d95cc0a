"""Binary calibrators, one per class: histograms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from calibrant.calibrators.one_vs_rest import PRIOR_ROWS, OneVsRestCalibrator
from calibrant.calibrators.parameters import choice, number
from calibrant.solvers.bayesian_binning import solve_bayesian_binning
from calibrant.solvers.histogram import STRATEGIES, solve_histogram

if TYPE_CHECKING:
    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.one_vs_rest import Solve


class OneVsRestHistogram(OneVsRestCalibrator):
    """One-vs-rest histogram binning (HB): the share of labels in each bin, for each class.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    strategy : {"mass", "width"}, default="mass"
        Bins of equal mass, in which equal probabilities stay together, or of equal width.
    prior_strength : float, default=20
        Number of pseudo-observations, spread over the rows and labelled by their scores: a part of
        the scores in which no row had the label gets little, but not nothing. 0 is the textbook's.
    scores, classes, normalize, min_probability, n_jobs
        As for every calibrator.

    Attributes
    ----------
    curves_ : tuple of Histogram
        The map of each class; the identity for a class without a label.
    classes_, map_, solver_report_
        As of every calibrator.

    Notes
    -----
    All rows of a class rarer than 1 / n_bins fall into its last bin of equal mass, which costs
    accuracy; use more bins or those of equal width with many classes. An edge between bins of
    equal mass lies halfway between two probabilities of the calibration set. An empty bin of equal
    width has its midpoint as value. A row that every map sends to zero keeps its scores.

    References
    ----------
    .. [1] B. Zadrozny and C. Elkan, "Obtaining calibrated probability estimates from decision
       trees and naive Bayesian classifiers", ICML 2001.

    Examples
    --------
    >>> from calibrant import OneVsRestHistogram
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = OneVsRestHistogram().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.68, 0.22, 0.1 ]])
    """

    method = "hb-ovr"
    title = "HB-OvR"
    summary = "a histogram for each class"
    good_for = "comparison"
    place = 10

    n_bins: int = number(default=15, low=1, high=10**6, whole=True)
    strategy: str = choice(STRATEGIES, default="mass")
    prior_strength: float = number(default=PRIOR_ROWS, high=1e12)

    def _prior_rows(self) -> float:
        return float(self.prior_strength)

    def _binary_solver(self, batch: SimplexBatch) -> Solve:  # noqa: ARG002
        return partial(solve_histogram, n_bins=int(self.n_bins), strategy=self.strategy)


class OneVsRestBBQ(OneVsRestCalibrator):
    """One-vs-rest Bayesian binning into quantiles (BBQ), for each class.

    Histograms of equal mass with every number of bins in a range are averaged, with their
    marginal likelihoods as weights.

    Parameters
    ----------
    spread : float, default=10.0
        Numbers of bins go from the cube root of the number of rows divided by ``spread`` to the
        same times ``spread``, with at least five rows for a bin.
    prior_weight : float, optional
        Number of pseudo-observations, shared by the bins, that the prior counts for. None is two
        for each bin, as in the authors' code.
    scores, classes, normalize, min_probability, n_jobs
        As for every calibrator.

    Attributes
    ----------
    curves_ : tuple of AveragedHistogram
        The map of each class; the identity for a class without a label.
    classes_, map_, solver_report_
        As of every calibrator.

    Notes
    -----
    The prior of a bin is a Beta distribution around its midpoint; the value of a bin is its
    posterior mean, and all numbers of bins are equally likely before the data. The result depends
    on the number of rows, so doubling every weight, which doubles every row, changes it.

    References
    ----------
    .. [1] M. Pakdaman Naeini, G. Cooper and M. Hauskrecht, "Obtaining Well Calibrated
       Probabilities Using Bayesian Binning", AAAI 2015.

    Examples
    --------
    >>> from calibrant import OneVsRestBBQ
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = OneVsRestBBQ().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.6 , 0.24, 0.16]])
    """

    method = "bbq-ovr"
    title = "BBQ-OvR"
    summary = "averaged histograms for each class"
    good_for = "comparison"
    place = 11

    spread: float = number(default=10.0, low=1.0, high=1000.0)
    prior_weight: float | None = number(default=None, low=1e-6, high=1e6)

    def _binary_solver(self, batch: SimplexBatch) -> Solve:  # noqa: ARG002
        return partial(solve_bayesian_binning, spread=self.spread, prior_weight=self.prior_weight)
