"""The reference of NA-FIR on cases worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest

from reference.normalization_aware import (
    brute_force_minimum,
    certificate,
    counts_of_parts,
    exact_certificate,
    general_minimum,
    label_targets,
    objective,
    temperature_scaled,
    with_pseudo_observations,
)

ROWS = np.array([[0.25, 0.75], [0.75, 0.25], [0.25, 0.75]])
LABELS = np.array([1, 0, 0])  # right, right, wrong: the best g has g(0.75) = 2 g(0.25)
WEIGHT = np.ones(3)
LEAST = -(2 * np.log(2 / 3) + np.log(1 / 3)) / 3


def double(p):
    return np.where(np.asarray(p) < 0.5, 1.0, 2.0)


def triple(p):
    return np.where(np.asarray(p) < 0.5, 1.0, 3.0)


def flat(p):
    return np.ones_like(np.asarray(p, dtype=float))


def test_objective_by_hand():
    targets = label_targets(ROWS, LABELS, WEIGHT)
    assert objective(ROWS, targets, WEIGHT, double) == pytest.approx(LEAST)
    assert objective(ROWS, targets, WEIGHT, flat) == pytest.approx(np.log(2))


def test_certificate_by_hand():
    targets = label_targets(ROWS, LABELS, WEIGHT)
    assert certificate(ROWS, targets, WEIGHT, double) == pytest.approx(0.0, abs=1e-15)
    # Shares of 0.75 are 3 / 4 in each row, 9 / 4 in all, where 2 is wanted.
    assert certificate(ROWS, targets, WEIGHT, triple) == pytest.approx(1 / 12)
    # Shares of 1 / 2 sum to 3 / 2, and raising the upper half to 2 is allowed.
    assert certificate(ROWS, targets, WEIGHT, flat) == pytest.approx(1 / 6)
    assert certificate(ROWS, targets, WEIGHT, flat, starts=np.array([0.0])) == 0.0


def test_exact_certificate_by_hand():
    assert exact_certificate(ROWS, LABELS, WEIGHT, double) == 0
    assert exact_certificate(ROWS, LABELS, WEIGHT, triple) == Fraction(1, 12)
    assert exact_certificate(ROWS, LABELS, WEIGHT, flat) == Fraction(1, 6)


def test_minima_by_hand():
    counts, target = counts_of_parts(ROWS, label_targets(ROWS, LABELS, WEIGHT), [0.25, 0.75])
    assert counts.tolist() == [[1, 1], [1, 1], [1, 1]]
    assert target.tolist() == [1, 2]
    assert brute_force_minimum(counts, target, WEIGHT) == pytest.approx(LEAST, rel=1e-12)
    starts = [np.zeros(2), np.array([-3.0, 0.0])]
    assert general_minimum(counts, target, WEIGHT, starts) == pytest.approx(LEAST, rel=1e-12)


def test_minima_where_the_order_binds():
    counts = np.ones((3, 2))
    assert brute_force_minimum(counts, np.array([2.0, 1.0]), WEIGHT) == pytest.approx(np.log(2))
    found = general_minimum(counts, np.array([2.0, 1.0]), WEIGHT, [np.array([-1.0, 0.0])])
    assert found == pytest.approx(np.log(2))


def test_pseudo_observations_by_hand():
    prior = temperature_scaled(ROWS, 2.0, 1e-12, floor=0.0)
    np.testing.assert_allclose(prior[0], [0.1, 0.9])
    weight, targets = with_pseudo_observations(ROWS, LABELS, WEIGHT, 6.0, prior)
    np.testing.assert_allclose(weight, [3, 3, 3])
    np.testing.assert_allclose(targets[0], [0.2, 2.8])
    np.testing.assert_allclose(targets[2], [1.2, 1.8])
