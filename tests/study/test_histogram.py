import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._predictions import EventRows
from calibrant.metrics._calibration_error import find_bins
from calibrant.study._histogram import MassBins, solve_histogram
from reference.binary_maps import GOLDEN, Fraction, edges, histogram, mass_bins, mean, width_bins
from solvers.test_one_vs_rest import cells, problem_of


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
def test_bins_of_equal_mass_are_those_of_the_metrics(data, n_bins):
    problem = problem_of(*data)
    values, weight, hits = problem.values, problem.cells, problem.positives
    bins = find_bins(EventRows(values, hits > 0, weight), n_bins, "quantile")
    used = np.bincount(bins, minlength=n_bins) > 0
    _, positives, sizes = MassBins(problem).cut(n_bins)
    np.testing.assert_array_equal(sizes, np.bincount(bins, weight, n_bins)[used])
    np.testing.assert_array_equal(positives, np.bincount(bins, hits, n_bins)[used])


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
