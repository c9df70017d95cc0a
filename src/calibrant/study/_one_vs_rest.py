"""Histogram binning and BBQ as calibrators: a histogram for each class."""

from __future__ import annotations

from calibrant._calibrators.one_vs_rest import OneVsRestCalibrator, OneVsRestCounts
from calibrant._calibrators.parameters import choice, number
from calibrant.study._histogram import STRATEGIES, solve_bayesian_binning, solve_histogram


class OneVsRestHistogram(OneVsRestCounts):
    """One-vs-rest histogram binning (HB): the share of labels in each bin, for each class.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins.
    strategy : {"mass", "width"}, default="mass"
        Bins of equal mass, where equal probabilities stay together, or of equal width.

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
    """

    method = "hb-ovr"
    title = "HB-OvR"
    summary = "a histogram for each class"
    good_for = "comparison"
    place = 10
    _solver = staticmethod(solve_histogram)

    n_bins: int = number(default=15, low=1, high=10**6, whole=True)
    strategy: str = choice(STRATEGIES, default="mass")


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

    Notes
    -----
    The prior of a bin is a Beta distribution around its midpoint; the value of a bin is its
    posterior mean, and all numbers of bins are equally likely before the data. The result depends
    on the number of rows, so doubling every weight, which doubles every row, changes it.

    References
    ----------
    .. [1] M. Pakdaman Naeini, G. Cooper and M. Hauskrecht, "Obtaining Well Calibrated
       Probabilities Using Bayesian Binning", AAAI 2015.
    """

    method = "bbq-ovr"
    title = "BBQ-OvR"
    summary = "averaged histograms for each class"
    good_for = "comparison"
    place = 11
    _solver = staticmethod(solve_bayesian_binning)

    spread: float = number(default=10.0, low=1.0, high=1000.0)
    prior_weight: float | None = number(default=None, low=1e-6, high=1e6)
