import math

import numpy as np
import pytest

from calibrant._gate._simplex import check_batch
from calibrant._objectives.affine import RidgePenalty
from calibrant._solvers.affine import solve_affine
from calibrant._solvers.temperature import solve_temperature
from conftest import simulate


def test_penalties_are_those_of_the_formula():
    """Off the diagonal 2 * 3^2 / (2 * 1), of intercepts 2 * (1 + 1) / 2; the diagonal is free."""
    weights = RidgePenalty(odir=2.0).weights(2, 1.0, full=True)
    assert weights @ np.array([1.0, 3.0, 0.0, 5.0, 1.0, 1.0]) ** 2 == 11.0
    ridge = RidgePenalty(ridge=6.0).weights(2, 2.0, full=False)
    np.testing.assert_array_equal(ridge, [0.25, 0.25, 1.0, 1.0])


@pytest.mark.parametrize("full", [False, True])
def test_a_class_that_is_never_mistaken_has_no_minimum_without_a_prior(full):
    """Its slope grows without bound: that is not called convergence; pseudo-observations end it."""
    p, y = simulate(400, 4)
    p[:, 3] = np.where(y == 3, 0.9, 1e-3 * p[:, 3])
    batch = check_batch(p, y, normalize="rows")
    _, free, *_ = solve_affine(batch, full=full, prior_strength=0.0)
    assert not free.converged
    assert math.isinf(free.violation)
    assert "prior_strength" in str(free.complaint)
    held, report, *_ = solve_affine(batch, full=full, prior_strength=1000.0)
    assert report.converged
    assert np.abs(held.coef).max() < 5.0


def test_pseudo_observations_are_rows_labelled_by_temperature_scaling():
    """The minimum has the gradient of n rows and s soft-labelled ones, s as many as are left."""
    p, y = simulate(300, 4)
    batch = check_batch(p, y)
    start = solve_temperature(batch).map
    fit = solve_affine(batch, full=False, prior_strength=50.0, tol=1e-10)
    rows = fit.objective.row_loss(batch, 300.0)
    _, gradient = rows.value(fit.point)
    _, at_start = rows.value(fit.objective.start)
    parts = fit.objective.prior_gradient / at_start
    np.testing.assert_allclose(parts, parts[0], rtol=1e-9)
    assert 0.0 < parts[0] <= 50.0 / 350.0
    s = 300.0 * parts[0] / (1.0 - parts[0])
    soft = start(batch.scores) - np.eye(4)[y]  # p of the start less the labels
    by_intercept = -soft.sum(axis=0) / 300.0
    np.testing.assert_allclose(-at_start[-4:], by_intercept, atol=1e-12)
    # n g(t) + s (mean of p(t) - p(start)) = 0, in the intercepts.
    moved = fit.map(batch.scores).mean(axis=0) - start(batch.scores).mean(axis=0)
    np.testing.assert_allclose(300.0 * gradient[-4:] + s * moved, 0.0, atol=1e-6)
