"""Every objective: gradients and Hessians by finite differences, and fits that are stationary."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from calibrant._gate._simplex import check_batch
from calibrant._objectives.affine import RidgePenalty
from calibrant._objectives.base import projected_gradient
from calibrant._solvers.affine import solve_affine
from calibrant._solvers.monotone_spline import solve_monotone_spline
from calibrant._solvers.normalization_aware.prior import build_likelihood
from calibrant._solvers.structured import solve_structured
from calibrant._solvers.temperature import solve_temperature
from conftest import simulate

FITS = {
    "temperature": solve_temperature,
    "vector": partial(solve_affine, full=False, prior_strength=100.0),
    "matrix": partial(solve_affine, full=True, penalty=RidgePenalty(0.1, 0.1)),
    "diagonal": partial(solve_structured, full=False),
    "structured": partial(solve_structured, full=True),
    "spline": partial(solve_monotone_spline, n_knots=4),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS.keys())
with_zeros = pytest.mark.parametrize("zeros", [False, True])


def data(n_rows=600, k=4, *, zeros=False, seed=0):
    p, y = simulate(n_rows, k, seed)
    if zeros:
        p = np.where((p < 0.01) & (p < p.max(axis=1, keepdims=True)), 0.0, p)
        p /= p.sum(axis=1, keepdims=True)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, n_rows)
    return check_batch(p, y, weight, classes=np.arange(k))


def rows_of(objective, batch):
    return objective.row_loss(batch, float(batch.weight.sum()))


@every_fit
@with_zeros
def test_gradients_are_those_of_differences(fit, zeros):
    batch = data(200, zeros=zeros)
    found = fit(batch)
    point = found.point * 1.1 + 0.05
    for function in (rows_of(found.objective, batch).value, found.objective.penalty):
        slope = function(point)[1]
        numeric = approx_fprime(point, lambda x, function=function: function(x)[0], 1e-7)
        np.testing.assert_allclose(slope, numeric, atol=2e-6)


@pytest.mark.parametrize("name", ["vector", "matrix", "diagonal", "structured"])
def test_products_with_the_hessian_are_those_of_differences(name):
    batch = data(200)
    found = FITS[name](batch)
    rows, point = rows_of(found.objective, batch), found.point * 1.1 + 0.05
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = rng.normal(size=len(point))
        above, below = (rows.value(point + s * 1e-5 * direction)[1] for s in (1, -1))
        rows.value(point)
        numeric = (above - below) / 2e-5
        np.testing.assert_allclose(rows.hessian_product(direction), numeric, atol=1e-6)


def test_the_hessian_of_the_spline_is_that_of_differences():
    batch = data(200)
    found = solve_monotone_spline(batch, n_knots=4)
    rows, point = rows_of(found.objective, batch), found.point * 1.1 + 0.05
    numeric = np.array(
        [
            (rows.value(point + step)[1] - rows.value(point - step)[1]) / 2e-5
            for step in 1e-5 * np.eye(len(point))
        ]
    )
    rows.value(point)
    np.testing.assert_allclose(rows.hessian, numeric, atol=1e-6)


@with_zeros
def test_the_moments_of_temperature_scaling_are_those_of_differences(zeros):
    batch = data(200, zeros=zeros)
    rows = rows_of(solve_temperature(batch).objective, batch)
    at = rows.moments(0.7, 0.4)
    (a, b), (c, d) = (
        (rows.moments(0.7 + x, 0.4 + y), rows.moments(0.7 - x, 0.4 - y))
        for x, y in ((1e-6, 0.0), (0.0, 1e-6))
    )
    assert (a.loss - b.loss) / 2e-6 == pytest.approx(at.by_beta, abs=1e-8)
    assert (c.loss - d.loss) / 2e-6 == pytest.approx(at.by_delta, abs=1e-8)
    assert (a.by_beta - b.by_beta) / 2e-6 == pytest.approx(at.beta_beta, abs=1e-8)
    assert (a.by_delta - b.by_delta) / 2e-6 == pytest.approx(at.beta_delta, abs=1e-8)
    assert (c.by_delta - d.by_delta) / 2e-6 == pytest.approx(at.delta_delta, abs=1e-8)


def test_the_gradient_of_na_fir_is_that_of_differences():
    """F(theta) = sum_i w_i log T_i - sum_j b_j theta_j, in theta = log g."""
    likelihood, _ = build_likelihood(data(80), 20.0)
    theta = np.sort(np.random.default_rng(0).normal(size=likelihood.rows.n_segments))

    def loss(theta):
        values = np.exp(theta)
        totals, _ = likelihood.at(values)
        return likelihood.objective(totals, values) * likelihood.total

    values = np.exp(theta)
    _, exposures = likelihood.at(values)
    numeric = approx_fprime(theta, loss, 1e-6)
    np.testing.assert_allclose(values * exposures - likelihood.target, numeric, atol=1e-4)


@every_fit
@with_zeros
def test_a_fit_is_the_map_of_a_stationary_point(fit, zeros):
    batch = data(zeros=zeros)
    found = fit(batch)
    objective = pickle.loads(pickle.dumps(found.objective))
    rows = rows_of(objective, batch)
    loss, gradient = rows.value(found.point)
    penalty, slope = objective.penalty(found.point)
    assert found.report.converged
    assert loss + penalty == pytest.approx(found.report.objective)
    has_units = hasattr(objective, "unit") and np.ndim(objective.unit)
    unit = objective.unit if has_units else np.zeros_like(found.point)  # else no gradient counts
    bounds = getattr(objective, "bounds", None)
    left = projected_gradient(found.point, gradient + slope, unit, bounds)
    assert left <= 1.001 * found.report.tolerance + 1e-12
    p = found.map(batch.scores)[np.arange(batch.n_rows), batch.class_index]
    assert loss == pytest.approx(-np.average(np.log(p), weights=batch.weight))


@every_fit
def test_losses_of_parts_add_up(fit):
    batch = data()
    found = fit(batch)
    whole = found.objective.row_loss(batch).value(found.point)
    parts = [
        found.objective.row_loss(batch.take(rows)).value(found.point)
        for rows in (slice(0, 100), slice(100, 600))
    ]
    assert sum(part[0] for part in parts) == pytest.approx(whole[0])
    np.testing.assert_allclose(sum(part[1] for part in parts), whole[1], atol=1e-9)
