"""NA-FIR: segments, prior and exact fit, against brute force and general solvers."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibrant._gate import _simplex as simplex
from calibrant._objectives.normalization_aware import certificate, segment_rows
from calibrant._row_order import lay_thresholds
from calibrant._solvers.normalization_aware import (
    N_FOLDS,
    STRENGTHS,
    PriorChoice,
    TemperaturePrior,
    add_pseudo_observations,
    build_likelihood,
    cross_validate,
    deal_segments,
    minimise,
    minimise_likelihood,
    scale_levels,
    split_levels,
)
from calibrant._solvers.one_vs_rest import pool_segments, solve_flattened
from calibrant._solvers.rows import IN_CHOICES
from calibrant._solvers.temperature import solve_temperature
from calibrant.study._searches import pool_blocks
from conftest import each_real_file, load_real, simulate
from reference import normalization_aware as reference


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 16, 10**6]))
def test_segments_are_those_of_fir(seed, grid):
    rng = np.random.default_rng(seed)
    masses = rng.integers(0, grid, (30, 4)) + (rng.random((30, 1)) < 0.5)
    masses[masses.sum(axis=1) == 0] = 1
    batch = batch_of(masses / masses.sum(axis=1, keepdims=True), rng.integers(0, 4, 30))
    rows = segment_rows(batch, fill_gaps=False)
    wanted = pool_segments(batch)
    least, largest = rows.bounds
    # The first segment starts at 0, the others at their first cell, all but rounding.
    np.testing.assert_allclose(wanted.values[1:], least[1:], rtol=2**-40)
    assert np.all(wanted.values <= least)
    np.testing.assert_array_equal(wanted.largest, largest)
    np.testing.assert_array_equal(rows.positives(rows.weight), wanted.positives)
    np.testing.assert_array_equal(rows.exposures(rows.weight), wanted.cells)


def test_rows_keep_their_cells_labels_and_weights():
    matrix, labels = simulate(100, 5)
    batch = batch_of(matrix, labels)
    rows = segment_rows(batch, fill_gaps=False)
    wanted = np.searchsorted(rows.starts, matrix[rows.order], side="right") - 1
    np.testing.assert_array_equal(rows.index, wanted)
    np.testing.assert_array_equal(rows.own, wanted[np.arange(100), labels[rows.order]])
    np.testing.assert_array_equal(rows.largest, matrix[rows.order].max(axis=1))
    own = matrix[np.arange(100), labels]
    assert np.all(np.diff(own[rows.order]) >= 0.0)


def test_filled_gaps_leave_no_segment_wider_than_an_octave():
    batch = batch_of(*simulate(60, 30))
    rows = segment_rows(batch, fill_gaps=True)
    cells = np.sort(batch.scores.ravel())
    part = np.searchsorted(rows.starts, cells, side="right") - 1
    for segment in range(rows.n_segments):
        inside = cells[part == segment]
        assert len(inside) > 0
        assert inside[-1] <= 2.0 * inside[0]


def test_many_segments_need_a_wider_index():
    rng = np.random.default_rng(0)
    top = rng.uniform(0.5, 1.0, 70_000)
    batch = batch_of(np.column_stack([top, 1.0 - top]), rng.integers(0, 2, 70_000))
    rows = segment_rows(batch, fill_gaps=False)
    assert rows.n_segments > 65_536
    assert rows.index.dtype == np.int32
    wanted = np.searchsorted(rows.starts, batch.scores[rows.order], side="right") - 1
    np.testing.assert_array_equal(rows.index, wanted)


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


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(i, marks=pytest.mark.slow) for i in range(2, 10))]
)
def test_equals_a_general_convex_solver_over_all_distinct_values(seed):
    """With a prior, from its definition; without one see the certificate in exact arithmetic."""
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 5))
    n_rows = (60 if seed > 1 else 40) // n_classes  # so many distinct values
    rows, labels = simulate(n_rows, n_classes, seed)
    batch = batch_of(rows, labels, rng.choice([1.0, 2.0, 0.5], n_rows))
    likelihood, step, report = fit(batch, 3.0, tol=1e-11)
    weight, targets = regularised(batch, 3.0)
    starts = likelihood.rows.bounds[0]
    counts, target = reference.counts_of_parts(batch.scores, targets, starts)
    n = len(starts)
    guesses = [np.zeros(n), 0.5 * np.log(np.maximum(starts, 1e-9)), np.linspace(-3, 0, n)]
    guesses.append(np.log(np.maximum(step(starts), 1e-39)))  # what is lower than this is lower
    best = reference.general_minimum(counts, target, weight, guesses)
    assert report.objective == pytest.approx(best, rel=1e-8)


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


def prior_of(batch, rows, share):
    return TemperaturePrior.of(batch, rows, share, solve_temperature(batch).map)


def test_folds_share_out_every_row_and_leave_something_to_fit():
    for n_rows, scale in ((1, 1.0), (2, 1.0), (7, 1e-9), (200, 3.0)):
        batch = simplex.check_batch(*simulate(n_rows, 4), np.full(n_rows, scale))
        shares = deal_segments(batch, segment_rows(batch, fill_gaps=True))
        np.testing.assert_allclose(shares.sum(axis=1), batch.weight, rtol=1e-12)
        assert np.all(shares.sum(axis=0) < 0.9 * n_rows * scale)


def test_strengths_that_only_rounding_tells_apart_are_a_tie():
    """Sixteen rows of one label: no strength changes what a held-out row is given."""
    p = np.array([[2, 3, 3], [1, 1, 1], [1, 1, 2], [0, 1, 1], [2, 1, 3], [2, 2, 3], [1, 0, 0]])
    p = p / p.sum(axis=1, keepdims=True)
    times, y = np.array([3, 1, 1, 6, 1, 3, 1]), np.zeros(7, dtype=int)
    weighted = simplex.check_batch(p, y, times, classes=np.arange(3))
    rows = np.repeat(p, times, axis=0)
    repeated = simplex.check_batch(rows, np.repeat(y, times), classes=np.arange(3))
    choices = [build_likelihood(batch, None)[1] for batch in (weighted, repeated)]
    assert np.ptp(choices[0].losses) < 1e-12
    assert [choice.best for choice in choices] == [STRENGTHS[0]] * 2
    assert PriorChoice(np.array(STRENGTHS), np.array([0.5, 0.5 - 1e-8, 0.6, 0.7])).best > 10.0


def test_the_choice_is_the_lowest_point_of_a_parabola():
    strengths = np.array([10.0, 100.0, 1000.0, 10000.0])
    logs = np.log10(strengths)
    assert PriorChoice(strengths, (logs - 2.5) ** 2).best == 320.0
    assert PriorChoice(strengths, (logs - 2.0) ** 2).best == 100.0
    assert PriorChoice(strengths, logs).best == 10.0
    assert PriorChoice(strengths, -logs).best == 10000.0
    assert PriorChoice(strengths, np.ones(4)).best == 10.0
    assert PriorChoice(strengths, np.array([2.0, 1.0, 1.0, 1.0])).best == 320.0


def test_held_out_loss_is_that_of_fits_to_the_other_folds():
    batch = simplex.check_batch(*simulate(200, 4))
    rows = segment_rows(batch, fill_gaps=True)
    share = deal_segments(batch, rows)
    prior = prior_of(batch, rows, share)
    choice = cross_validate(rows, prior, share)
    np.testing.assert_array_equal(choice.strengths, STRENGTHS)
    scaled = solve_temperature(batch).map(batch.scores[rows.order])
    losses, distances = np.zeros((2, len(STRENGTHS)))
    for i, strength in enumerate(STRENGTHS):
        for fold in range(N_FOLDS):
            kept, left_out = share[:, fold] == 0.0, share[:, fold] > 0.0
            w, target = add_pseudo_observations(rows, prior, rows.weight * kept, strength, fold)
            start = rows.exposures(w)
            found = minimise(rows.index, w, target, start, tol=1e-9, max_rounds=50)
            g = found.values[rows.index[left_out]]
            own = found.values[rows.own[left_out]]
            losses[i] -= np.sum(np.log(own / g.sum(axis=1)))
            logs = np.log(g / g.sum(axis=1, keepdims=True))
            distances[i] -= np.sum(scaled[left_out] * logs) / 200
    price = np.log1p(IN_CHOICES * (distances - distances.min()))
    np.testing.assert_allclose(choice.losses, (losses + price) / 200, atol=2e-4)


def test_a_certain_classifier_starts_from_fir():
    rows = np.tile([[0.9, 0.1], [0.2, 0.8]], (50_000, 1))
    batch = simplex.check_batch(rows, rows.argmax(axis=1))
    segments = segment_rows(batch, fill_gaps=True)
    prior = prior_of(batch, segments, segments.weight[:, None].copy())
    assert prior.beta > 8.0
    np.testing.assert_array_equal(prior.totals, 1.0)


def likelihood_of(rows, labels):
    return build_likelihood(batch_of(rows, labels), 0.0)[0]


@given(st.integers(0, 2**32 - 1))
def test_levels_are_cut_where_no_row_has_its_label_below_and_a_cell_above(seed):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(3, 0.7), 12)
    labels = np.where(rng.random(12) < 0.7, rows.argmax(axis=1), rng.integers(0, 3, 12))
    likelihood = likelihood_of(rows, labels)
    first, row_start = split_levels(likelihood.rows)
    own = rows[np.arange(12), labels]
    wanted = [
        j
        for j, start in enumerate(likelihood.rows.starts)
        if j == 0 or np.all((own >= start) | (rows.max(axis=1) < start))
    ]
    np.testing.assert_array_equal(first, [*wanted, likelihood.rows.n_segments])
    for level in range(len(first) - 1):
        inside = likelihood.rows.own[row_start[level] : row_start[level + 1]]
        assert np.all((inside >= first[level]) & (inside < first[level + 1]))


def test_the_lowest_block_without_labels_is_zero():
    likelihood = likelihood_of(*simulate(500, 10))
    step, report = minimise_likelihood(likelihood)
    assert step.values[0] == 0.0
    assert step.values[1] > 0.0
    assert any("value is 0" in note for note in report.notes)


def test_a_classifier_that_is_always_right_is_certain():
    rows, _ = simulate(300, 6)
    step, report = minimise_likelihood(likelihood_of(rows, rows.argmax(axis=1)))
    fitted = step(rows) / step(rows).sum(axis=1, keepdims=True)
    assert report.converged
    assert report.objective == pytest.approx(0.0, abs=1e-8)
    assert np.all(fitted.max(axis=1) > 1 - 1e-8)
    assert np.all(np.isfinite(step.values))


def test_a_top_block_that_is_always_right_leaves_the_rest_alone():
    """Rows of 0.9 are always right, rows of 0.6 two times in three."""
    rows = np.array([[0.9, 0.1]] * 6 + [[0.6, 0.4]] * 6)
    labels = np.array([0] * 6 + [0] * 4 + [1] * 2)
    step, report = minimise_likelihood(likelihood_of(rows, labels))
    g = step([0.1, 0.4, 0.6, 0.9])
    assert g[2] / g[1] == pytest.approx(2.0, rel=1e-6)
    assert g[0] / g[3] < 1e-9
    assert any("levels" in note for note in report.notes)


def test_more_levels_than_floats_hold_are_reported():
    """Each row is right about a cell that the next row has as its second largest."""
    tops = np.linspace(0.1, 0.11, 60)
    rows = np.full((59, 20), 0.0)
    rows[:, 0], rows[:, 1] = tops[1:], tops[:-1]
    rows[:, 2:] = (1.0 - rows[:, :2].sum(axis=1, keepdims=True)) / 18
    step, report = minimise_likelihood(likelihood_of(rows, np.zeros(59, dtype=int)))
    assert np.all(np.isfinite(step.values))
    assert any("cut off" in note for note in report.notes)
    assert not report.converged


def test_levels_hide_what_is_below_them_and_no_more():
    # Level 0 has segments 0 and 1, level 1 segment 2, level 2 segment 3 (which meets nothing).
    index = np.array([[0, 1], [1, 2], [0, 2], [3, 3]])
    values = np.array([0.5, 1.0, 1.0, 1.0])
    cut = scale_levels(index, np.array([0, 1, 3, 4]), np.array([0, 2, 3, 4]), 1e-6, values)
    assert cut == 0
    np.testing.assert_allclose(values, [0.5e-6, 1e-6, 1.0, 1.0], rtol=1e-12)
