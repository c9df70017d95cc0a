"""What is given by row, with the index of the scores in another order, is no rows of theirs."""

import itertools

import numpy as np
import pandas as pd
import pytest

from calibrant import AutoCalibrator, FeatureCalibrator, GroupedCalibrator, TemperatureScaling
from calibrant._gate import _plausibility as plausibility
from calibrant.errors import LabelError, ShapeError, WeightError
from calibrant.metrics import (
    calibration_segments,
    confidence_ece,
    evaluate,
    negative_log_likelihood,
)
from calibrant.report import compare
from conftest import simulate

P, Y = simulate(300, 3)
SCORES = pd.DataFrame(P, index=np.arange(300) + 7)
LABELS = pd.Series(Y, index=SCORES.index)
MIXED = np.random.default_rng(0).permutation(300)
WEIGHT = pd.Series(np.linspace(1.0, 2.0, 300), index=SCORES.index)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_labels_in_another_order_are_refused(kind):
    scores = SCORES if kind == "probabilities" else np.log(SCORES)
    with pytest.raises(LabelError) as caught:
        TemperatureScaling(scores=kind).fit(scores, LABELS.iloc[MIXED])
    assert (caught.value.argument, caught.value.remedy) == ("y", "pass y.loc[scores.index]")


def test_rare_positives_in_another_order_are_refused():
    rng = np.random.default_rng(1)
    p = pd.Series(rng.beta(0.2, 8.0, 5000))
    y = pd.Series((rng.random(5000) < p).astype(int))
    with pytest.raises(LabelError):
        TemperatureScaling(scores="positive").fit(p, y.sample(frac=1.0, random_state=0))


def test_metrics_refuse_them_in_their_own_words():
    with pytest.raises(LabelError) as caught:
        confidence_ece(LABELS.iloc[MIXED], SCORES)
    assert caught.value.remedy == "pass y_true.loc[y_proba.index]"


def test_weights_in_another_order_are_refused():
    with pytest.raises(WeightError) as caught:
        TemperatureScaling().fit(SCORES, LABELS, sample_weight=WEIGHT.iloc[MIXED])
    assert caught.value.argument == "sample_weight"


@pytest.mark.parametrize("argument", ["groups", "features"])
def test_groups_and_features_in_another_order_are_refused(argument):
    inner = TemperatureScaling()
    calibrator = GroupedCalibrator(inner) if argument == "groups" else FeatureCalibrator(inner)
    given = pd.Series(np.arange(300) % 3, index=SCORES.index, name="third")
    given = given if argument == "groups" else given.to_frame()
    fitted = calibrator.fit(SCORES, LABELS, **{argument: given})
    for action in (calibrator.fit, fitted.predict_proba):
        rows = (SCORES, LABELS) if action == calibrator.fit else (SCORES,)
        with pytest.raises(ShapeError) as caught:
            action(*rows, **{argument: given.iloc[MIXED]})
        assert caught.value.argument == argument
    with pytest.raises(ShapeError):
        AutoCalibrator().fit(SCORES, LABELS, groups=LABELS.iloc[MIXED])
    fresh = pd.DataFrame(P)  # scores that are numbered anew stand in the order of the groups
    assert fitted.predict_proba(fresh, **{argument: given}).shape == P.shape


@pytest.mark.parametrize(
    ("metric", "argument"), [(evaluate, "groups"), (calibration_segments, "features")]
)
def test_metrics_refuse_groups_and_features_in_another_order(metric, argument):
    given = (LABELS if argument == "groups" else LABELS.to_frame("own")).iloc[MIXED]
    with pytest.raises(ShapeError) as caught:
        metric(LABELS, SCORES, **{argument: given})
    assert caught.value.argument == argument
    assert caught.value.remedy.startswith(f"pass {argument}.loc[y_true.index]")


def test_a_comparison_refuses_groups_in_another_order():
    two = {"groups_val": LABELS, "groups_test": LABELS.iloc[MIXED]}
    with pytest.raises(ShapeError) as caught:
        compare(LABELS, SCORES, LABELS, SCORES, ["ts"], **two)
    assert caught.value.argument == "groups_test"


def test_standard_errors_are_those_of_all_orders():
    """Every order of the labels of six rows: mean 0 and variance 1."""
    scores = np.random.default_rng(3).dirichlet([1.0] * 3, 6)
    orders = [np.array(order) for order in itertools.permutations([0, 0, 1, 1, 1, 2])]
    found = np.array(plausibility._agreement(scores, *orders))
    np.testing.assert_allclose([found.mean(), found.var()], [0.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sixty_rows_are_enough(n_classes):
    p, y = simulate(60, n_classes)
    index = [f"row {i}" for i in range(60)]
    labels = pd.Series(y, index=index)
    with pytest.raises(LabelError):
        negative_log_likelihood(labels.iloc[::-1], pd.DataFrame(p, index=index))


def test_rows_that_are_in_order_are_fitted_by_position():
    """Whatever their index is: a classifier's output is numbered anew, or has none."""
    expected = TemperatureScaling().fit(P, Y).temperature_
    mixed = SCORES.iloc[MIXED], LABELS.iloc[MIXED]
    fresh = pd.DataFrame(P[MIXED])  # 0, 1, 2, ... beside labels that were shuffled
    shuffled = pd.Series(Y).iloc[MIXED]
    counted = pd.Series(np.ones(300))
    for scores, y, weight in (
        (SCORES, LABELS, WEIGHT * 0.0 + 1.0),
        (*mixed, None),
        (fresh, shuffled, None),
        (fresh, shuffled, counted),
        (P[MIXED], shuffled, None),
        (SCORES, pd.Series(Y), None),
        (SCORES, Y.tolist(), None),
    ):
        fitted = TemperatureScaling().fit(scores, y, sample_weight=weight)
        assert fitted.temperature_ == pytest.approx(expected, rel=1e-9)


def test_scores_that_tell_nothing_refuse_no_order():
    """Labels that agree with the scores in neither order are no mistake of the index."""
    noise = pd.DataFrame(np.random.default_rng(2).dirichlet([3.0] * 3, 300))
    y = pd.Series(Y).iloc[MIXED]
    assert negative_log_likelihood(y, noise) > 1.0
