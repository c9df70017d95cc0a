import numpy as np
import pytest
from sklearn.base import clone

from calibrant import Chain, FlattenedIsotonic, Mixture, TemperatureScaling, VectorScaling
from calibrant._calibrators.composition import out_of_fold
from calibrant._gate._simplex import check_batch
from calibrant.errors import ParameterError
from conftest import simulate


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


def test_parameters_of_parts_are_reachable(data):
    p, y = data
    chain = Chain([("first", VectorScaling()), TemperatureScaling()], cv=3)
    chain.set_params(first__ridge=0.5, temperaturescaling__tol=1e-6, cv=2)
    assert chain.get_params()["first__ridge"] == 0.5
    assert clone(chain).get_params()["temperaturescaling__tol"] == 1e-6
    chain.set_params(first=FlattenedIsotonic())
    assert isinstance(chain.fit(p, y).calibrators_[0], FlattenedIsotonic)
    both = {"calibrators": [("first", VectorScaling())], "first__ridge": 0.5}
    assert Chain([TemperatureScaling()]).set_params(**both).calibrators[0][1].ridge == 0.5
    twins = Mixture([TemperatureScaling(), TemperatureScaling()])
    twins.set_params(**{"temperaturescaling-2__tol": 1e-3})
    assert [part.tol for part in twins.calibrators] == [1e-10, 1e-3]


def test_nesting(data):
    p, y = data
    inner = Chain([VectorScaling(), FlattenedIsotonic()])
    nested = Mixture([VectorScaling(), inner])
    assert "chain__vectorscaling__ridge" in nested.get_params()
    np.testing.assert_allclose(nested.fit(p, y).predict_proba(p).sum(axis=1), 1)


def test_logits_go_to_the_first_stage_only(data):
    p, y = data
    chain = Chain([TemperatureScaling(), FlattenedIsotonic()], scores="logits")
    out = chain.fit(np.log(p), y).predict_proba(np.log(p))
    plain = Chain([TemperatureScaling(), FlattenedIsotonic()]).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out, plain, atol=5e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Chain([]), "empty"),
        (lambda: Chain([3]), "not a calibrator"),
        (lambda: Chain(3), "calibrators=3 must be a list"),
        (lambda: Mixture([("a", "b", "c")]), "not a calibrator"),
        (lambda: Chain([TemperatureScaling()], cv=1), "cv=1"),
        (lambda: Mixture([TemperatureScaling()], weights="best"), "'fixed', 'fit'"),
        (lambda: Mixture([TemperatureScaling()], weights=[1, 2]), "1 finite numbers"),
        (lambda: Mixture([TemperatureScaling()], weights=[-1]), "none negative"),
        (lambda: Mixture([TemperatureScaling()], weights=[np.nan]), "1 finite numbers"),
        (lambda: Mixture([TemperatureScaling()], weights="a"), "'fixed', 'fit'"),
    ],
)
def test_errors_help(data, make, message):
    with pytest.raises(ParameterError, match=message):
        make().fit(*data)
