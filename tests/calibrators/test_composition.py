import numpy as np
import pytest
from sklearn.base import clone

from calibrant import Chain, FlattenedIsotonic, Mixture, TemperatureScaling, VectorScaling
from calibrant._calibrators.composition import out_of_fold
from calibrant._gate import check_batch
from conftest import refuses, simulate


@pytest.fixture(scope="module")
def data():
    return simulate(600, 4)


def test_a_chain_feeds_outputs_forward(data):
    p, y = data
    chain = Chain([VectorScaling(), FlattenedIsotonic()]).fit(p, y)
    middle = VectorScaling().fit(p, y).predict_proba(p)
    by_hand = FlattenedIsotonic().fit(middle, y).predict_proba(middle)
    np.testing.assert_array_equal(chain.predict_proba(p), by_hand)


def test_a_chain_with_cv_fits_the_second_stage_out_of_fold(data):
    p, y = data
    chain = Chain([VectorScaling(), FlattenedIsotonic()], cv=4).fit(p, y)
    batch = check_batch(p, y)
    outputs = out_of_fold(VectorScaling(), batch, batch.deal(4)[1])
    by_hand = FlattenedIsotonic().fit(outputs, y)
    np.testing.assert_array_equal(
        chain.calibrators_[1].step_function_.values, by_hand.step_function_.values
    )
    first = VectorScaling().fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(chain.predict_proba(p), by_hand.predict_proba(first))


def test_out_of_fold_predictions_come_from_other_rows(data):
    p, y = data
    batch = check_batch(p, y)
    folds = batch.deal(3)[1]
    outputs = out_of_fold(FlattenedIsotonic(), batch, folds)
    for fold in range(3):
        others = FlattenedIsotonic().fit(p[folds != fold], y[folds != fold])
        np.testing.assert_array_equal(
            outputs[folds == fold], others.predict_proba(p[folds == fold])
        )


def test_a_mixture_is_the_weighted_mean(data):
    p, y = data
    parts = [TemperatureScaling(), FlattenedIsotonic()]
    outs = [part.fit(p, y).predict_proba(p) for part in map(clone, parts)]
    fixed = Mixture(parts).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(fixed, (outs[0] + outs[1]) / 2, atol=1e-15)
    uneven = Mixture(parts, weights=[3, 1]).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(uneven, 0.75 * outs[0] + 0.25 * outs[1], atol=1e-15)


def test_nesting_and_pairs_with_names_as_in_files_of_1_0(data):
    p, y = data
    nested = Mixture([VectorScaling(), Chain([("first", VectorScaling()), FlattenedIsotonic()])])
    np.testing.assert_allclose(clone(nested).fit(p, y).predict_proba(p).sum(axis=1), 1)


def test_logits_go_to_the_first_stage_only(data):
    p, y = data
    chain = Chain([TemperatureScaling(), FlattenedIsotonic()], scores="logits")
    out = chain.fit(np.log(p), y).predict_proba(np.log(p))
    plain = Chain([TemperatureScaling(), FlattenedIsotonic()]).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out, plain, atol=5e-3)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Chain([]), "calibrators"),
        (lambda: Chain([3]), "calibrators"),
        (lambda: Chain(3), "calibrators"),
        (lambda: Mixture([("a", "b", "c")]), "calibrators"),
        (lambda: Chain([TemperatureScaling()], cv=1), "cv"),
        (lambda: Mixture([TemperatureScaling()], weights="best"), "weights"),
        (lambda: Mixture([TemperatureScaling()], weights=[1, 2]), "weights"),
        (lambda: Mixture([TemperatureScaling()], weights=[-1]), "weights"),
        (lambda: Mixture([TemperatureScaling()], weights=[np.nan]), "weights"),
    ],
)
def test_parameters_are_refused(data, make, argument):
    with refuses(argument):
        make().fit(*data)
