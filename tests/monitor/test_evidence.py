"""The e-process: what it promises, against exact expectations and brute force."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

from calibrant.monitor import CalibrationMonitor
from calibrant.monitor._bets import Bet, make_bets, make_block
from calibrant.monitor._evidence import Evidence
from conftest import COLLECTION
from monitor.streams import honest, shifted


def block_of(p, y, floor):
    """Rows of weight 1."""
    return make_block(p, y, np.ones(len(p)), floor)


@pytest.mark.parametrize("k", [2, 3, 10, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_bet_is_fair(k, weighted):
    """The mean of q(y) / p(y) under p is 1, and at most 1 with weights and below the floor."""
    rng = np.random.default_rng(k)
    bets = make_bets(k)
    for _ in range(5):
        p, y = shifted(rng, 200, k, power=0.6)
        for bet in bets.values():
            bet.log_ratio(block_of(p, y, 1e-6))
            bet.learn(200.0)
    rows = np.concatenate([0.99 * p[:20] + 0.01 / k, np.eye(k)[:1], np.full((1, k), 1.0 / k)])
    weight = np.full(len(rows), 0.5)
    for bet in bets.values():
        mean = np.zeros(len(rows))
        for c in range(k):
            block = block_of(rows, np.full(len(rows), c), 1e-6)
            ratio = bet.log_ratio(block)
            mean += rows[:, c] * np.exp(ratio * weight if weighted else ratio)
        assert np.all(mean <= 1.0 + 1e-12)
        assert weighted or np.all(mean[:20] > 1.0 - 1e-12)


def test_wealth_is_a_martingale_over_all_outcomes():
    """Over all labels of six rows the mean of the wealth is 1; bets learn between them."""
    p = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5], [0.9, 0.1], [0.4, 0.6], [0.55, 0.45]])
    rng = np.random.default_rng(0)
    past = shifted(rng, 15, 2, power=0.4)  # five rows later, bets learn
    total, largest = Fraction(0), 0.0
    for y in itertools.product([0, 1], repeat=6):
        evidence = Evidence(make_bets(2))
        start = evidence.count(block_of(*past, 1e-6))[-1]
        path = evidence.count(block_of(p, np.array(y), 1e-6))
        chance = Fraction(1)
        for row, label in zip(p, y, strict=True):
            chance *= Fraction(row[label])
        total += chance * Fraction(math.exp(path[-1] - start))
        largest = max(largest, path[-1] - start)
    assert abs(float(total) - 1.0) < 1e-12
    assert largest > 0.05  # something was bet


def test_detector_is_the_recursion():
    """Up to the first change, where p is the level."""
    rng = np.random.default_rng(1)
    p, y = shifted(rng, 1500, 3, power=0.5)
    evidence = Evidence(make_bets(3), run_length=5000.0, level=partial(make_bets, 3))
    steps, sums = [], []
    for row in range(1500):
        block = block_of(p[row : row + 1], y[row : row + 1], 1e-6)
        bets = [bet for bet in evidence.bets.values() if bet.half_life < math.inf]
        before = [(bet.gradient.copy(), bet.hessian.copy()) for bet in bets]
        steps.append([math.exp(bet.log_ratio(block)[0]) for bet in bets])
        for bet, (gradient, hessian) in zip(bets, before, strict=True):
            bet.gradient[...], bet.hessian[...] = gradient, hessian
        evidence.count(block)
        sums.append(evidence.detector.sums[:, 0])
    detector, change = np.zeros(4), 0
    while detector.mean() < 5000.0:
        np.testing.assert_allclose(detector, 0.0 if change == 0 else sums[change - 1], rtol=1e-9)
        detector = (detector + 1.0) * steps[change]
        change += 1
    assert 100 < change < 1500
    assert evidence.detector.changes == [change]
    whole = Evidence(make_bets(3), run_length=5000.0, level=partial(make_bets, 3))
    whole.count(block_of(p, y, 1e-6))
    assert whole.detector.changes == [change]
    np.testing.assert_allclose(whole.detector.sums, evidence.detector.sums, rtol=1e-9)


@pytest.mark.parametrize(("k", "n_honest"), [(2, 9000), (3, 1000), (10, 2000)])
def test_a_change_is_found_once(k, n_honest):
    """A shift that stays is one change; its end, and another one after it, are changes again."""
    rng = np.random.default_rng([8, k])
    monitor, n_rows, ends = CalibrationMonitor(classes=range(k)), 0, []
    for size, power in ((n_honest, 1.0), (10_000, 0.5), (6000, 1.0), (6000, 0.4)):
        for _ in range(size // 1000):
            status = monitor.update(*shifted(rng, 1000, k, power=power))
        n_rows += size
        ends.append(n_rows)
        assert len(status.changes) == len(ends) - 1
    for change, start in zip(status.changes, ends, strict=False):
        assert start < change < start + 2500
    assert status.changes_in_words().startswith(f"3, at rows {status.changes[0]:,}; ")


@pytest.mark.parametrize("k", [2, 3, 10])
def test_batches_change_nothing(k):
    rng = np.random.default_rng(2)
    p, y = shifted(rng, 1500, k, power=0.8)
    groups = rng.choice(["north", "south"], 1500)
    weight = rng.uniform(0.2, 1.0, 1500)
    time = np.arange(1500)  # within a batch, rows count in the order of time
    whole = CalibrationMonitor().update(p, y, time, weight, groups)
    parts, start = CalibrationMonitor(classes=range(k)), 0
    while start < 1500:
        rows = slice(start, start + int(rng.choice([1, 7, 400])))
        part = parts.update(p[rows], y[rows], time[rows], weight[rows], groups[rows])
        start = rows.stop
    assert part.log_e_value == pytest.approx(whole.log_e_value, abs=1e-9)
    assert part.alarm_row == whole.alarm_row
    assert part.changes == whole.changes
    assert part.gap == pytest.approx(whole.gap)
    assert part.groups["north"] == pytest.approx(whole.groups["north"])


class Given(Bet):
    """A bet on probabilities that are told beforehand."""

    ridge, limits = 1.0, (0.0, 0.0)

    def __init__(self, told):
        super().__init__(1, math.inf)
        self.told, self.n_rows = told, 0

    def log_ratio(self, block):
        rows = slice(self.n_rows, self.n_rows + len(block.label))
        self.n_rows = rows.stop
        return np.log(self.told[rows][np.arange(len(block.label)), block.label]) - block.of_label


PUBLISHED = COLLECTION / "time" / "precip_evalues_lag1.csv.gz"
FORECASTS = {"HCLR": "pop_hclr", "HCLR['-']": "pop_hclr_noscale", "IDR": "pop_idr"}


@pytest.mark.skipif(not PUBLISHED.exists(), reason="published e-values are not here")
def test_published_e_values_are_reproduced():
    """Henzi and Ziegel bet on 0.75 a + 0.25 b against the mean of two rain forecasts a and b."""
    table = pd.read_csv(PUBLISHED).dropna()  # days without rain gauge or forecast
    found = table.groupby(["airport", "hypo"])
    assert len(found) == 12
    for (_, pair), rows in found:
        a, b = (rows[FORECASTS[name]].to_numpy() for name in pair.split("/"))
        chance, bet = 0.5 * (a + b), 0.75 * a + 0.25 * b
        told = Given(np.column_stack([1.0 - bet, bet]))
        p = np.column_stack([1.0 - chance, chance])
        block = block_of(p, rows["y"].to_numpy(np.int64), 1e-300)
        path = Evidence({"given": told}, no_bet=1e-300).count(block)
        published = rows["eval"].to_numpy()
        np.testing.assert_allclose(np.exp(path), published, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_few_false_alarms(k):
    """Of 25 honest streams at alpha = 0.05: more than six alarms have chance below 1 in 1,000."""
    alarms = 0
    for seed in range(25):
        rng = np.random.default_rng([k, seed])
        alarms += CalibrationMonitor(alpha=0.05).update(*honest(rng, 2000, k)).alarm
    assert alarms <= 6


@pytest.mark.parametrize("values", ["any", "nine", "one"])
def test_the_order_of_rows_in_a_batch_is_no_evidence(values):
    """Of 20 honest batches sorted by label each was an alarm; three have chance below 0.1 %."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng([8, seed])
        q = {"any": rng.random(600), "nine": rng.integers(1, 10, 600) / 10, "one": [0.3] * 600}
        p = np.column_stack([1.0 - np.array(q[values]), q[values]])
        y = (rng.random(600) < p[:, 1]).astype(int)
        for order in (np.argsort(y, kind="stable"), np.lexsort((p[:, 1], -y))):
            monitor = CalibrationMonitor(alpha=0.01, classes=[0, 1], run_length=1e6)
            status = monitor.update(p[order], y[order])
            alarms += status.alarm or len(status.changes) > 0
            monitor = CalibrationMonitor(alpha=0.01, classes=[0, 1], run_length=1e6)
            assert monitor.update(p[order], y[order], [5] * 600) == status
    assert alarms <= 2


