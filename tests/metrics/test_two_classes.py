"""Two classes are judged by the positive one: twelve ways to be wrong, and honest predictions."""

import numpy as np
import pytest

from calibrant import errors, metrics
from calibrant.metrics import (
    calibration_test,
    evaluate,
    positive_ece,
    reliability_curve,
    smooth_ece,
)

N_ROWS = 5000


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def shifted_by(points):
    return lambda z: np.clip(sigmoid(z) + points, 0.001, 0.999)


def balanced(share):
    """What class weights that make both classes count alike do to the odds."""
    return lambda z: sigmoid(z + np.log((1 - share) / share))


MISCALIBRATIONS = {
    "10 points too high": (0.0, shifted_by(0.1)),
    "10 points too low": (0.0, shifted_by(-0.1)),
    "odds doubled": (0.0, lambda z: sigmoid(z + np.log(2))),
    "odds halved": (-1.0, lambda z: sigmoid(z - np.log(2))),
    "slope 2": (0.0, lambda z: sigmoid(2 * z)),
    "slope 1.5": (0.0, lambda z: sigmoid(1.5 * z)),
    "slope 0.5": (0.0, lambda z: sigmoid(0.5 * z)),
    "rare, said twice as often": (-4.5, lambda z: 2 * sigmoid(z) / (1 + sigmoid(z))),
    "rare, said half as often": (-4.0, lambda z: sigmoid(z) / 2),
    "rare, slope 0.5": (-4.0, lambda z: sigmoid(0.5 * z)),
    "weights, 6 % positive": (-3.3, balanced(0.06)),
    "weights, 25 % positive": (-1.3, balanced(0.25)),
}
"""Middle of the true logits, and what is said of them."""

each = pytest.mark.parametrize("name", MISCALIBRATIONS)


def drawn(name):
    middle, says = MISCALIBRATIONS[name]
    rng = np.random.default_rng(0)
    z = rng.normal(middle, 1.5, N_ROWS)
    y = (rng.random(N_ROWS) < sigmoid(z)).astype(int)
    said = says(z)
    return y, np.column_stack([1 - said, said])


@each
def test_the_test_the_diagram_and_the_errors_see_it(name):
    y, said = drawn(name)
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


def test_the_positive_class_of_more_than_two_is_refused():
    y, said = np.arange(30) % 3, np.full((30, 3), 1 / 3)
    with pytest.raises(errors.ParameterError, match="metric='positive' is for two classes"):
        calibration_test(y, said, metric="positive")
    with pytest.raises(errors.ShapeError, match="use confidence_ece or classwise_ece"):
        positive_ece(y, said)
    assert calibration_test(y, said, n_resamples=9).metric == "confidence"
    assert evaluate(y, said, n_resamples=0).positive_ece is None
