"""SCIR from cells: the exact fit while nothing is binned, and what binning costs at most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import xlogy

from calibrant._kernels.isotonic import largest_excess
from calibrant._simplex import SimplexBatch
from calibrant._solvers.sorted_cumulative.fit import accumulate, fit_rows
from calibrant.scale._isotonic import fit_table
from calibrant.scale._score_table import ScoreTable
from conftest import load_real, real_files, simulate


def make(n_rows, k, seed, kind="plain"):
    """Batches with and without ties, zeros and weights."""
    rows, y = simulate(n_rows, k, seed)
    rng = np.random.default_rng(seed)
    weight = np.ones(n_rows)
    if kind == "ties":
        rows = np.round(rows, 1) + (np.round(rows, 1).sum(axis=1, keepdims=True) == 0)
        rows = rows / rows.sum(axis=1, keepdims=True)
    elif kind == "weights":
        weight = rng.gamma(1.0, 2.0, n_rows) + 1e-3
    return SimplexBatch(rows, "probabilities", y, weight, np.arange(k))


def grid_of(batch, limit=10**6, max_rank=None):
    """The grid of a batch."""
    table = ScoreTable(min(max_rank or 10**6, batch.n_classes - 1), limit, cumulative=True)
    table.add(batch)
    return table


def points_of(batch, n_ranks):
    """Every point of a batch: q, rank, label and weight."""
    rows = accumulate(batch)
    r = np.arange(1, batch.n_classes)
    inside = np.clip(r - rows.first[:, None] + 1, 0, None) / (rows.last - rows.first + 1)[:, None]
    q = rows.cumulative[:, :-1]
    weight = np.broadcast_to(rows.weight[:, None], q.shape)
    rank = np.broadcast_to(np.minimum(r, n_ranks), q.shape)
    return q.ravel(), rank.ravel(), np.minimum(inside, 1.0).ravel(), weight.ravel()


def judge(function, batch):
    """Mean log loss of a function on the points of a batch, and its violation of optimality."""
    q, rank, label, weight = points_of(batch, function.n_ranks)
    value = function(q, rank)
    loss = -(xlogy(label, value) + xlogy(1.0 - label, 1.0 - value)) @ weight / weight.sum()
    merged, place = np.unique(np.column_stack([value, q, rank]), axis=0, return_inverse=True)
    values, starts = np.unique(merged[:, 0], return_index=True)
    sums = np.bincount(place, label * weight), np.bincount(place, weight)
    ranks, starts = merged[:, 2].astype(np.int32), np.append(starts, len(merged))
    excess = largest_excess(ranks, *sums, starts, values, function.n_ranks)
    return loss, excess / weight.sum()


CASES = [
    (300, 2, "plain"),
    (400, 4, "plain"),
    (400, 4, "ties"),
    (300, 6, "weights"),
    (60, 40, "plain"),
    (80, 30, "ties"),
]


@pytest.mark.parametrize(("n_rows", "k", "kind"), CASES)
@pytest.mark.parametrize("max_rank", [None, 2])
def test_where_every_point_has_a_cell_the_fit_is_that_in_memory(n_rows, k, kind, max_rank):
    batch = make(n_rows, k, 0, kind)
    want, report = fit_rows(accumulate(batch), max_rank)
    found, other = fit_table(grid_of(batch, max_rank=max_rank))
    assert other.binning is None
    assert other.converged
    assert other.n_blocks == report.n_blocks
    assert other.objective == pytest.approx(report.objective, abs=1e-9)
    assert judge(found, batch) == pytest.approx((report.objective, 0.0), abs=1e-9)
    np.testing.assert_array_equal(found.offsets, want.offsets)
    np.testing.assert_array_equal(found.thresholds, want.thresholds)
    if kind == "plain":
        np.testing.assert_array_equal(found.values, want.values)
    np.testing.assert_allclose(found.values, want.values, atol=1e-9)


@pytest.mark.parametrize(("n_rows", "k", "kind"), CASES)
@pytest.mark.parametrize("divisor", [1.1, 3, 12, 10**9])
def test_bounds_hold_for_all_points(n_rows, k, kind, divisor):
    for seed in range(4):
        batch = make(n_rows, k, seed, kind)
        _, exact = fit_rows(accumulate(batch))
        limit = max(int(grid_of(batch).cells().size / divisor), k - 1)
        function, report = fit_table(grid_of(batch, limit))
        assert report.binning.n_bins <= limit
        loss, violation = judge(function, batch)
        assert report.objective == pytest.approx(loss, abs=1e-9)  # of the points, not of cells
        assert exact.objective <= loss + 1e-9
        assert loss <= exact.objective + report.binning.excess + 1e-9
        assert violation <= report.binning.violation + 1e-9


@pytest.mark.parametrize("name", real_files("banking_nb", "cifar10_resnet18", "letter_knn9"))
def test_bounds_hold_on_real_predictions(name):
    rows, y = load_real(name)["val"]
    k = rows.shape[1]
    batch = SimplexBatch(
        rows / rows.sum(axis=1, keepdims=True),
        "probabilities",
        y.astype(np.int64),
        np.ones(len(rows)),
        np.arange(k),
    )
    _, exact = fit_rows(accumulate(batch))
    for divisor in (1.2, 8, 60):
        limit = max(int(grid_of(batch).cells().size / divisor), k - 1)
        function, report = fit_table(grid_of(batch, limit))
        loss, violation = judge(function, batch)
        bound = report.binning
        assert exact.objective - 1e-9 <= loss <= exact.objective + bound.excess + 1e-9
        assert violation <= bound.violation + 1e-9


def test_a_grid_whose_values_are_all_sure():
    rows = np.array([[0.9, 0.05, 0.05], [0.9, 0.06, 0.04], [0.4, 0.35, 0.25], [0.4, 0.36, 0.24]])
    batch = SimplexBatch(rows, "probabilities", np.array([0, 0, 2, 2]), np.ones(4), np.arange(3))
    function, report = fit_table(grid_of(batch, 4))
    assert report.binning.excess == 0.0
    assert report.binning.violation == 0.0
    assert report.objective == 0.0
    assert function([0.95, 0.4, 0.99], [1, 1, 2]).tolist() == [1.0, 0.0, 1.0]


def test_sums_beyond_the_products_of_64_bits_are_fitted_too():
    batch = make(400, 4, 0)
    heavy = replace(batch, weight=batch.weight * 2.0**29)
    want, _ = fit_rows(accumulate(batch))
    found, report = fit_table(grid_of(heavy))
    assert report.converged
    np.testing.assert_array_equal(found.thresholds, want.thresholds)
    np.testing.assert_allclose(found.values, want.values, rtol=1e-12)
