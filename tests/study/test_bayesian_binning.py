import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solvers.test_logistic import over_confident

from calibrant.study._histogram import (
    beta_prior,
    bin_range,
    log_marginal_likelihood,
    solve_bayesian_binning,
)
from reference.binary_maps import GOLDEN, Fraction, bayesian_binning, binning_score, rising
from solvers.test_one_vs_rest import cells, problem_of


def test_reference_by_hand():
    """One bin around 1/2 with two pseudo-observations is Beta(1, 1): Laplace's rule."""
    assert rising(Fraction(1, 2), 2) == Fraction(3, 4)
    part = [(Fraction(1, 5), Fraction(1), Fraction(1)), (Fraction(2, 5), Fraction(0), Fraction(1))]
    score, means = binning_score([part], Fraction(2))
    assert score == Fraction(1, 6)  # integral of p (1 - p)
    assert set(means.values()) == {Fraction(1, 2)}
    average, scores = bayesian_binning([0.2, 0.4], [1, 0], [1, 1], [1, 2])
    # Two bins, [0, e) and [e, 1]: priors e / 2 and (e + 1) / 2.
    apart = [Fraction(0.2), Fraction(0.4)]
    edge = apart[0] + GOLDEN * (apart[1] - apart[0])
    assert scores == [Fraction(1, 6), edge / 2 * (1 - (edge + 1) / 2)]
    assert average[apart[0]] > Fraction(1, 2) * scores[0] / sum(scores)


@given(cells(), st.sampled_from([None, 2, 1, 5]))
def test_equals_the_exact_reference(data, prior_weight):
    """Scores and averages to 1e-11, over all numbers of bins that the rule gives."""
    problem = problem_of(*data)
    found, report = solve_bayesian_binning(problem, prior_weight=prior_weight)
    numbers = bin_range(problem.total)
    average, scores = bayesian_binning(*data, numbers, prior_weight)
    np.testing.assert_array_equal(found.n_bins, list(numbers))
    np.testing.assert_allclose(found.log_scores, [math.log(s) for s in scores], atol=1e-11)
    for value, share in average.items():
        assert found(float(value)) == pytest.approx(float(share), rel=1e-11)
    evidence = sum(scores) / len(scores)
    assert report.objective == pytest.approx(-math.log(evidence) / problem.total, rel=1e-10)


@pytest.mark.parametrize(
    ("total", "first", "last"),
    [(1, 1, 1), (5, 1, 1), (6, 1, 2), (100, 1, 20), (1000, 1, 100), (27_000, 3, 300), (0.1, 1, 1)],
)
def test_numbers_of_bins_by_hand(total, first, last):
    """From the cube root of N / 10 to ten times it, at most N / 5, at least one."""
    numbers = bin_range(total)
    assert (numbers[0], numbers[-1]) == (first, last)


def test_heavy_rows_are_fitted_at_once():
    """Four values of weight 1e11 would have 73,000 histograms of up to 73,000 bins."""
    x, y = np.array([0.1, 0.3, 0.6, 0.9]), np.array([0, 1, 0, 1])
    found, report = solve_bayesian_binning(problem_of(x, y, np.full(4, 1e11)))
    assert report.rounds <= 1000
    np.testing.assert_allclose(found(x), y, atol=1e-9)
    heavy, _ = solve_bayesian_binning(problem_of(x, y, np.array([1e-12, 1e12, 1e-12, 1e12])))
    assert np.all(np.isfinite(heavy.log_scores))


def test_score_agrees_with_torch_uncertainty():
    """To 2e-4, torch-uncertainty being in float32, with its total prior weight of 2.

    Its bins have the observed share as value, ours the posterior mean of the same prior.
    """
    # from torch_uncertainty.post_processing import BBQScaler  # torch-uncertainty 0.13.0
    # edges = torch.tensor([0, .1, .3, .6, 1]); i = torch.bucketize(x, edges[1:-1], right=True)
    # BBQScaler().compute_log_score(i, edges, y)[1]
    recorded = -218.17660522460938
    x, y = over_confident()
    starts = np.array([0, 0.1, 0.3, 0.6])
    b = np.searchsorted(starts, x, side="right") - 1
    prior = beta_prior(starts, np.append(starts[1:], 1.0), 2.0 / len(starts))
    score = log_marginal_likelihood(np.bincount(b, y), np.bincount(b), *prior).sum()
    assert score == pytest.approx(recorded, abs=2e-4)
