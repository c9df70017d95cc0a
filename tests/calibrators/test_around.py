"""Rows of which each has some of the options only: what is absent stays so, and counts not."""

import copy
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import clone

import calibrant
from calibrant import MaskedCalibrator, TemperatureScaling, model_file
from calibrant._calibrators.around import CAPABLE
from calibrant._maps.base import MaskedMap, Stage
from calibrant._maps.logits import TemperatureMap
from calibrant.errors import LabelError, ParameterError
from calibrant.metrics import negative_log_likelihood
from conftest import methods_alone, refuses

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
K = 5


def questions(n_rows, seed=0, widths=(2, 3, 4, 5), bias=0.0):
    """Over-confident logits of questions with 2 to 5 options, of which the first is favoured."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n_rows, K))
    absent = np.arange(K) >= rng.choice(widths, n_rows)[:, None]
    honest = np.exp(np.where(absent, -np.inf, logits))
    honest /= honest.sum(axis=1, keepdims=True)
    y = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    logits = 2.0 * logits + bias * (np.arange(K) == 0)
    return np.where(absent, -np.inf, logits), y


def fit(part, z, y, weight=None, **options):
    made = MaskedCalibrator(part, scores="logits", classes=np.arange(K), **options)
    return made.fit(z, y, sample_weight=weight)


@pytest.mark.parametrize("method", CAPABLE)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_absent_options_have_nothing_before_and_after(method, kind):
    z, y = questions(300)
    rows = z if kind == "logits" else np.exp(log_softmax(z, axis=1))
    inner = methods_alone()[method]()
    made = MaskedCalibrator(inner, scores=kind, classes=np.arange(K)).fit(rows, y)
    out = made.predict_proba(rows)
    np.testing.assert_array_equal(out == 0.0, np.isneginf(z))
    np.testing.assert_allclose(out.sum(axis=1), 1.0, rtol=1e-14)
    assert not np.isneginf(z)[np.arange(300), made.predict(rows)].any()


@pytest.mark.parametrize("method", sorted({*methods_alone()} - {*CAPABLE}))
def test_other_methods_refuse_by_name(method):
    z, y = questions(50)
    with refuses("calibrator"):
        fit(methods_alone()[method](), z, y)


@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_with_it_is_refused_by_name(order):
    z, y = questions(100)
    stages = [MaskedCalibrator(TemperatureScaling()), calibrant.StructuredScaling()][::order]
    with refuses("calibrators"):
        calibrant.Chain(stages, scores="logits", classes=np.arange(K)).fit(z, y)


def test_the_temperature_is_that_of_the_options_that_are_there():
    """Against a general-purpose solver, which sums over present options alone."""
    z, y = questions(400)

    def loss(log_beta):
        return -log_softmax(np.exp(log_beta) * z, axis=1)[np.arange(400), y].mean()

    best = np.exp(
        minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).x
    )
    made = fit(TemperatureScaling(prior_strength=0), z, y)
    np.testing.assert_allclose(made.calibrator_.map_.inverse_temperature, best, rtol=1e-5)
    np.testing.assert_allclose(
        made.predict_proba(z), np.exp(log_softmax(best * z, axis=1)), atol=1e-5
    )


@pytest.mark.parametrize(
    ("method", "atol"),
    [("ts", 1e-4), ("fir", 1e-11), ("na-fir", 1e-4), ("spline", 0.01)],  # whose knots are others
)
def test_an_option_that_no_row_has_changes_nothing(method, atol):
    z, y = questions(600, widths=(4,))
    z = z[:, :4]
    plain = methods_alone()[method](scores="logits").fit(z, y).predict_proba(z)
    wide = np.column_stack([z, np.full(len(z), -np.inf)])
    found = fit(methods_alone()[method](), wide, y).predict_proba(wide)
    np.testing.assert_allclose(found[:, :4], plain, atol=atol)


def test_a_favoured_option_is_mended_by_terms_of_its_class():
    (z, y), (new, new_y) = questions(2000, bias=2.0), questions(2000, 1, bias=2.0)

    def loss(part):
        rows = fit(part, z, y).predict_proba(new)
        return negative_log_likelihood(new_y, rows, classes=np.arange(K))

    assert loss(calibrant.AutoCalibrator()) < loss(TemperatureScaling()) - 0.02
    assert loss(calibrant.StructuredScaling()) < loss(TemperatureScaling()) - 0.02


def test_a_label_on_an_absent_option_is_refused_with_its_row():
    z, y = questions(50)
    row = int(np.flatnonzero(np.isneginf(z[:, 4]))[0])
    with pytest.raises(LabelError, match=f"row {row} "):
        fit(TemperatureScaling(), z, np.where(np.arange(50) == row, 4, y))
    with refuses("min_probability"):
        fit(TemperatureScaling(), z, y, min_probability=0.1)
    with refuses("calibrator"):
        fit(3, z, y)


def test_model_files_keep_it():
    z, y = questions(200)
    for part in (None, TemperatureScaling(), calibrant.NormalizationAwareIsotonic()):
        made = fit(part, z, y)
        loaded = model_file.loads(model_file.dumps(made))
        np.testing.assert_array_equal(loaded.predict_proba(z), made.predict_proba(z))
        assert loaded.depth_ == made.depth_


@pytest.mark.parametrize("method", CAPABLE)
def test_a_weight_is_a_repetition(method):
    """Also where the weighted rows have another scale, which sets where absent options lie."""
    z, y = questions(80, seed=3)
    z[:8] *= 0.01
    weight = np.where(np.arange(80) < 8, 12, 1)
    made = fit(methods_alone()[method](), z, y, weight)
    twice = fit(methods_alone()[method](), np.repeat(z, weight, axis=0), np.repeat(y, weight))
    assert made.depth_ == twice.depth_
    np.testing.assert_allclose(made.predict_proba(z), twice.predict_proba(z), rtol=1e-9)


def test_rows_weights_and_copies():
    """The order of rows does not matter, weights are repetitions, and a copy is the same."""
    z, y = questions(200)
    made = fit(TemperatureScaling(), z, y)
    expected = made.predict_proba(z)
    order = np.random.default_rng(0).permutation(200)
    again = fit(TemperatureScaling(), z[order], y[order]).predict_proba(z)
    np.testing.assert_allclose(again, expected, atol=1e-9)
    twice = fit(TemperatureScaling(), np.vstack([z, z]), np.tile(y, 2)).predict_proba(z)
    heavy = clone(made).fit(z, y, np.full(200, 2.0)).predict_proba(z)
    np.testing.assert_allclose(heavy, twice, atol=1e-9)
    weight = np.r_[np.ones(200), 0.0]
    none = clone(made).fit(np.vstack([z, z[:1]]), np.r_[y, 0], weight).predict_proba(z)
    np.testing.assert_allclose(none, expected, atol=1e-12)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        np.testing.assert_array_equal(other.predict_proba(z), expected)
    assert clone(made).set_params(calibrator__tol=1e-6).calibrator.tol == 1e-6


def test_a_map_checks_itself():
    inside = Stage(TemperatureMap(1.0, -27.0, "logits"), 1e-12)
    with pytest.raises(ParameterError):
        MaskedMap(inside, -1.0)
    with pytest.raises(ParameterError):
        MaskedMap(Stage(TemperatureMap(1.0, -27.0), 1e-12), 10.0)
    rows = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    np.testing.assert_allclose(MaskedMap(inside, 100.0)(rows), rows, atol=1e-12)
