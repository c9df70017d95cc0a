"""A fit that predicts a class more or less often than it comes says so, and an honest one not."""

import warnings

import numpy as np
import pytest

import calibrant
from calibrant import (
    Chain,
    NormalizationAwareIsotonic,
    StructuredScaling,
    TemperatureScaling,
)
from calibrant._calibrators import class_balance
from calibrant._calibrators.class_balance import find_wrong_share, sample_of
from calibrant._gate._simplex import SimplexBatch
from calibrant.errors import ClassShareWarning
from conftest import simulate

SHARED = [
    TemperatureScaling,
    NormalizationAwareIsotonic,
    calibrant.FlattenedIsotonic,
    calibrant.SortedCumulativeIsotonic,
    calibrant.MonotoneSpline,
]


def balanced(n_rows=2000, seed=0):
    """Two classes, 6 % positives, of a model whose class weights make them even."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-3.8, 1.7, n_rows)
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(int)
    p = 1 / (1 + np.exp(-logit - 2.8))
    return np.column_stack([1 - p, p]), y


def batch_of(p, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    return SimplexBatch(p, "probabilities", y, weight, np.arange(p.shape[1]))


@pytest.mark.parametrize("method", SHARED)
def test_one_map_for_two_classes_cannot_move_their_shares(method):
    p, y = balanced()
    with pytest.warns(ClassShareWarning) as caught:
        method().fit(p, np.array(["no", "yes"])[y])
    (warning,) = caught
    text = str(warning.message)
    assert warning.filename == __file__
    for said in (
        "class 'yes'",
        f"a share of {y.mean():.3g} in",
        method.__name__,
        "'auto'",
        "'structured'",
    ):
        assert said in text


def test_it_is_said_once_of_the_whole_and_not_of_its_parts():
    p, y = balanced()
    with pytest.warns(ClassShareWarning) as caught:
        Chain([TemperatureScaling(), NormalizationAwareIsotonic()], cv=3).fit(p, y)
    assert len(caught) == 1
    Chain([TemperatureScaling(), StructuredScaling()]).fit(p, y)


def wrong_share(batch):
    """What is said of a fit that changes nothing."""
    some = sample_of(batch)
    return find_wrong_share(some, some.scores)


@pytest.mark.parametrize("n_classes", [2, 4, 30])
@pytest.mark.parametrize("method", [TemperatureScaling, NormalizationAwareIsotonic])
def test_honest_scores_are_left_alone(method, n_classes):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassShareWarning)
        for seed in range(10):
            p, y = simulate(500, n_classes, seed)
            method(classes=np.arange(n_classes)).fit(p, y)


def test_the_rate_of_false_alarms_is_below_what_is_said(monkeypatch):
    """Asked for one in ten instead of one in ten thousand, so that there is something to count."""
    monkeypatch.setattr(class_balance, "FALSE_ALARMS", 0.1)
    rng = np.random.default_rng(0)
    n_alarms, n_sets = 0, 400
    for _ in range(n_sets):
        p = rng.dirichlet(np.full(5, 0.3), 200)
        y = (p.cumsum(axis=1) > rng.random((200, 1))).argmax(axis=1)
        weight = rng.choice([0.5, 1.0, 3.0], 200)
        n_alarms += wrong_share(batch_of(p, y, weight)) is not None
    assert n_alarms <= 0.1 * n_sets


def test_a_difference_that_many_rows_prove_is_seen_and_one_of_few_is_not():
    p, y = balanced(40_000)
    few = wrong_share(batch_of(p[:12], y[:12]))
    many = wrong_share(batch_of(p, y))
    assert few is None
    assert many.column == 1
    assert many.predicted == pytest.approx(p[:, 1].mean(), abs=0.01)
    assert many.observed == pytest.approx(y.mean(), abs=0.005)


def test_classes_without_a_label_are_left_out():
    """As of a calibration set without one of the classes that a network knows."""
    p, y = simulate(3000, 4)
    keep = y != 3
    TemperatureScaling(classes=np.arange(4)).fit(p[keep], y[keep])
