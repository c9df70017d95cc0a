import mpmath
import numpy as np
import pytest
from scipy.special import softmax

from calibrant._kernels.rows import FINE, NOT_FINITE, bounded_logs, log_rows, scan_probabilities
from calibrant._kernels.softmax import (
    affine_rows,
    common_curvature,
    row_sums,
    scaled_softmax,
)


def exact(z):
    """Softmax in extended precision where there is one."""
    z = z.astype(np.longdouble)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3, 7, 8, 9, 100, 3000])
def test_rows_are_the_softmax_of_what_they_are_mapped_to(n_classes):
    rng = np.random.default_rng(n_classes)
    z = rng.normal(0, 5, (30, n_classes))
    out = np.empty_like(z)
    scaled_softmax(z, 0.7, out)
    np.testing.assert_allclose(out, exact(0.7 * z).astype(float), rtol=2e-14)
    np.testing.assert_allclose(out.sum(axis=1), 1, rtol=1e-14)


def test_a_row_is_the_same_in_any_chunk_and_in_place():
    z = np.random.default_rng(0).normal(0, 5, (500, 13))
    whole, one = np.empty_like(z), np.empty_like(z)
    scaled_softmax(z, 0.7, whole)
    for i in range(len(z)):
        scaled_softmax(z[i : i + 1], 0.7, one[i : i + 1])
    assert whole.tobytes() == one.tobytes()
    scaled_softmax(z, 0.7, z)
    assert whole.tobytes() == z.tobytes()


def test_what_is_deeper_than_vectors_reach_is_subnormal_or_zero():
    out = np.empty((1, 4))
    scaled_softmax(np.array([[0.0, -707.0, -720.0, -1e100]]), 1.0, out)
    assert out[0, 0] == 1.0
    np.testing.assert_allclose(out[0, 1:3], np.exp([-707.0, -720.0]), rtol=1e-6)
    assert out[0, 3] == 0.0


def test_one_large_and_many_small_terms_add_up():
    n = 100_000
    z = np.full((1, n), np.log(2.0**-53))
    z[0, 17] = 0.0
    out = np.empty_like(z)
    scaled_softmax(z, 1.0, out)
    assert out[0, 17] == pytest.approx(1 / (1 + (n - 1) * 2.0**-53), rel=1e-15)


def test_logarithms_of_rows_are_bounded_below():
    rows, out = np.array([[0.0, 1e-320, 0.25], [1.0, 1e-13, 1e-11]]), np.empty((2, 3))
    log_rows(rows, np.log(1e-12), out)
    np.testing.assert_allclose(out, np.log([[1e-12, 1e-12, 0.25], [1, 1e-12, 1e-11]]), rtol=1e-15)
    log_rows(rows, -1000.0, out)
    np.testing.assert_allclose(out[0], [-1000.0, np.log(1e-320), np.log(0.25)], rtol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 8, 9, 31])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_every_cell_is_looked_at(n_classes, bad):
    for j in range(n_classes):
        rows = np.full((3, n_classes), 1 / n_classes)
        assert scan_probabilities(rows, 1e-6, 1e-3)[0] == FINE
        rows[1, j] = bad
        assert scan_probabilities(rows, 1e-6, 1e-3)[:3] == (NOT_FINITE, 1, j)


def exponentials(x):
    """Exp of each number as kernels have it: the sum of a row with one cell."""
    out = np.empty((3, len(x)))
    row_sums(x[:, None], np.zeros(len(x), dtype=np.int64), 1.0, *out)
    return out[0]


def test_within_two_ulp_of_the_exact_value():
    x = -np.concatenate([np.linspace(0, 708, 4000), np.logspace(-18, 2.8, 2000)])
    with mpmath.workdps(40):
        exact = np.array([float(mpmath.exp(mpmath.mpf(float(v)))) for v in x])
    np.testing.assert_array_max_ulp(exponentials(x), exact, maxulp=2)


@pytest.mark.parametrize("k", [1, 2, 5, 20, 131, 300])
def test_affine_rows_add_up_in_the_order_of_the_classes_whatever_the_other_rows_are(k):
    rng = np.random.default_rng(k)
    z, w, b = rng.normal(size=(37, k)), rng.normal(size=(k, k)), rng.normal(size=k)
    wanted = np.tile(b, (37, 1))
    for j in range(k):
        wanted += z[:, j : j + 1] * w[:, j]
    by_class = np.ascontiguousarray(w.T)
    for n_rows in (37, 36, 8, 5, 1, 0):
        out = np.empty((n_rows, k))
        affine_rows(z[:n_rows], by_class, b, out)
        assert out.tobytes() == wanted[:n_rows].tobytes()


M, K = 40, 5


def data(seed=0):
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(M))
    return rng.normal(0, 2, (M, K)), rng.normal(size=(M, K)), rng.integers(0, K, M), share


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
