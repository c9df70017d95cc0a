import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from calibrant.kernels.rows import bounded_logs
from calibrant.kernels.softmax import (
    add_class_sums,
    common_curvature,
    curve_rows,
    map_logits,
    spread_rows,
    weighted_softmax,
)

M, K = 40, 5


def data(seed=0):
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(M))
    return rng.normal(0, 2, (M, K)), rng.normal(size=(M, K)), rng.integers(0, K, M), share


def mapped(u, x, theta):
    """Return alpha u + slope x + c, theta = (alpha, slope, c)."""
    out = np.zeros_like(u)
    map_logits(u, x, theta[0], theta[1 : K + 1], theta[K + 1 :], out)
    return out


@pytest.mark.parametrize("bound", [0.02, 1.0, 1e-300])
def test_bounded_logs_are_logs_of_what_they_say(bound):
    u = data()[0]
    out = np.empty_like(u)
    bounded_logs(u, bound, out)
    wanted = np.log(softmax(u, axis=1) + bound)
    np.testing.assert_allclose(out, wanted - wanted.mean(axis=1, keepdims=True), atol=1e-13)


def test_without_a_bound_logs_are_the_centred_logits_however_deep():
    u = np.array([[0.0, -2000.0, -1000.0]])
    out = np.empty_like(u)
    bounded_logs(u, 0.0, out)
    np.testing.assert_array_equal(out, [[1000.0, -1000.0, 0.0]])
    bounded_logs(u, 0.5, out)
    np.testing.assert_allclose(out[0, 1], np.log(0.5) - (np.log(1.5) + 2 * np.log(0.5)) / 3)


def test_weighted_softmax_and_its_loss():
    u, _, y, share = data()
    out = u.copy()
    loss = weighted_softmax(out, y, share)
    np.testing.assert_allclose(out, share[:, None] * softmax(u, axis=1), rtol=1e-13)
    np.testing.assert_allclose(loss, -share @ log_softmax(u, axis=1)[np.arange(M), y], rtol=1e-13)


def test_curved_rows_are_the_derivative_of_the_weighted_softmax():
    u, t, _, share = data()
    weighted = share[:, None] * softmax(u, axis=1)
    out = t.copy()
    curve_rows(weighted, share, out)
    step = 1e-6
    ahead, behind = softmax(u + step * t, axis=1), softmax(u - step * t, axis=1)
    np.testing.assert_allclose(out, share[:, None] * (ahead - behind) / (2 * step), atol=1e-10)


def test_products_are_the_transpose_of_the_map():
    """<map(theta), R> = <theta, products(R)> for any theta and R."""
    u, x, _, _ = data()
    rng = np.random.default_rng(1)
    theta, rows = rng.normal(size=2 * K + 1), rng.normal(size=(M, K))
    by_slope, by_intercept = np.zeros(K), np.zeros(K)
    by_alpha = add_class_sums(rows, u, x, by_slope, by_intercept)
    products = np.concatenate([[by_alpha], by_slope, by_intercept])
    np.testing.assert_allclose(np.vdot(mapped(u, x, theta), rows), theta @ products, rtol=1e-12)


def test_common_curvature_is_the_hessian_in_the_two_common_slopes():
    u, x, _, share = data()
    p = softmax(u, axis=1)
    out = np.ones((2, 2))
    out[1, 0] = 0.0
    common_curvature(share[:, None] * p, share, u, x, out)
    wanted = np.zeros((2, 2))
    for i in range(M):
        both = np.stack([u[i], x[i]])
        wanted += share[i] * both @ (np.diag(p[i]) - np.outer(p[i], p[i])) @ both.T
    np.testing.assert_allclose(out, wanted + 1.0, rtol=1e-12)


def test_spread_is_the_variance_of_each_label():
    u, _, _, share = data()
    p = softmax(u, axis=1)
    out = np.empty_like(u)
    spread_rows(share[:, None] * p, share, out)
    np.testing.assert_allclose(out, share[:, None] * p * (1 - p), rtol=1e-12)


def test_single_precision_rows_are_taken():
    u, x, _, share = data()
    p = softmax(u, axis=1)
    double, single = x.copy(), x.astype(np.float32)
    for t in (double, single):
        curve_rows(share[:, None] * p, share, t)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-7)
