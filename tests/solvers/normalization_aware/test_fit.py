"""NA-FIR's exact fit: brute force, general solvers, and its certificate on real data."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from calibrant._gate import _simplex as simplex
from calibrant._objectives.normalization_aware import certificate
from calibrant._row_order import lay_thresholds
from calibrant._solvers.flattened import solve_flattened
from calibrant._solvers.normalization_aware import minimise_likelihood
from calibrant._solvers.normalization_aware.fit import minimise
from calibrant._solvers.normalization_aware.prior import build_likelihood
from calibrant._solvers.temperature import solve_temperature
from calibrant.study._searches import pool_blocks
from conftest import each_real_file, load_real, simulate
from reference import normalization_aware as reference

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning"),
]


def batch_of(rows, labels, weight=None):
    classes = np.arange(np.shape(rows)[1])
    return simplex.check_batch(rows, labels, weight, classes=classes)


def fit(batch, strength, **options):
    likelihood, _ = build_likelihood(batch, strength)
    step, report = minimise_likelihood(likelihood, **options)
    return likelihood, step, report


def regularised(batch, strength, beta=None):
    """Row weights and targets of the objective with a prior, from its definition."""
    found = solve_temperature(batch).map
    beta = found.inverse_temperature if beta is None else beta
    prior = reference.temperature_scaled(batch.scores, beta, np.exp(found.zero_logit))
    return reference.with_pseudo_observations(
        batch.scores, batch.class_index, batch.weight, strength, prior
    )


@st.composite
def small_sets(draw, most_rows=12, most_classes=4):
    """Few rows with many ties, exact zeros and ones, and labels from right to wrong."""
    n_classes = draw(st.integers(2, most_classes))
    row = st.lists(st.integers(0, 4), min_size=n_classes, max_size=n_classes)
    masses = draw(st.lists(row.filter(any), min_size=1, max_size=most_rows))
    labels = [draw(st.integers(0, n_classes - 1)) for _ in masses]
    weights = [draw(st.sampled_from([1.0, 1.0, 2.0, 0.3])) for _ in masses]
    rows = np.array(masses, dtype=float)
    return rows / rows.sum(axis=1, keepdims=True), np.array(labels), np.array(weights)


@given(small_sets())
@example((np.array([[0.5, 0.5]]), np.array([0]), np.ones(1)))
@example((np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 1]), np.ones(2)))
def test_optimal_over_all_values_in_exact_arithmetic(case):
    rows, labels, weight = case
    batch = batch_of(rows, labels, weight)
    _, step, report = fit(batch, 0.0)
    violation = reference.exact_certificate(batch.scores, labels, weight, step)
    assert violation <= 1e-8
    assert float(violation) == pytest.approx(report.violation, abs=1e-12)


@pytest.mark.parametrize("strength", [0.0, 3.0])
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(i, marks=pytest.mark.slow) for i in range(2, 10))]
)
def test_equals_a_general_convex_solver_over_all_distinct_values(seed, strength):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 5))
    n_rows = (60 if seed > 1 else 40) // n_classes  # so many distinct values
    rows, labels = simulate(n_rows, n_classes, seed)
    batch = batch_of(rows, labels, rng.choice([1.0, 2.0, 0.5], n_rows))
    likelihood, step, report = fit(batch, strength, tol=1e-11)
    if strength:
        weight, targets = regularised(batch, strength)
        starts = likelihood.rows.bounds[0]
    else:
        weight = batch.weight
        targets = reference.label_targets(batch.scores, labels, weight)
        starts = np.unique(batch.scores)
    counts, target = reference.counts_of_parts(batch.scores, targets, starts)
    n = len(starts)
    guesses = [np.zeros(n), 0.5 * np.log(np.maximum(starts, 1e-9)), np.linspace(-3, 0, n)]
    guesses.append(np.log(np.maximum(step(starts), 1e-39)))  # what is lower than this is lower
    best = reference.general_minimum(counts, target, weight, guesses)
    assert report.objective == pytest.approx(best, rel=1e-8)


@given(small_sets(most_rows=6, most_classes=3), st.sampled_from([0.5, 10.0]))
@example((np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1]), np.ones(2)), 1.0)
def test_equals_the_best_of_all_ways_to_pool(case, strength):
    rows, labels, weight = case
    likelihood, _, report = fit(batch_of(rows, labels, weight), strength, tol=1e-10)
    assume(likelihood.rows.n_segments <= 6)  # one minimisation for each of 2^(n-1) partitions
    counts = np.stack(
        [np.bincount(r, minlength=likelihood.rows.n_segments) for r in likelihood.rows.index]
    )
    best = reference.brute_force_minimum(counts, likelihood.target, likelihood.weight)
    assert report.objective == pytest.approx(best, rel=1e-7, abs=1e-9)


def test_the_first_round_is_fir():
    batch = batch_of(*simulate(500, 6))
    likelihood, _ = build_likelihood(batch, 0.0)
    step = solve_flattened(batch)[0].step_function
    blocks = pool_blocks(likelihood)
    alive = step.values > 0.0
    np.testing.assert_array_equal(blocks.start, step.values[alive])
    least, largest = likelihood.rows.bounds
    laid = lay_thresholds(largest[blocks.first - 1], least[blocks.first])
    # FIR knows the first score of a segment only to 2**-40 of it.
    np.testing.assert_allclose(laid, step.thresholds[alive], rtol=2**-40)


def test_a_strong_prior_gives_temperature_scaling():
    rows, labels = simulate(1000, 10)
    batch = batch_of(rows, labels)
    _, step, report = fit(batch, 1e9)
    assert report.converged
    beta = solve_temperature(batch).map.inverse_temperature
    scaled = rows**beta / (rows**beta).sum(axis=1, keepdims=True)
    fitted = step(rows) / step(rows).sum(axis=1, keepdims=True)
    own = np.arange(1000), labels
    assert np.mean(np.log(scaled[own] / fitted[own])) == pytest.approx(0.0, abs=5e-3)
    assert np.max(np.abs(scaled - fitted)) < 0.06  # steps, of at most one octave


def test_certificate_by_hand():
    """Two segments of exposure 1 and targets 1 and 2; residuals g - b."""
    target, exposures = np.array([1.0, 2.0]), np.ones(2)
    assert certificate(np.array([1.0, 2.0]), exposures, target, 3.0) == 0.0
    assert certificate(np.array([0.5, 2.5]), exposures, target, 3.0) == pytest.approx(0.5 / 3)
    assert certificate(np.array([1.5, 1.5]), exposures, target, 3.0) == pytest.approx(0.5 / 3)
    # Constant where the data fall: raising the tail does not help, lowering is not allowed.
    assert certificate(np.array([1.5, 1.5]), exposures, target[::-1], 3.0) == 0.0


def test_segments_without_rows_take_the_value_of_their_neighbour():
    index = np.array([[1, 2], [1, 3]], dtype=np.uint16)
    target = np.array([0.0, 0.5, 0.5, 1.0, 0.0])
    exposures = np.array([0.0, 2.0, 1.0, 1.0, 0.0])
    minimum = minimise(index, np.ones(2), target, exposures, tol=1e-8, max_rounds=20)
    assert minimum.values[0] == minimum.values[1]
    assert minimum.values[4] == minimum.values[3] == 1.0


@each_real_file
def test_optimal_on_real_data_and_never_above_fir(name):
    rows, labels = load_real(name)["val"]
    batch = batch_of(rows, labels)
    _, step, report = fit(batch, 0.0)
    targets = reference.label_targets(batch.scores, labels, batch.weight)
    violation = reference.certificate(batch.scores, targets, batch.weight, step)
    assert violation <= 1e-8  # over all distinct values, not only those of labels
    loss = reference.objective(batch.scores, targets, batch.weight, step)
    assert loss == pytest.approx(report.objective, rel=1e-10)
    flattened = solve_flattened(batch)[0].step_function
    assert loss <= reference.objective(batch.scores, targets, batch.weight, flattened)


def test_octaves_without_a_cell_follow_the_prior():
    """Between and below the cells of few rows the map goes on as temperature scaling does."""
    rows = np.array([[0.9, 0.099, 0.001], [0.8, 0.199, 0.001]] * 10)
    labels = np.array([0, 0, 0, 1] * 5)
    batch = batch_of(rows, labels)
    likelihood, step, report = fit(batch, 1e6)
    beta = likelihood.prior_beta
    assert report.converged
    assert np.all(np.diff(step.values) > 0)
    low = step([2.0**-10, 2.0**-12, 2.0**-14, 2.0**-30])
    np.testing.assert_allclose(low[1:] / low[0], 2.0 ** (-beta * np.array([2, 4, 20])), rtol=1e-9)
    # Cells have the values that were fitted to them.
    loss, _ = likelihood.evaluate(step(likelihood.rows.bounds[0]))
    assert loss == pytest.approx(report.objective, rel=1e-12)
