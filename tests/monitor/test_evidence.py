"""The e-process: what it promises, against exact expectations and brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from calibrant.monitor import CalibrationMonitor
from calibrant.monitor._evidence import Bet, Evidence, make_bets, make_block
from conftest import DATA
from monitor.streams import calibrated, shifted


@pytest.mark.parametrize("k", [2, 3, 10, 20])
def test_every_bet_is_fair(k):
    """The mean of q(y) / p(y) under p is 1, and at most 1 below the floor."""
    rng = np.random.default_rng(k)
    bets = make_bets(k)
    for _ in range(5):
        p, y = shifted(rng, 200, k, power=0.6)
        for bet in bets.values():
            bet.log_ratio(make_block(p, y))
            bet.learn(200.0)
    rows = np.concatenate([0.99 * p[:20] + 0.01 / k, np.eye(k)[:1], np.full((1, k), 1.0 / k)])
    for bet in bets.values():
        mean = np.zeros(len(rows))
        for c in range(k):
            ratio = bet.log_ratio(make_block(rows, np.full(len(rows), c)))
            mean += rows[:, c] * np.exp(ratio)
        assert np.all(mean <= 1.0 + 1e-12)
        assert np.all(mean[:20] > 1.0 - 1e-12)


def test_wealth_is_a_martingale_over_all_outcomes():
    """Over all labels of six rows the mean of the wealth is 1; bets learn between them."""
    p = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5], [0.9, 0.1], [0.4, 0.6], [0.55, 0.45]])
    rng = np.random.default_rng(0)
    past = shifted(rng, 15, 2, power=0.4)  # five rows later, bets learn
    total, largest = Fraction(0), 0.0
    for y in itertools.product([0, 1], repeat=6):
        evidence = Evidence(make_bets(2))
        start = evidence.count(make_block(*past))[-1]
        path = evidence.count(make_block(p, np.array(y)))
        chance = Fraction(1)
        for row, label in zip(p, y, strict=True):
            chance *= Fraction(row[label])
        total += chance * Fraction(math.exp(path[-1] - start))
        largest = max(largest, path[-1] - start)
    assert abs(float(total) - 1.0) < 1e-12
    assert largest > 0.05  # something was bet


def test_detector_is_the_recursion():
    """R is (R + 1) q(y) / p(y), row by row; rows counted at once give the same change."""
    rng = np.random.default_rng(1)
    p, y = shifted(rng, 1500, 3, power=0.5)
    evidence = Evidence(make_bets(3), run_length=5000.0)
    sums, row = np.zeros(4), 0
    while evidence.change_row is None:
        block = make_block(p[row : row + 1], y[row : row + 1])
        bets = [bet for bet in evidence.bets.values() if bet.half_life < math.inf]
        before = [(bet.gradient.copy(), bet.hessian.copy()) for bet in bets]
        sums = (sums + 1.0) * np.exp([bet.log_ratio(block)[0] for bet in bets])
        for bet, (gradient, hessian) in zip(bets, before, strict=True):
            bet.gradient[...], bet.hessian[...] = gradient, hessian
        evidence.count(block)
        np.testing.assert_allclose(evidence.sums, sums, rtol=1e-9)
        row += 1
    assert sums.mean() >= 5000.0
    assert 100 < row == evidence.change_row < 1500
    whole = Evidence(make_bets(3), run_length=5000.0)
    whole.count(make_block(p, y))
    assert whole.change_row == row


@pytest.mark.parametrize("k", [2, 3, 10])
def test_batches_change_nothing(k):
    rng = np.random.default_rng(2)
    p, y = shifted(rng, 1500, k, power=0.8)
    time = np.arange(1500)  # within a batch, rows count in the order of time
    whole = CalibrationMonitor().update(p, y, time)
    parts, start = CalibrationMonitor(classes=range(k)), 0
    while start < 1500:
        rows = slice(start, start + int(rng.choice([1, 7, 400])))
        part = parts.update(p[rows], y[rows], time[rows])
        start = rows.stop
    assert part.log_e_value == pytest.approx(whole.log_e_value, abs=1e-9)
    assert (part.alarm_row, part.change_row) == (whole.alarm_row, whole.change_row)
    assert part.gap == pytest.approx(whole.gap)


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


PUBLISHED = DATA / "time" / "precip_evalues_lag1.csv.gz"
FORECASTS = {"HCLR": "pop_hclr", "HCLR['-']": "pop_hclr_noscale", "IDR": "pop_idr"}


@pytest.mark.collection
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
        block = make_block(p, rows["y"].to_numpy(np.int64), 1e-300)
        path = Evidence({"given": told}, no_bet=1e-300).count(block)
        published = rows["eval"].to_numpy()
        np.testing.assert_allclose(np.exp(path), published, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_few_false_alarms(k):
    """Of 25 streams at alpha = 0.05: more than six alarms have chance below 1 in 1,000."""
    alarms = 0
    for seed in range(25):
        rng = np.random.default_rng([k, seed])
        alarms += CalibrationMonitor(alpha=0.05).update(*calibrated(rng, 2000, k)).alarm
    assert alarms <= 6


@pytest.mark.parametrize("values", ["any", "nine", "one"])
def test_the_order_of_rows_in_a_batch_is_no_evidence(values):
    """Of 20 calibrated batches sorted by label each was an alarm; three have chance below 0.1 %."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng([8, seed])
        q = {"any": rng.random(600), "nine": rng.integers(1, 10, 600) / 10, "one": [0.3] * 600}
        p = np.column_stack([1.0 - np.array(q[values]), q[values]])
        y = (rng.random(600) < p[:, 1]).astype(int)
        for order in (np.argsort(y, kind="stable"), np.lexsort((p[:, 1], -y))):
            monitor = CalibrationMonitor(alpha=0.01, classes=[0, 1])
            status = monitor.update(p[order], y[order])
            alarms += status.alarm or status.change_row is not None
            monitor = CalibrationMonitor(alpha=0.01, classes=[0, 1])
            assert monitor.update(p[order], y[order], [5] * 600) == status
    assert alarms <= 2


