import numpy as np
import pytest

from calibrant._gate._simplex import check_batch
from calibrant._maps.curves import IDENTITY
from calibrant._solvers.one_vs_rest import binary_problem, solve_isotonic_steps
from calibrant.study._top_label import (
    TopLabels,
    solve_points_histogram,
    solve_top_label,
)
from conftest import simulate

pytestmark = pytest.mark.filterwarnings(
    "ignore::calibrant.errors.SmallSampleWarning", "ignore::calibrant.errors.SingleClassWarning"
)


def test_problems_by_hand():
    """Row 1 is right; rows 2 and 3 are tied, with the label inside and outside of the tie."""
    p = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.4, 0.2, 0.4]])
    batch = check_batch(p, [0, 0, 1], classes=[0, 1, 2])
    top = TopLabels.of(batch)
    pooled = top.pooled(batch.class_index)
    assert pooled.values.tolist() == [0.4, 0.5]
    assert pooled.positives.tolist() == [0.5, 1.0]
    assert pooled.cells.tolist() == [2.0, 1.0]
    first = top.of_class(0, batch.class_index)
    assert first.positives.tolist() == [0.5, 1.0]
    assert first.cells.tolist() == [1.0, 1.0]
    second = top.of_class(1, batch.class_index)
    assert (second.positives.tolist(), second.cells.tolist()) == ([0.0], [0.5])


def test_points_per_bin_set_the_number_of_bins():
    x = np.linspace(0.3, 0.9, 230)
    found, _ = solve_points_histogram(binary_problem(x, x, np.ones(230)), points_per_bin=50)
    assert found.n_blocks == 4
    many, _ = solve_points_histogram(binary_problem(x, x, np.ones(230)), points_per_bin=1)
    assert many.n_blocks == 15
    assert solve_points_histogram(binary_problem(x[:9], x[:9], np.ones(9)))[0].n_blocks == 1


def test_rarely_predicted_classes_keep_their_scores():
    p, y = simulate(300, 4)
    p = p * [1.0, 1.0, 1.0, 0.02]
    batch = check_batch(p / p.sum(axis=1, keepdims=True), y)
    predicted = np.bincount(batch.scores.argmax(axis=1), minlength=4)
    assert 0 < predicted[3] < 50 < predicted[:3].min()
    found, report = solve_top_label(batch, solve_points_histogram, per_class=True, enough=50)
    assert [curve is IDENTITY for curve in found.curves] == [False, False, False, True]
    assert [curve.n_blocks for curve in found.curves[:3]] == (predicted[:3] // 50).tolist()
    assert report.n_blocks == (predicted[:3] // 50).sum()


def test_classes_are_fitted_to_the_rows_that_predict_them():
    p, y = simulate(400, 3)
    batch = check_batch(p, y)
    found, _ = solve_top_label(batch, solve_isotonic_steps, per_class=True)
    for j, curve in enumerate(found.curves):
        rows = batch.scores.argmax(axis=1) == j
        hit = (y[rows] == j).astype(float)
        wanted, _ = solve_isotonic_steps(binary_problem(p[rows, j], hit, np.ones(rows.sum())))
        assert curve.thresholds.tobytes() == wanted.thresholds.tobytes()
        assert curve.values.tobytes() == wanted.values.tobytes()
        assert curve.sizes.sum() == rows.sum()
