import numpy as np
import pytest
from scipy.special import softmax

from calibrant._calibrators.scaling import MonotoneSpline, TemperatureScaling
from conftest import nll, simulate


def bent(n_rows, k=5, seed=0):
    """Scores whose honest version is a bent curve of their logarithms, and that version."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 3, (n_rows, k))
    z -= z.max(axis=1, keepdims=True)
    honest = softmax(np.where(z > -2, 0.3 * z, -0.6 + 2.0 * (z + 2)), axis=1)
    y = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    return softmax(z, axis=1), y, honest


def test_predictions_are_what_the_attributes_say():
    p, y, _ = bent(1000)
    calibrator = MonotoneSpline(min_probability=0).fit(p, y)
    knots, slopes = calibrator.knots_, calibrator.slopes_
    assert slopes.shape == (len(knots) + 1,)
    v = np.log(p)
    theta = slopes[0] * np.minimum(v - knots[0], 0) + slopes[-1] * np.maximum(v - knots[-1], 0)
    theta += np.interp(v, knots, np.append(0.0, np.cumsum(slopes[1:-1] * np.diff(knots))))
    np.testing.assert_allclose(calibrator.predict_proba(p), softmax(theta, axis=1), rtol=1e-10)


def test_a_bent_curve_is_found():
    p, y, honest = bent(4000)
    ours = MonotoneSpline().fit(p[:2000], y[:2000]).predict_proba(p[2000:])
    theirs = TemperatureScaling().fit(p[:2000], y[:2000]).predict_proba(p[2000:])
    best, y = honest[2000:], y[2000:]
    assert nll(ours, y) - nll(best, y) < 0.3 * (nll(theirs, y) - nll(best, y))


def test_a_straight_line_is_not_bent():
    p, y = simulate(3000, 6)
    ours, theirs = MonotoneSpline().fit(p, y), TemperatureScaling().fit(p, y)
    assert np.abs(ours.predict_proba(p) - theirs.predict_proba(p)).max() < 0.06


@pytest.mark.parametrize("strength", [1e9, np.inf])
def test_with_all_shrinkage_it_is_temperature_scaling(strength):
    p, y, _ = bent(800)
    ours = MonotoneSpline(strength=strength, prior_strength=0).fit(p, y)
    theirs = TemperatureScaling(prior_strength=0).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(p), atol=1e-5)


@pytest.mark.parametrize("strength", ["cv", 0.0])
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
def test_order_is_kept_strictly(strength):
    """No ties and no zeros, on new rows that reach far beyond the calibration set."""
    p, y, _ = bent(500)
    calibrator = MonotoneSpline(strength=strength, min_probability=0).fit(p, y)
    rng = np.random.default_rng(1)
    new = softmax(rng.normal(0, [[0.1], [1.0], [6.0]] * 100, (300, 5)), axis=1)
    out = calibrator.predict_proba(new)
    order = np.argsort(new, axis=1)
    assert (np.diff(np.take_along_axis(out, order, axis=1), axis=1) > 0).all()
    assert (out > 0).all()
