"""Offsets that keep the shares of classes: reached, and corrected by counts that tell something."""

import numpy as np
import pytest
from scipy.special import softmax

from calibrant._solvers.class_offsets import correct_shares, solve_class_offsets


@pytest.mark.parametrize("n_classes", [2, 3, 12])
@pytest.mark.parametrize("spread", [0.5, 8.0])
def test_rows_have_the_given_shares_with_the_offsets(n_classes, spread):
    rng = np.random.default_rng(n_classes)
    logs = rng.normal(-np.arange(n_classes), spread, (400, n_classes))
    weight = rng.integers(1, 4, 400).astype(float)
    shares = rng.dirichlet(np.full(n_classes, 2.0))
    offsets = solve_class_offsets(logs, weight, shares)
    reached = np.average(softmax(logs + offsets, axis=1), axis=0, weights=weight)
    np.testing.assert_allclose(reached, shares, rtol=2e-6)
    repeated = np.repeat(np.arange(400), weight.astype(int))
    same = solve_class_offsets(logs[repeated], np.ones(len(repeated)), shares)
    np.testing.assert_allclose(same, offsets, atol=1e-9)


def test_rows_that_have_the_shares_need_no_offset():
    logs = np.log(np.random.default_rng(0).dirichlet([1.0, 5.0], 100))
    shares = np.exp(logs).mean(axis=0)
    np.testing.assert_allclose(solve_class_offsets(logs, np.ones(100), shares), 0.0, atol=1e-9)


def test_a_class_without_a_share_has_no_offset():
    logs = np.log(np.random.default_rng(0).dirichlet([1.0, 5.0, 1.0], 100))
    offsets = solve_class_offsets(logs, np.ones(100), np.array([0.3, 0.7, 0.0]))
    assert offsets[2] == 0.0
    reached = softmax(logs[:, :2] + offsets[:2], axis=1).mean(axis=0)
    np.testing.assert_allclose(reached, [0.3, 0.7], rtol=2e-6)


def test_shares_are_corrected_by_many_rows_and_not_by_few_or_certain_ones():
    shares = np.array([0.9, 0.1])

    def corrected(n_rows, p):
        """Where twice as many rows have the second class as is predicted of it."""
        held_out = np.tile([1.0 - p, p], (n_rows, 1))
        labels = (np.arange(n_rows) < 2.0 * p * n_rows).astype(np.int64)
        return correct_shares(shares, held_out, labels, np.ones(n_rows))[1]

    assert corrected(100_000, 0.1) == pytest.approx(0.2, rel=0.02)
    assert corrected(50, 0.1) == pytest.approx(0.11, rel=0.02)  # the variance is 4.5 rows
    held_out = np.array([[1.0, 0.0], [0.0, 1.0]])
    certain = correct_shares(shares, held_out, np.array([0, 0]), np.ones(2))
    np.testing.assert_array_equal(certain, shares)