def test_the_order_of_rows_is_that_of_time_or_none():
    rng = np.random.default_rng(9)
    p, y = shifted(rng, 800, 3, power=0.7)
    time, groups = rng.permutation(800), np.array(["a", "b"])[rng.integers(0, 2, 800)]
    plain, timed = (CalibrationMonitor().update(p, y, t, groups=groups) for t in (None, time))
    order = rng.permutation(800)
    for told, expected in ((None, plain), (time[order], timed)):
        again = CalibrationMonitor().update(p[order], y[order], told, groups=groups[order])
        assert again == expected
    rows = np.argsort(time)
    one_by_one = CalibrationMonitor(classes=range(3))
    for i in rows:
        status = one_by_one.update(p[[i]], y[[i]], groups=groups[[i]])
    assert status.log_e_value == pytest.approx(timed.log_e_value, abs=1e-9)
    assert abs(timed.log_e_value - plain.log_e_value) > 1e-6


@pytest.mark.parametrize("shift", ["power", "prior", "surprise"])
def test_a_shift_is_found(shift):
    rng = np.random.default_rng(5)
    monitor = CalibrationMonitor(alpha=0.01, run_length=50_000)
    assert not monitor.update(*honest(rng, 5000, 3)).alarm
    if shift == "power":
        p, y = shifted(rng, 3000, 3, power=0.5)
    elif shift == "prior":
        p, y = shifted(rng, 3000, 3, factor=[1.0, 1.0, 3.0])
    else:
        p, y = honest(rng, 3000, 3)
        p[::20] = [1.0, 0.0, 0.0]
        y[::20] = 2
    status = monitor.update(p, y)
    assert 5000 < status.alarm_row < 7500
    assert status.changes[0] > 5000