def test_the_order_of_rows_is_that_of_time_or_none():
    rng = np.random.default_rng(9)
    p, y = shifted(rng, 800, 3, power=0.7)
    time = rng.permutation(800)
    plain, timed = (CalibrationMonitor().update(p, y, t) for t in (None, time))
    order = rng.permutation(800)
    for told, expected in ((None, plain), (time[order], timed)):
        assert CalibrationMonitor().update(p[order], y[order], told) == expected
    one_by_one = CalibrationMonitor(classes=range(3))
    for i in np.argsort(time):
        status = one_by_one.update(p[[i]], y[[i]])
    assert status.log_e_value == pytest.approx(timed.log_e_value, abs=1e-9)
    assert abs(timed.log_e_value - plain.log_e_value) > 1e-6


@pytest.mark.parametrize("shift", ["power", "prior", "surprise"])
def test_a_shift_is_found_and_told(shift):
    rng = np.random.default_rng(5)
    monitor = CalibrationMonitor(alpha=0.01, run_length=50_000)
    status = monitor.update(*calibrated(rng, 5000, 3))
    assert not status.alarm
    assert 0.8 < status.power < 1.2
    if shift == "power":
        p, y = shifted(rng, 3000, 3, power=0.5)
    elif shift == "prior":
        p, y = shifted(rng, 3000, 3, factor=[1.0, 1.0, 3.0])
    else:
        p, y = calibrated(rng, 3000, 3)
        p[::20] = [1.0, 0.0, 0.0]
        y[::20] = 2
    status = monitor.update(p, y)
    assert 5000 < status.alarm_row < 7500
    assert status.change_row > 5000
    assert (0.4 < status.power < 0.6) == (shift == "power")
    assert (status.class_factors[2] > 2 * max(status.class_factors[:2])) == (shift == "prior")
