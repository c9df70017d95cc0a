import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.base import clone

from calibrant import Chain, FlattenedIsotonic, Mixture, TemperatureScaling, VectorScaling
from calibrant._calibrators.composition import out_of_fold
from calibrant._calibrators.methods import make_calibrator
from calibrant._simplex import check_batch
from calibrant._solvers.mixture import solve_mixture
from calibrant.errors import ParameterError
from conftest import methods_alone, simulate


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


@pytest.mark.parametrize("cv", [None, 3])
def test_fitted_weights_are_no_worse_than_any_others(data, cv):
    p, y = data
    parts = [TemperatureScaling(), FlattenedIsotonic()]
    mixture = Mixture(parts, weights="fit", cv=cv).fit(p, y)
    assert mixture.weights_.sum() == pytest.approx(1)
    assert mixture.solver_report_.converged


@pytest.mark.parametrize("seed", range(5))
def test_mixture_weights_agree_with_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    own, weight = rng.random((80, 3)) ** 2, rng.uniform(0.5, 2, 80)
    found, report = solve_mixture(own, weight)

    def loss(w):
        return -np.average(np.log(own @ w), weights=weight)

    other = minimize(
        loss,
        np.full(3, 1 / 3),
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14},
    )
    assert report.converged
    assert loss(found) <= other.fun + 1e-9
    gradient = np.average(own / (own @ found)[:, None], axis=0, weights=weight)
    assert gradient.max() - 1 <= 1e-8


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


@pytest.mark.parametrize("anything", [3, None, "ts", [3], [("a", "b", "c")]])
def test_only_fit_refuses_parts(anything):
    """As scikit-learn asks of parameters."""
    chain = Chain([TemperatureScaling()]).set_params(calibrators=anything)
    assert chain.get_params()["calibrators"] is anything


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
    ],
)
def test_errors_help(data, make, message):
    with pytest.raises(ParameterError, match=message):
        make().fit(*data)


@pytest.mark.parametrize("weights", [[np.inf, 1], [np.nan, 1], [1, "a"], 2, None])
def test_weights_that_are_no_shares_are_refused(weights):
    parts = [TemperatureScaling(), FlattenedIsotonic()]
    with pytest.raises(ParameterError, match="2 finite numbers"):
        Mixture(parts, weights=weights).fit(*simulate(200, 3))


SHARED = [name for name, own in methods_alone().items() if own.same_for_all_classes]


@st.composite
def permuted_rows(draw):
    """Rows with many ties, labels, and an order of the columns."""
    n, k = draw(st.integers(4, 12)), draw(st.integers(3, 11))
    rows = draw(arrays(float, (n, k), elements=st.integers(1, 6))) ** draw(st.sampled_from([1, 3]))
    y = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    return rows / rows.sum(axis=1, keepdims=True), np.array(y), draw(st.permutations(range(k)))


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("first", SHARED)
@settings(max_examples=25)
@given(permuted_rows())
def test_ties_stay_ties_in_any_order_of_columns(first, kind, data):
    """A last bit that depends on the order of a sum would break ties, and change later stages."""
    rows, y, order = data
    scores = np.log(rows) if kind == "logits" else rows
    chain = Chain([make_calibrator(first), FlattenedIsotonic()])
    chain.set_params(scores=kind, classes=np.arange(len(order)))
    own = chain.fit(scores, y).predict_proba(scores)
    other = np.ascontiguousarray(scores[:, order])
    first_own = chain.calibrators_[0].predict_proba(scores)[:, order]
    other_out = chain.fit(other, np.argsort(order)[y]).predict_proba(other)
    np.testing.assert_array_equal(chain.calibrators_[0].predict_proba(other), first_own)
    np.testing.assert_array_equal(other_out, own[:, order])
