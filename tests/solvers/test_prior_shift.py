import numpy as np
import pytest

from calibrant._solvers.prior_shift import (
    prior_interval,
    prior_shift_test,
    shrink_priors,
    solve_priors,
)
from conftest import each_real_file, load_real
from reference.prior_shift import best_on_grid, likelihood, responsibilities

TINY = [
    ([[0.5, 0.5], [0.25, 0.75], [0.875, 0.125]], [0.5, 0.5]),
    ([[0.75, 0.25], [0.625, 0.375], [0.875, 0.125]], [0.75, 0.25]),
    ([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0.125, 0.875]),  # counts: two thirds, one third
    (
        [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]],
        [0.25, 0.5, 0.25],
    ),
    (
        [[0.125, 0.375, 0.5], [0.25, 0.25, 0.5], [0.0, 0.5, 0.5]],
        [0.5, 0.25, 0.25],
    ),  # none of the first
]


def simulate(rng, n_rows, priors, from_priors, noise=1.0):
    """Exactly calibrated rows of normal classes that come with frequencies ``priors``."""
    k = len(priors)
    y = rng.choice(k, size=n_rows, p=priors)
    x = np.eye(k)[y] / noise + rng.normal(size=(n_rows, k))
    logits = x / noise + np.log(from_priors)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize(("rows", "from_priors"), TINY)
def test_nothing_on_a_grid_is_more_likely(rows, from_priors):
    priors, report = solve_priors(np.array(rows), np.array(from_priors))
    best = best_on_grid(rows, from_priors, 60)
    found = likelihood([q / sum(priors) for q in priors], rows, from_priors)
    assert report.converged
    assert float(found / likelihood(best, rows, from_priors)) >= 1 - 1e-7
    assert np.abs(priors - [float(q) for q in best]).max() <= 1 / 60


@pytest.mark.parametrize(("rows", "from_priors"), TINY)
def test_the_certificate_holds_in_exact_arithmetic(rows, from_priors):
    priors, _ = solve_priors(np.array(rows), np.array(from_priors))
    means = responsibilities(priors, rows, from_priors)
    assert max(means) <= 1 + 1e-7
    for q, mean in zip(priors, means, strict=True):
        assert q * abs(mean - 1) <= 1e-7


def test_a_class_that_was_never_there_stays_so():
    rng = np.random.default_rng(4)
    rows, _ = simulate(rng, 50, [0.6, 0.4], [0.5, 0.5])
    wide = np.insert(rows, 1, 0.0, axis=1)
    priors, report = solve_priors(wide, np.array([0.5, 0.0, 0.5]))
    assert priors[1] == 0
    assert report.converged
    assert priors[[0, 2]] == pytest.approx(solve_priors(rows, np.array([0.5, 0.5]))[0])


@each_real_file
def test_the_certificate_holds_on_real_rows(name):
    data = load_real(name)
    rows, other = (np.maximum(data[part][0][:2500], 1e-12) for part in ("val", "test"))
    rows = np.ascontiguousarray(rows / rows.sum(axis=1, keepdims=True))
    from_priors = other.mean(axis=0)
    from_priors /= from_priors.sum()
    priors, report = solve_priors(rows, from_priors)
    means = (rows / from_priors / (rows @ (priors / from_priors))[:, None]).mean(axis=0)
    assert report.converged
    assert priors.sum() == pytest.approx(1)
    assert means.max() <= 1 + 1e-7
    assert np.abs(priors * (means - 1)).max() <= 1e-7


