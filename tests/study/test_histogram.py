"""Histograms, their Bayesian average, and maps of groups of classes, against exact references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import FlattenedIsotonic
from calibrant._gate._simplex import check_batch
from calibrant._solvers.one_vs_rest import binary_problem, pool_segments, solve_isotonic_steps
from calibrant.study import SharedClasswise
from calibrant.study._histogram import (
    beta_prior,
    bin_range,
    group_classes,
    log_marginal_likelihood,
    pool_cells,
    solve_bayesian_binning,
    solve_histogram,
    solve_shared_classwise,
)
from calibrators.test_properties import calibration_sets
from conftest import simulate
from reference.binary_maps import (
    GOLDEN,
    Fraction,
    bayesian_binning,
    binning_score,
    edges,
    histogram,
    mass_bins,
    mean,
    rising,
    width_bins,
)
from solvers.test_one_vs_rest import cells, over_confident, problem_of

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def test_reference_by_hand():
    """Weights 1, 2, 1 at 0, 1/2, 1: middles 1/8, 1/2, 7/8, so two bins are {0} and {1/2, 1}."""
    values, labels, weights = [0.0, 0.5, 1.0], [0, 1, 0], [1, 2, 1]
    parts = mass_bins(values, labels, weights, 2)
    assert [[cell[0] for cell in part] for part in parts] == [[0], [Fraction(1, 2), 1]]
    assert [mean(part) for part in parts] == [0, Fraction(2, 3)]
    assert edges(parts) == [0, GOLDEN / 2, 1]
    assert [len(part) for part in width_bins(values, labels, weights, 4)] == [1, 0, 1, 1]


# The edges b / n are doubles where n is a power of two; else, see the test after this one.
MASS = st.tuples(st.just("mass"), st.integers(1, 9))
WIDTH = st.tuples(st.just("width"), st.sampled_from([1, 2, 4, 8]))


@given(cells(), MASS | WIDTH)
def test_equals_the_exact_reference_bit_for_bit(data, bins):
    strategy, n_bins = bins
    found, report = solve_histogram(problem_of(*data), n_bins=n_bins, strategy=strategy)
    exact = histogram(*data, n_bins, strategy)
    for value, share in exact.items():
        assert found(float(value)) == float(share)
    wrong = data[1] - found(data[0])
    assert report.objective == pytest.approx(np.average(wrong**2, weights=data[2]), abs=1e-15)


@given(cells(), st.integers(1, 9))
def test_bins_of_equal_width_are_those_of_numpy(data, n_bins):
    values, labels, weights = data
    found, _ = solve_histogram(problem_of(*data), n_bins=n_bins, strategy="width")
    borders = np.linspace(0, 1, n_bins + 1)
    just_below = borders * np.append(np.full(n_bins, 1 - 2.0**-16), 1)  # to numpy 0.3 < 3 * 0.1
    sizes, _ = np.histogram(values, just_below, weights=weights)
    hits, _ = np.histogram(values, just_below, weights=weights * labels)
    np.testing.assert_array_equal(found.sizes, sizes)
    empty = (borders[:-1] + borders[1:]) / 2
    np.testing.assert_allclose(
        found.values, np.where(sizes > 0, hits / np.maximum(sizes, 1), empty)
    )


@given(cells(), st.integers(1, 9))
def test_thresholds_lie_between_two_values_and_ties_are_never_split(data, n_bins):
    found, _ = solve_histogram(problem_of(*data), n_bins=n_bins)
    exact = [float(edge) for edge in edges(mass_bins(*data, n_bins))[:-1]]
    np.testing.assert_allclose(found.thresholds, exact, rtol=1e-15)
    assert found.n_blocks <= min(n_bins, len(np.unique(data[0])))


def test_scores_that_differ_by_rounding_are_one_and_others_are_told_apart():
    low, high = 0.3, 0.1 + 0.2
    assert low < high
    found, _ = solve_histogram(problem_of(np.array([low, high]), np.array([0, 1]), np.ones(2)))
    assert found([low, high]).tolist() == [0.5, 0.5]
    high = 0.3 + 1e-9
    found, _ = solve_histogram(problem_of(np.array([low, high]), np.array([0, 1]), np.ones(2)))
    assert found([low, high]).tolist() == [0.0, 1.0]
    saturated = np.array([np.nextafter(1.0, 0.0), 1.0])
    found, _ = solve_histogram(problem_of(saturated, np.array([0, 1]), np.ones(2)))
    assert found(saturated).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("edge", [3 / 15, 9 / 15, 12 / 15])
def test_a_score_on_an_edge_stays_in_its_bin_when_it_is_rounded(edge):
    values = np.array([edge - 0.03, edge - 0.01, edge, edge + 0.01])
    found, _ = solve_histogram(
        problem_of(values, np.array([0, 0, 1, 1]), np.ones(4)), strategy="width"
    )
    assert found(edge - 1e-6) == found(edge) == found(edge + 1e-6) == 1.0
    assert found(edge - 0.01) == 0.0


def test_an_empty_bin_has_its_midpoint():
    problem = problem_of(np.array([0.1, 0.9]), np.array([0, 1]), np.ones(2))
    found, _ = solve_histogram(problem, n_bins=4, strategy="width")
    assert found([0.1, 0.3, 0.6, 0.9]).tolist() == [0.0, 0.375, 0.625, 1.0]
    assert found.sizes.tolist() == [1.0, 0.0, 0.0, 1.0]


def test_reference_of_the_average_by_hand():
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


maps = pytest.mark.parametrize("kind", ["isotonic", "histogram"])


@given(data=calibration_sets(), new=calibration_sets(), seed=st.integers(0, 99))
def test_one_isotonic_group_is_flattened_isotonic_to_the_bit(data, new, seed):
    p, y = data
    rows = new[0] if new[0].shape[1] == p.shape[1] else p
    weight = np.random.default_rng(seed).uniform(0.1, 3, len(p))
    classes = np.arange(p.shape[1])
    one = SharedClasswise(map="isotonic", classes=classes).fit(p, y, weight)
    two = FlattenedIsotonic(classes=classes).fit(p, y, weight)
    assert one.predict_proba(rows).tobytes() == two.predict_proba(rows).tobytes()


@maps
def test_cells_are_mapped_by_the_map_of_their_group(kind):
    p, y = simulate(600, 6)
    calibrator = SharedClasswise(
        map=kind, n_groups=3, normalize_output=False, min_probability=0
    ).fit(p, y)
    out = calibrator.predict_proba(p)
    assert len(calibrator.curves_) == calibrator.groups_.max() + 1 == 3
    for j, group in enumerate(calibrator.groups_):
        np.testing.assert_array_equal(out[:, j], calibrator.curves_[group](p[:, j]))
    rows = SharedClasswise(map=kind, n_groups=3, min_probability=0).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(rows, out / out.sum(axis=1, keepdims=True), rtol=1e-13)


def batch_with(counts):
    """A batch in which class j has ``counts[j]`` labels."""
    y = np.repeat(np.arange(len(counts)), counts)
    return check_batch(simulate(len(y), len(counts))[0], y, classes=np.arange(len(counts)))


@pytest.mark.parametrize(
    ("counts", "n_groups", "groups"),
    [
        ([5, 1, 9, 2], 1, [0, 0, 0, 0]),
        ([5, 1, 9, 2], 2, [1, 0, 1, 0]),
        ([5, 1, 9, 2], 4, [2, 0, 3, 1]),
        ([5, 1, 9, 2], 99, [2, 0, 3, 1]),
        ([3, 3, 3, 8], 2, [0, 0, 0, 1]),
        ([4, 4, 4, 4], 3, [0, 0, 0, 0]),
        ([0, 0, 0, 7], 2, [0, 0, 0, 0]),
        ([0, 6, 0, 7], 4, [0, 0, 0, 1]),
    ],
)
def test_groups_by_hand(counts, n_groups, groups):
    """By frequency, of about equal size, equal ones together, none without a label."""
    assert group_classes(batch_with(counts), n_groups).tolist() == groups


@given(st.integers(0, 99), st.integers(2, 6), st.integers(1, 30))
def test_segments_give_the_isotonic_fit_of_all_cells(seed, k, m):
    """Also where labels lie outside the columns, and probabilities are tied."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 4, (m, k)) / 1.0
    batch = check_batch(
        p / p.sum(axis=1, keepdims=True), rng.integers(0, k, m), classes=np.arange(k)
    )
    columns = np.unique(np.append(batch.class_index[:1], rng.integers(0, k, 2)))
    few, _ = solve_isotonic_steps(pool_segments(batch, columns))
    many, _ = solve_isotonic_steps(pool_cells(batch, columns))
    np.testing.assert_array_equal(few(batch.scores), many(batch.scores))
    assert pool_segments(batch, columns).total == pool_cells(batch, columns).total


def test_groups_are_fitted_to_their_own_cells():
    batch = batch_with([20, 80, 30, 120])
    found, report = solve_shared_classwise(
        batch, kind="histogram", n_groups=2, n_bins=7, strategy="mass"
    )
    assert found.groups.tolist() == [0, 1, 0, 1]
    objective = 0.0
    for g, columns in enumerate(([0, 2], [1, 3])):
        hit = batch.class_index[:, None] == np.array(columns)
        cells = batch.scores[:, columns].ravel()
        problem = binary_problem(cells, hit.ravel().astype(float), np.ones(cells.size))
        wanted, part = solve_histogram(problem, n_bins=7)
        assert found.curves[g].values.tobytes() == wanted.values.tobytes()
        objective += part.objective / 2
    assert report.objective == pytest.approx(objective)
    assert report.solver == "histogram per group"
    assert report.n_blocks == 14
