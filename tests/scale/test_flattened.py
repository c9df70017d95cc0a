import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._simplex import check_batch
from calibrant._solvers.flattened import solve_flattened
from calibrant.scale._isotonic import FLATTENED_CELLS, FlattenedStatistics, pool_cells
from calibrant.scale._score_table import ScoreTable
from conftest import each_real_file, load_real, simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.SingleClassWarning")


def fitted(p, y, weight=None, **options):
    statistics = FlattenedStatistics(np.arange(p.shape[1]), **options)
    return statistics.update(p, y, weight).solution().fitted


def same_steps(a, b):
    assert a.thresholds.tolist() == b.thresholds.tolist()
    assert a.values.tolist() == b.values.tolist()
    assert a.sizes.tolist() == b.sizes.tolist()


@each_real_file
def test_rows_that_fit_give_the_fit_in_memory(name):
    p, y = load_real(name)["val"]
    found = fitted(p, y, max_rows=len(p))
    exact, report = solve_flattened(check_batch(p, y, classes=np.arange(p.shape[1])))
    same_steps(found["map_"].step_function, exact.step_function)
    assert found["solver_report_"].binning is None
    assert found["solver_report_"].objective == report.objective


def test_few_distinct_scores_give_the_fit_in_memory_without_the_rows():
    p, y = simulate(3000, 5)
    exact, report = solve_flattened(check_batch(p, y))
    found = fitted(p, y, max_rows=1)
    same_steps(found["map_"].step_function, exact.step_function)
    binning = found["solver_report_"].binning
    assert (binning.violation, binning.excess) == (0.0, 0.0)
    assert binning.n_bins == len(np.unique(p))
    assert found["solver_report_"].objective == report.objective


def squared_error(step, scores, hits, weight):
    return np.sum(weight * (step(scores) - hits) ** 2) / np.sum(weight)


def violation(step, scores, hits, weight):
    """Of the optimality conditions, from all cells."""
    order = np.argsort(scores, kind="stable")
    scores, hits, weight = scores[order], hits[order], weight[order]
    tails = np.cumsum((weight * (step(scores) - hits))[::-1])[::-1]
    starts = np.append(True, scores[1:] > scores[:-1])
    scores, tails = scores[starts], tails[starts]
    jumps = np.append(False, step(scores[1:]) > step(scores[:-1]))
    worst = np.where(jumps, np.abs(tails), -tails)[1:].max(initial=0.0)
    return max(worst, abs(tails[0])) / np.sum(weight)


def check_bounds(batch, limit=FLATTENED_CELLS):
    """What binning may have cost is at least what it did; returns both, and what they are of."""
    table = ScoreTable(1, limit)
    table.add(batch)
    step, report = pool_cells(table.cells())
    exact, best = solve_flattened(batch)
    n_classes = batch.n_classes
    hits = np.arange(n_classes) == batch.class_index[:, None]
    cells = batch.scores.ravel(), hits.ravel(), np.repeat(batch.weight, n_classes)
    reached = squared_error(step, *cells)
    assert reached <= report.objective + 1e-12
    assert report.objective - best.objective <= report.binning.excess + 1e-12
    assert violation(exact.step_function, *cells) <= 1e-12
    assert violation(step, *cells) <= report.binning.violation + 1e-12
    return report, best


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 40), st.booleans())
def test_bounds_on_what_binning_costs_hold(seed, n_classes, most, weighted):
    rng = np.random.default_rng(seed)
    p, y = simulate(int(rng.integers(1, 80)), n_classes, seed)
    p = np.maximum(np.round(p, int(rng.integers(2, 12))), 1e-300)
    weight = np.ceil(99 * rng.gamma(1.0, 2.0, len(y))) / 64 if weighted else None
    batch = check_batch(p, y, weight, classes=np.arange(n_classes), normalize="rows")
    check_bounds(batch, most)


@each_real_file
def test_bounds_hold_and_are_tight_on_real_rows(name):
    p, y = load_real(name)["val"]
    batch = check_batch(p, y, classes=np.arange(p.shape[1]))
    report, best = check_bounds(batch)
    assert report.binning.excess <= 1e-5 * best.objective
    assert report.binning.violation <= 1e-4


def test_bounds_are_not_vacuous_where_much_was_binned():
    p, y = simulate(20_000, 5)
    batch = check_batch(p, y)
    report, best = check_bounds(batch, 10_000)
    assert 0.0 < report.binning.excess < 2e-3 * best.objective
    assert 0.0 < report.binning.violation < 2e-3


def test_a_block_starts_at_a_label_also_inside_a_bin():
    """The lowest label decides which rows are left with nothing: it is known to the last bit."""
    p, y = simulate(20_000, 5)
    found = fitted(p, y, max_rows=1)["map_"].step_function
    batch = check_batch(p, y)
    table = ScoreTable(1, 500)
    table.add(batch)
    step, _ = pool_cells(table.cells())
    labels = batch.scores[np.arange(len(y)), batch.class_index]
    assert set(step.thresholds[1:]) <= set(labels)
    assert step.thresholds[1] == found.thresholds[1] == labels.min()


def test_logits_are_read_as_probabilities():
    p, y = simulate(500, 4)
    found = fitted(np.log(p), y, max_rows=1, scores="logits")["map_"]
    exact, _ = solve_flattened(check_batch(np.log(p), y, kind="logits"))
    same_steps(found.step_function, exact.step_function)
    assert found.kind == "logits"


def test_weights_are_repetitions():
    p, y = simulate(400, 3)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    found = fitted(p, y, weight, max_rows=1)["map_"]
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    same_steps(
        found.step_function, fitted(p[repeated], y[repeated], max_rows=1)["map_"].step_function
    )


@pytest.mark.parametrize("max_rows", [1, 1000])
def test_an_old_day_may_count_less(max_rows):
    p, y = simulate(600, 3)
    empty = FlattenedStatistics(np.arange(3), max_rows=max_rows)
    monday, tuesday = empty.empty().update(p[:300], y[:300]), empty.empty().update(p[300:], y[300:])
    found = monday.scale(0.5).merge(tuesday).solve()
    weight = np.repeat([0.5, 1.0], 300)
    exact, _ = solve_flattened(check_batch(p, y, weight))
    assert np.allclose(found.step_function.values, exact.step_function.values, rtol=1e-12)
    assert found.step_function.thresholds.tolist() == exact.step_function.thresholds.tolist()
