"""Two classes are judged by the positive one: twelve ways to be wrong, and honest predictions."""

import numpy as np
import pytest

from calibrant import errors, metrics
from calibrant._cli.showing import evaluation_table
from calibrant.metrics import (
    calibration_test,
    evaluate,
    positive_ece,
    reliability_curve,
    smooth_ece,
)
from calibrant.report import compare

N_ROWS = 5000


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def shifted_by(points):
    return lambda z: np.clip(sigmoid(z) + points, 0.001, 0.999)


def balanced(share):
    """What class weights that make both classes count alike do to the odds."""
    return lambda z: sigmoid(z + np.log((1 - share) / share))


MISCALIBRATIONS = {
    "10 points too high": (0.0, shifted_by(0.1), "over-predicted"),
    "10 points too low": (0.0, shifted_by(-0.1), "under-predicted"),
    "odds doubled": (0.0, lambda z: sigmoid(z + np.log(2)), "over-predicted"),
    "odds halved": (-1.0, lambda z: sigmoid(z - np.log(2)), "under-predicted"),
    "slope 2": (0.0, lambda z: sigmoid(2 * z), "over-confident"),
    "slope 1.5": (0.0, lambda z: sigmoid(1.5 * z), "over-confident"),
    "slope 0.5": (0.0, lambda z: sigmoid(0.5 * z), "under-confident"),
    "rare, said twice as often": (-4.5, lambda z: 2 * sigmoid(z) / (1 + sigmoid(z)), "over-pred"),
    "rare, said half as often": (-4.0, lambda z: sigmoid(z) / 2, "under-predicted"),
    "rare, slope 0.5": (-4.0, lambda z: sigmoid(0.5 * z), "over-predicted"),
    "weights, 6 % positive": (-3.3, balanced(0.06), "over-predicted"),
    "weights, 25 % positive": (-1.3, balanced(0.25), "over-predicted"),
}
"""Middle of the true logits, what is said of them, and what the verdict has to call it."""

each = pytest.mark.parametrize("name", MISCALIBRATIONS)


def drawn(name, n_rows=N_ROWS, seed=0):
    middle, says, words = MISCALIBRATIONS[name]
    rng = np.random.default_rng(seed)
    z = rng.normal(middle, 1.5, n_rows)
    y = (rng.random(n_rows) < sigmoid(z)).astype(int)
    said = says(z)
    return y, np.column_stack([1 - said, said]), words


@each
def test_the_test_the_diagram_and_the_errors_see_it(name):
    y, said, _ = drawn(name)
    test = calibration_test(y, said)
    assert (test.metric, test.statistic) == ("positive", positive_ece(y, said))
    assert test.p_value < 0.01
    curve = reliability_curve(y, said)
    assert curve.kind == 1
    assert curve.p_value < 0.01
    outside = (curve.frequency < curve.consistency_low) | (curve.frequency > curve.consistency_high)
    assert curve.weight[outside].sum() > 0.3 * N_ROWS
    found = evaluate(y, said)
    assert found.positive_ece.low > 0.0
    assert smooth_ece(y, said) > test.null_mean


@each
def test_the_command_and_the_verdict_say_it(name):
    y, said, words = drawn(name)
    test, shares = calibration_test(y, said), metrics.class_shares(y, said)
    shown = evaluation_table("file", evaluate(y, said, n_resamples=20), test, shares).renderables
    told = "\n".join(map(str, shown[2:]))
    assert "\nCalibration test of class 1: p = 0.000999: it is not" in told
    other_y, other_said, _ = drawn(name, seed=1)
    verdict = compare(other_y, other_said, y, said, ["ts"], n_resamples=50).verdict
    assert verdict.chosen != "uncalibrated"
    assert words in verdict.headline
    assert "more than chance (p" in verdict.findings[0]
    predicted, observed = (f"{100 * part.mean():.1f} %" for part in (said[:, 1], y))
    is_told = "-pred" in words
    assert (f"say {predicted} where {observed} happen" in verdict.headline) == is_told
    assert (f"({predicted} predicted, {observed} observed" in told) >= is_told


def honest_rows(rng, n_rows, middle=-1.0):
    p = sigmoid(rng.normal(middle, 1.5, n_rows))
    return (rng.random(n_rows) < p).astype(int), np.column_stack([1 - p, p])


def test_honest_predictions_are_left_alone():
    """At the stated rate: of 60 tests at 5 %, more than 8 are rejected once in 250 times."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(60):
        y, said = honest_rows(rng, 600)
        found.append(calibration_test(y, said, n_resamples=99).p_value < 0.05)
        found.append(metrics.class_shares(y, said).p_holm.min() < 0.05)
    assert sum(found[::2]) <= 8
    assert sum(found[1::2]) <= 8


@pytest.mark.slow
def test_the_verdict_leaves_honest_predictions_alone():
    """With one method and p-values at 5 %: the rate of docs/guides/report.md."""
    rng = np.random.default_rng(4)
    chosen = []
    for _ in range(200):
        parts = [*honest_rows(rng, 1000), *honest_rows(rng, 1000)]
        chosen.append(compare(*parts, ["ts"], n_resamples=40).verdict.chosen)
    assert chosen.count("uncalibrated") >= 180


def test_the_positive_class_of_more_than_two_is_refused():
    y, said = np.arange(30) % 3, np.full((30, 3), 1 / 3)
    with pytest.raises(errors.ParameterError, match="metric='positive' is for two classes"):
        calibration_test(y, said, metric="positive")
    with pytest.raises(errors.ShapeError, match="use confidence_ece or classwise_ece"):
        positive_ece(y, said)
    assert calibration_test(y, said, n_resamples=9).metric == "confidence"
    assert evaluate(y, said, n_resamples=0).positive_ece is None
