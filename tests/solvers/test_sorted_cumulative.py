"""SCIR: exact against fractions and against all points; prediction; the choice of the share."""

import math

import numpy as np
import pytest

from calibrant._gate._simplex import check_batch
from calibrant._maps import RankedSteps
from calibrant._solvers import sorted_cumulative as prior_share
from calibrant._solvers import sorted_cumulative as solver
from calibrant._solvers.bivariate_isotonic import check_points, solve_bivariate_isotonic
from calibrant._solvers.rows import IN_CHOICES
from conftest import simulate
from reference.bivariate_isotonic import fit_scir, predict_scir, sorted_cumulative

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def coarse(rng, n_rows, n_classes, levels=4):
    """Rows with ties inside and between them, zeros and ones."""
    masses = rng.integers(0, levels, (n_rows, n_classes)).astype(float)
    masses[masses.sum(axis=1) == 0, 0] = 1
    return masses / masses.sum(axis=1, keepdims=True)


def batch_of(p, y, weight=None):
    return check_batch(p, y, weight, classes=np.arange(p.shape[1]))


def all_points(batch, max_rank=None):
    """Every point of a batch, its label and weight, without any merging."""
    points, labels, weights = [], [], []
    for row, label, weight in zip(batch.scores, batch.class_index, batch.weight, strict=True):
        for (q, rank), inside in sorted_cumulative(row.tolist(), label):
            points.append((q, rank if max_rank is None else min(rank, max_rank)))
            labels.append(float(inside))
            weights.append(weight)
    return *np.array(points).T, np.array(labels), np.array(weights)


def calibrate(function, rows, share=0.0, beta=1.0, zero_logit=-27.631021115928547):
    return RankedSteps(function, share, beta, zero_logit)(np.ascontiguousarray(rows))


def test_points_of_the_papers_example():
    """For p = [0.2, 0.4, 0.3, 0.1], label 2, the sums are 0.4, 0.7, 0.9 (not 0.8)."""
    points = sorted_cumulative([0.2, 0.4, 0.3, 0.1], 2)
    assert [rank for (_, rank), _ in points] == [1, 2, 3]
    np.testing.assert_allclose([q for (q, _), _ in points], [0.4, 0.7, 0.9])
    assert [inside for _, inside in points] == [0, 1, 1]
    rows = solver.accumulate(batch_of(np.array([[0.2, 0.4, 0.3, 0.1]]), [2]))
    np.testing.assert_allclose(rows.cumulative, [[0.4, 0.7, 0.9, 1.0]])
    assert (rows.first.tolist(), rows.last.tolist()) == ([2], [2])


def test_a_tied_label_is_shared_by_hand():
    """Three classes tie for ranks 1 to 3: the label is inside by a third at each."""
    points = sorted_cumulative([0.3, 0.3, 0.3, 0.1], 1)
    assert [float(inside) for _, inside in points] == [1 / 3, 2 / 3, 1]


