import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from calibrant._kernels.monotone_spline import find_bounds, spline_softmax

M, K = 30, 6
KNOTS = np.array([-4.0, -2.5, -1.0, -0.25])
SLOPES = np.array([0.7, 1.3, 0.2, 2.0, 0.9])


def data(seed=0):
    rng = np.random.default_rng(seed)
    values = np.sort(log_softmax(rng.normal(0, 2, (M, K)), axis=1), axis=1)
    return values, rng.integers(0, K, M), rng.dirichlet(np.ones(M))


def bounds_of(values, knots=KNOTS):
    out = np.empty((len(values), len(knots) + 2), dtype=np.int32)
    find_bounds(values, knots, out)
    return out


def features(values, knots=KNOTS):
    """f_b(v), as the kernel's docstring defines them."""
    lengths = np.append(np.diff(knots), np.inf)
    above = np.clip(values[..., None] - knots, 0.0, lengths)
    return np.concatenate([np.minimum(values[..., None] - knots[0], 0.0), above], axis=-1)


def test_bounds_are_counts_below_the_knots():
    values = data()[0]
    values[0] = [-9.0, -4.0, -4.0, -2.5, -0.25, 0.0]  # at the knots: above them
    bounds = bounds_of(values)
    for row, found in zip(values, bounds, strict=True):
        np.testing.assert_array_equal(found[1:-1], np.searchsorted(row, KNOTS))
    assert (bounds[:, 0] == 0).all()
    assert (bounds[:, -1] == K).all()


def test_predictions_are_the_softmax_of_theta_in_place_and_not():
    values = np.random.default_rng(5).permuted(data()[0], axis=1)
    out = np.empty_like(values)
    spline_softmax(values, KNOTS, SLOPES, out)
    np.testing.assert_allclose(out, softmax(features(values) @ SLOPES, axis=1), rtol=1e-12)
    spline_softmax(values, KNOTS, SLOPES, values)
    assert values.tobytes() == out.tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_rounding_breaks_no_order_at_the_knots(seed):
    """The floats next to each knot, on both sides."""
    rng = np.random.default_rng(seed)
    knots = np.sort(rng.uniform(-8, 0, 6))
    slopes = 10 ** rng.uniform(-3, 3, 7)
    close = [knots]
    for _ in range(3):
        close = [np.nextafter(close[0], -np.inf), *close, np.nextafter(close[-1], np.inf)]
    values = np.sort(np.concatenate(close))[None]
    out = np.empty_like(values)
    spline_softmax(values, knots, slopes, out)
    assert (np.diff(out[0]) >= 0).all()
