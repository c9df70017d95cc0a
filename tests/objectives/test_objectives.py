"""Every objective: its sums, its optimality conditions, and fits to a sample of the rows."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from calibrant._objectives.affine import RidgePenalty
from calibrant._simplex import check_batch
from calibrant._solvers.affine import fit_affine
from calibrant._solvers.monotone_spline import fit_spline
from calibrant._solvers.structured import fit_structured
from calibrant._solvers.temperature import fit_temperature
from conftest import simulate

FITS = {
    "temperature": fit_temperature,
    "vector": partial(fit_affine, full=False),
    "matrix": partial(fit_affine, full=True, penalty=RidgePenalty(0.1, 0.1)),
    "diagonal": partial(fit_structured, full=False),
    "structured": partial(fit_structured, full=True),
    "spline": partial(fit_spline, n_knots=4),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS.keys())


def data(n_rows=600, k=4, *, zeros=False, seed=0):
    p, y = simulate(n_rows, k, seed)
    if zeros:
        p = np.where((p < 0.01) & (p < p.max(axis=1, keepdims=True)), 0.0, p)
        p /= p.sum(axis=1, keepdims=True)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, n_rows)
    return check_batch(p, y, weight, classes=np.arange(k))


def mean(objective, batch, point):
    loss, gradient = objective.sums(batch, point)
    return loss / batch.weight.sum(), gradient / batch.weight.sum()


@every_fit
@pytest.mark.parametrize("zeros", [False, True])
def test_gradients_are_those_of_differences(fit, zeros):
    batch = data(200, zeros=zeros)
    found = fit(batch)
    point = found.point * 1.1 + 0.05
    for function in (partial(mean, found.objective, batch), found.objective.penalty):
        slope = function(point)[1]
        numeric = approx_fprime(point, lambda x, function=function: function(x)[0], 1e-7)
        np.testing.assert_allclose(slope, numeric, atol=2e-6)


@every_fit
@pytest.mark.parametrize("zeros", [False, True])
def test_a_fit_is_the_map_of_a_point_that_its_objective_certifies(fit, zeros):
    batch = data(zeros=zeros)
    found = fit(batch)
    objective = pickle.loads(pickle.dumps(found.objective))
    loss, gradient = mean(objective, batch, found.point)
    assert found.report.converged
    assert objective.violation(found.point, gradient) <= 1.001 * found.report.tolerance + 1e-12
    assert loss + objective.penalty(found.point)[0] == pytest.approx(found.report.objective)
    p = found.map(batch.scores)[np.arange(batch.n_rows), batch.class_index]
    assert loss == pytest.approx(-np.average(np.log(p), weights=batch.weight))
    away = objective.violation(found.point * 1.05, mean(objective, batch, found.point * 1.05)[1])
    assert away > 1e-3


@every_fit
def test_sums_of_parts_add_up(fit):
    batch = data(zeros=True)
    found = fit(batch)
    whole = found.objective.sums(batch, found.point)
    parts = [
        found.objective.sums(batch.take(rows), found.point)
        for rows in np.split(np.random.default_rng(0).permutation(batch.n_rows), [100, 101, 350])
    ]
    for a, *b in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(sum(b), a, rtol=1e-9, atol=1e-9)


@every_fit
@pytest.mark.parametrize("zeros", [False, True])
def test_a_sample_with_a_linear_term_finds_the_fit_of_all_rows(fit, zeros):
    """The fixed point of the surrogate likelihood, at the settings of the fit to all rows."""
    batch = data(2000, zeros=zeros)
    kept = batch.take(slice(0, 1000))
    everything = fit(batch)
    objective, weight = everything.objective, float(batch.weight.sum())
    point = fit(kept, weight=weight, objective=objective).point
    first = objective.violation(point, mean(objective, batch, point)[1])
    for _ in range(8):
        term = mean(objective, kept, point)[1] - mean(objective, batch, point)[1]
        again = fit(kept, weight=weight, objective=objective, linear_term=term, start=point)
        point = again.point
    last = objective.violation(point, mean(objective, batch, point)[1])
    assert first > 5e-4
    assert last < first / 20
    np.testing.assert_allclose(
        objective.map(point)(batch.scores), everything.map(batch.scores), atol=1e-3
    )


def test_a_sample_without_a_minimum_is_held_near_its_start():
    """One label of a class, where it is most certain: the likelihood has its slope at infinity."""
    batch = data(600)
    others = np.flatnonzero(batch.class_index != 1)[:200]
    kept = batch.take(np.append(others, np.argmax(batch.scores[:, 1] * (batch.class_index == 1))))
    found = fit_affine(kept, full=False, weight=float(batch.weight.sum()))
    assert np.abs(found.point).max() < 20
    assert np.abs(fit_affine(kept, full=False).point).max() > 40