@pytest.mark.parametrize("weighted", [False, True])
def test_fit_and_prediction_equal_fractions(weighted):
    """Brute force over all upper sets, dominated maximum, shared ties: every value exact."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        m, k = int(rng.integers(1, 4)), int(rng.integers(2, 4))
        p, y = coarse(rng, m, k), rng.integers(0, k, m)
        weight = rng.integers(1, 4, m) if weighted else np.ones(m, dtype=int)
        batch = batch_of(p, y, weight)
        function, report = solver.fit_rows(solver.accumulate(batch))
        exact = fit_scir(batch.scores, y, weight.tolist())
        for (q, rank), value in exact.items():
            assert function(q, rank) == float(value)
        assert report.converged
        new = batch_of(coarse(rng, 3, k), [0, 0, 0]).scores
        for row, out in zip(new, calibrate(function, new), strict=True):
            expected = [float(v) for v in predict_scir(exact, row.tolist())]
            np.testing.assert_allclose(out, expected, atol=1e-15)


@pytest.mark.parametrize("max_rank", [None, 1, 2, 5])
@pytest.mark.parametrize("kind", ["smooth", "ties", "whole weights", "real weights"])
def test_merging_changes_no_value(kind, max_rank):
    """The slots give the regression on all m (k - 1) points, at every point."""
    rng = np.random.default_rng(1)
    for n_rows, n_classes in ((200, 3), (120, 12), (40, 40)):
        p, y = simulate(n_rows, n_classes, seed=n_rows)
        if kind == "ties":
            p = coarse(rng, n_rows, n_classes, levels=6)
        weight = {"whole weights": rng.integers(1, 5, n_rows)}.get(kind, np.ones(n_rows))
        weight = rng.uniform(0.1, 3, n_rows) if kind == "real weights" else weight
        batch = batch_of(p, y, weight)
        function, report = solver.fit_rows(solver.accumulate(batch), max_rank)
        q, rank, label, w = all_points(batch, max_rank)
        fitted, full = solve_bivariate_isotonic(check_points(q, rank, label, w))
        np.testing.assert_allclose(function(q, rank), fitted, rtol=1e-12, atol=1e-14)
        assert report.n_blocks == pytest.approx(full.n_blocks, abs=3)
        assert function.n_ranks == min(max_rank or n_classes, n_classes - 1)
        loss = label * np.log(np.maximum(fitted, 1e-300))
        loss += (1 - label) * np.log(np.maximum(1 - fitted, 1e-300))
        assert report.objective == pytest.approx(-np.average(loss, weights=w), rel=1e-9)
        assert report.violation <= 1e-14


@pytest.mark.parametrize("kind", ["smooth", "ties", "almost ties", "almost uniform", "tiny"])
@pytest.mark.parametrize("n_classes", [2, 7, 100])
def test_rows_are_mapped_as_in_plain_numpy(kind, n_classes):
    rng = np.random.default_rng(0)
    p, y = simulate(400, n_classes)
    batch = batch_of(p, y)
    function, _ = solver.fit_rows(solver.accumulate(batch))
    rows = {
        "smooth": lambda: rng.dirichlet(np.full(n_classes, 0.3), 60),
        "ties": lambda: coarse(rng, 60, n_classes, 6),
        "almost ties": lambda: coarse(rng, 60, n_classes) + 1e-12 * rng.random((60, n_classes)),
        "almost uniform": lambda: 1 + 1e-13 * rng.random((60, n_classes)),
        "tiny": lambda: 10.0 ** -rng.uniform(0, 300, (60, n_classes)),
    }[kind]()
    rows = batch_of(rows / rows.sum(axis=1, keepdims=True), np.zeros(60, dtype=int)).scores
    share, beta, zero = 0.3, 0.7, 1e-12
    prior = np.maximum(rows, zero) ** beta
    prior /= prior.sum(axis=1, keepdims=True)
    order = np.argsort(-rows, axis=1, kind="stable")
    q = np.cumsum(np.take_along_axis(rows, order, axis=1), axis=1)[:, :-1]
    values = function(q, np.arange(1, n_classes))
    steps = np.diff(values, axis=1, prepend=0, append=1)
    expected = np.empty_like(rows)
    np.put_along_axis(expected, order, steps, axis=1)
    expected = (1 - share) * expected + share * prior
    for row, mapped, by_size in zip(rows, expected, order, strict=True):
        breaks = np.flatnonzero(row[by_size[1:]] < (1 - 2.0**-16) * row[by_size[:-1]]) + 1
        for tied in np.split(by_size, breaks):
            mapped[tied] = mapped[tied].mean()
    out = calibrate(function, rows, share, beta, math.log(zero))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-15)
    for row, mapped in zip(rows, out, strict=True):
        for value in np.unique(row):
            assert len(set(mapped[row == value].tolist())) == 1


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 2.5, 3.99, 4.01, 50.0, 1e6])
def test_prior_is_the_temperature_scaled_row(beta):
    rng = np.random.default_rng(0)
    p, y = simulate(300, 6)
    function, _ = solver.fit_rows(solver.accumulate(batch_of(p, y)))
    rows = np.vstack([rng.dirichlet(np.ones(6), 50), 10.0 ** -rng.uniform(0, 20, (50, 6))])
    rows[50:] /= rows[50:].sum(axis=1, keepdims=True)
    gaps = np.log(rows) - np.log(rows.max(axis=1, keepdims=True))
    expected = np.exp(beta * gaps)
    expected /= expected.sum(axis=1, keepdims=True)
    out = calibrate(function, rows, 1.0, beta, math.log(1e-300))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-290)


def choose(p, y, weight=None, max_rank=None):
    batch = batch_of(p, y, weight)
    rows = solver.accumulate(batch)
    return prior_share.choose_prior_share(batch, rows, max_rank)


def test_share_is_the_smallest_whose_loss_is_close_to_the_least():
    p, y = simulate(1000, 5)
    batch = batch_of(p, y)
    share, report = choose(p, y)
    folds = batch.deal(prior_share.N_FOLDS)[1]
    own, prior, distances = prior_share.held_out(batch, solver.accumulate(batch), folds, None)
    losses = [-np.mean(np.log((1 - s) * own + s * prior)) for s in prior_share.SHARES]
    losses += np.log1p(IN_CHOICES * (distances - distances[-1])) / 1000
    close = [
        s for s, loss in zip(prior_share.SHARES, losses, strict=True) if loss <= 1.01 * min(losses)
    ]
    assert share == min(close)
    assert report.objective == pytest.approx(losses[prior_share.SHARES.tolist().index(share)])
    assert 0.05 < share < 1


def test_held_out_rows_are_not_fitted_to():
    """Changing a label changes nothing that is said about its own fold but at its row."""
    p, y = simulate(400, 4)
    batch = batch_of(p, y)
    folds = batch.deal(prior_share.N_FOLDS)[1]
    rows = solver.accumulate(batch)
    own, prior, _ = prior_share.held_out(batch, rows, folds, None)
    fold = folds[0]
    rest, _ = solver.raise_below_even(*solver.fit_rows(rows.take(folds != fold)), 4)
    held = folds == fold
    expected = calibrate(rest, batch.scores[held])[np.arange(held.sum()), y[held]]
    assert own[held].tolist() == expected.tolist()
    assert np.all((prior > 0) & (prior < 1))
