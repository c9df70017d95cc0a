import numpy as np
import pytest

from calibrant.solvers.cautious_share import SHARES, solve_cautious_share
from conftest import simulate


def by_hand(baseline, mixture, class_index, weight, share):
    """Gain and standard error, each label of each row in its turn."""
    total = gain = variance = 0.0
    for p, q, y, w in zip(baseline, mixture, class_index, weight, strict=True):
        logs = [np.log(((1 - share) * a + share * b) / a) for a, b in zip(p, q, strict=True)]
        mean = sum(a * g for a, g in zip(p, logs, strict=True))
        gain += w * logs[y]
        variance += w * sum(a * (g - mean) ** 2 for a, g in zip(p, logs, strict=True))
        total += w
    return gain / total, np.sqrt(variance) / total


@pytest.fixture(scope="module")
def forecasts():
    rng = np.random.default_rng(0)
    mixture, y = simulate(60, 4)
    baseline = rng.dirichlet(np.ones(4), 60)
    return baseline, mixture, y, rng.uniform(0.5, 2.0, 60)


@pytest.mark.parametrize("caution", [0.0, 1.0, 3.0, 10.0])
def test_it_is_the_best_of_all_shares_by_hand(forecasts, caution):
    found = solve_cautious_share(*forecasts, caution)
    values = [by_hand(*forecasts, share) for share in SHARES]
    allowed = [i for i, (gain, error) in enumerate(values) if gain >= caution * error]
    best = max(allowed, key=lambda i: values[i][0])
    assert found.share == SHARES[best]
    assert found.gain == pytest.approx(values[best][0], abs=1e-12)
    assert found.standard_error == pytest.approx(values[best][1], abs=1e-12)


def test_a_weight_is_so_many_rows():
    rng = np.random.default_rng(1)
    baseline, mixture = rng.dirichlet(np.ones(3), 20), rng.dirichlet(np.ones(3), 20)
    y, weight = rng.integers(3, size=20), rng.integers(1, 4, 20)
    weighed = solve_cautious_share(baseline, mixture, y, weight.astype(float), 1.0)
    parts = [np.repeat(part, weight, axis=0) for part in (baseline, mixture, y)]
    repeated = solve_cautious_share(*parts, np.ones(weight.sum()), 1.0)
    assert weighed.share == repeated.share
    assert weighed.gain == pytest.approx(repeated.gain, abs=1e-12)
    assert weighed.standard_error == pytest.approx(repeated.standard_error, abs=1e-12)


def test_more_caution_never_leaves_the_baseline_further(forecasts):
    shares = [solve_cautious_share(*forecasts, caution).share for caution in (0, 1, 2, 4, 8, 1e6)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0 == shares[-1]


def test_the_truth_is_left_alone_nearly_always():
    """Labels drawn from the baseline: a mixture that is too sharp gets nothing."""
    rng = np.random.default_rng(2)
    shares = []
    for _ in range(100):
        baseline = rng.dirichlet(np.full(3, 0.5), 300)
        y = (rng.random(300)[:, None] > baseline.cumsum(axis=1)).sum(axis=1).clip(max=2)
        sharper = baseline**1.5
        sharper /= sharper.sum(axis=1, keepdims=True)
        shares.append(solve_cautious_share(baseline, sharper, y, np.ones(300), 2.0).share)
    assert np.mean(np.array(shares) > 0) <= 0.1  # one in forty is expected


def test_what_is_better_without_doubt_is_taken():
    p, y = simulate(2000, 4)
    flat = np.full_like(p, 0.25)
    bold, cautious = (
        solve_cautious_share(flat, p, y, np.ones(len(y)), caution).share for caution in (0.0, 3.0)
    )
    assert bold == cautious >= 0.75


def test_zeros_are_no_matter():
    baseline = np.array([[1.0, 0.0], [0.5, 0.5]])
    mixture = np.array([[0.5, 0.5], [0.0, 1.0]])
    found = solve_cautious_share(baseline, mixture, np.array([1, 1]), np.ones(2), 0.0)
    assert np.isfinite([found.share, found.gain, found.standard_error]).all()
    assert found.share == 1.0