def profile_interval(rows, from_priors, priors, column, level=3.841459):
    """Ends by the profile likelihood: all other frequencies are fitted again at each of a grid."""
    others = [c for c in range(len(priors)) if c != column]
    ratios, best = rows / from_priors, np.log(rows @ (priors / from_priors)).sum()
    inside = []
    for t in np.linspace(0, 0.995, 200):
        q = np.full(len(others), (1 - t) / len(others))
        for _ in range(100):
            weights = ratios[:, others] * q
            mixture = weights.sum(axis=1) + t * ratios[:, column]
            share = (weights / mixture[:, None]).sum(axis=0)
            q = (1 - t) * share / share.sum()
        value = np.log(ratios[:, others] @ q + t * ratios[:, column]).sum()
        inside += [t] * int(2 * (best - value) <= level)
    return min(inside), max(inside)


@pytest.mark.parametrize("seed", range(3))
def test_intervals_are_those_of_the_profile_likelihood(seed):
    rng = np.random.default_rng(seed)
    from_priors = np.array([0.3, 0.3, 0.4])
    rows, _ = simulate(rng, 300, [0.9, 0.1, 0.0], from_priors)
    priors, _ = solve_priors(rows, from_priors)
    low, high = prior_interval(rows, from_priors, priors)
    assert np.all((low <= priors) & (priors <= high))
    for column in range(3):
        ends = profile_interval(rows, from_priors, priors, column)
        assert (low[column], high[column]) == pytest.approx(ends, abs=0.02)


@pytest.mark.parametrize("n_from", [np.inf, 200])
def test_intervals_hold_and_the_test_keeps_its_level(n_from):
    """Of 200 sets of 300 rows; also where the frequencies of calibration come from few rows."""
    rng = np.random.default_rng(0)
    truth, true_from = np.array([0.75, 0.2, 0.05]), np.array([0.3, 0.3, 0.4])
    held, rejected = np.zeros(3), 0
    for _ in range(200):
        from_priors = true_from
        if n_from == 200:
            from_priors = simulate(rng, 200, true_from, true_from)[0].mean(axis=0)
        rows, _ = simulate(rng, 300, truth, true_from)
        priors, _ = solve_priors(rows, from_priors)
        low, high = prior_interval(rows, from_priors, priors, n_from)
        held += (low <= truth) & (truth <= high)
        rows, _ = simulate(rng, 300, true_from, true_from)
        priors, _ = solve_priors(rows, from_priors)
        rejected += prior_shift_test(rows, from_priors, priors, n_from).p_value < 0.05
    assert held.min() >= 182  # 95 % less three standard errors
    assert 2 <= rejected <= 20


def test_what_is_predicted_with_lies_between():
    rng = np.random.default_rng(2)
    from_priors = np.array([0.3, 0.3, 0.4])
    none, _ = simulate(rng, 300, from_priors, from_priors)
    much, _ = simulate(rng, 3000, [0.9, 0.1, 0.0], from_priors)
    for rows, nearer in ((none, from_priors), (much, None)):
        priors, _ = solve_priors(rows, from_priors)
        test = prior_shift_test(rows, from_priors, priors)
        found = shrink_priors(rows, from_priors, test)
        nearer = priors if nearer is None else nearer
        assert found == pytest.approx(nearer, abs=0.03)
        assert found.sum() == pytest.approx(1)
        assert found.min() > 0


def test_certain_rows_have_the_test_of_counts():
    """The likelihood ratio of a table of two rows, 30 + 20 + 0 here and 40 + 30 + 30 before."""
    here, before = np.array([30, 20, 0]), np.array([40, 30, 30])
    rows, from_priors = np.repeat(np.eye(3), here, axis=0), before / 100
    priors, _ = solve_priors(rows, from_priors)
    both = (here + before) / 150
    ratio = sum(
        2 * n * np.log(n / (counts.sum() * share))
        for counts in (here, before)
        for n, share in zip(counts, both, strict=True)
        if n
    )
    correction = 1 + (np.sum(1 / both) - 1) * (3 + 1.5 - 1) / (6 * 150 * 2)
    found = prior_shift_test(rows, from_priors, priors, 100)
    assert found.statistic == pytest.approx(ratio / correction)
    assert found.n_free == 2
