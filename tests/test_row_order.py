"""Rows are merged and dealt to folds by their content, whatever their order."""

import numpy as np
import pytest

from calibrant import _row_order as row_order
from calibrant._gate._simplex import check_batch
from conftest import simulate


def tied_batch(n_rows=300, n_classes=4):
    """Rows of few distinct values, many of them equal."""
    rng = np.random.default_rng(3)
    p = 1.0 + rng.integers(0, 3, (n_rows, n_classes))
    y = rng.integers(0, n_classes, n_rows)
    return p / p.sum(axis=1, keepdims=True), y, rng.integers(1, 4, n_rows).astype(float)


def test_equal_rows_are_merged_and_no_others():
    p, y, w = tied_batch()
    merged = check_batch(p, y, w).merged()
    wanted = {}
    for row, label, weight in zip(p.tolist(), y.tolist(), w.tolist(), strict=True):
        wanted[(*row, label)] = wanted.get((*row, label), 0.0) + weight
    found = zip(merged.scores.tolist(), merged.class_index.tolist(), merged.weight, strict=True)
    assert {(*row, label): weight for row, label, weight in found} == wanted
    assert len(merged.weight) == len(wanted) < 300


def fold_table(scores, y, weight=None, n_folds=5, **options):
    """Weight of each row in each fold."""
    batch = check_batch(scores, y, weight, **options)
    table = np.zeros((batch.n_rows, n_folds))
    row, fold, share = batch.deal(n_folds)
    table[row, fold] = share
    return table


def test_folds_are_of_content_and_stratified():
    p, y = simulate(600, 4)
    table = fold_table(p, y)
    assert table.sum(axis=0).tolist() == [120] * 5
    for label in range(4):
        assert np.ptp(table[y == label].sum(axis=0)) <= 1
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(600), np.array([2, 0, 3, 1])
    noisy = p * (1.0 + 1e-15 * rng.normal(size=p.shape))
    moved = fold_table(noisy[rows][:, columns], np.argsort(columns)[y[rows]])
    np.testing.assert_array_equal(moved, table[rows])
    logits = fold_table(np.log(p) + rng.normal(size=(600, 1)), y, kind="logits")
    np.testing.assert_array_equal(logits, table)


def test_every_row_is_dealt_with_its_whole_weight():
    p, y, _ = tied_batch()
    weight = np.random.default_rng(0).choice([0.25, 1.0, 2.0, 3.7, 1e-9, 500.0], len(y))
    table = fold_table(p, y, weight)
    np.testing.assert_allclose(table.sum(axis=1), weight, rtol=1e-9)
    assert np.count_nonzero(table[weight <= 1.0], axis=1).tolist() == [1] * np.sum(weight <= 1.0)
    assert np.all(table[weight == 500.0] > 50.0)


def test_labels_of_equal_scores_are_as_frequent_in_all_folds():
    """Kept together by score and label, all of one label would be in one fold."""
    rng = np.random.default_rng(0)
    level = rng.choice([0.1, 0.4, 0.8], 3000)
    p, y = np.column_stack([1 - level, level]), (rng.random(3000) < level).astype(int)
    table = fold_table(p, y)
    for value in (0.1, 0.4, 0.8):
        here = level == value
        rate = table[here & (y == 1)].sum(axis=0) / table[here].sum(axis=0)
        spread = np.sqrt(value * (1 - value) / (here.sum() / 5))
        assert np.all(np.abs(rate - y[here].mean()) < 4 * spread)
        # At random, not dealt out evenly: held-out labels must differ from those fitted to.
        assert 0.2 * spread < np.std(rate) < 2.5 * spread


def test_more_repeats_than_can_be_dealt_are_spread(monkeypatch):
    monkeypatch.setattr(row_order, "MOST_REPEATS", 1000)
    p, y = simulate(40, 3)
    weight = np.where(np.arange(40) % 2, 1.0, 1e30)
    table = fold_table(p, y, weight)
    np.testing.assert_allclose(table[::2], 2e29)
    assert np.count_nonzero(table[1::2]) == 20


@pytest.mark.parametrize("most", [1 << 17, 0])
def test_a_weight_is_a_repetition_however_repeats_are_dealt(monkeypatch, most):
    monkeypatch.setattr(row_order, "MOST_DEALT_SINGLY", most)
    p, y = simulate(60, 3)
    times = np.random.default_rng(0).integers(1, 9, 60)
    once = fold_table(p, y, times.astype(float))
    many = fold_table(np.repeat(p, times, axis=0), np.repeat(y, times))
    row = np.repeat(np.arange(60), times)
    np.testing.assert_array_equal(once, [many[row == i].sum(axis=0) for i in range(60)])


def test_repeats_that_are_drawn_at_once_follow_the_law_of_dealing(monkeypatch):
    """Mean and variance of a row's repeats in a fold, over many rows; equal folds of a class."""
    monkeypatch.setattr(row_order, "MOST_DEALT_SINGLY", 0)
    one = np.linspace(0.01, 0.99, 4000)
    p, y = np.column_stack([1.0 - one, one]), np.arange(4000) % 2
    table = fold_table(p, y, np.full(4000, 20.0))
    np.testing.assert_array_equal(table.sum(axis=1), 20.0)
    for label in (0, 1):
        assert np.ptp(table[y == label].sum(axis=0)) <= 1
    assert table.var() == pytest.approx(20 * 0.2 * 0.8, rel=0.05)
