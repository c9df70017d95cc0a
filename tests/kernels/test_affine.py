import numpy as np
from scipy.optimize import check_grad
from scipy.special import log_softmax, softmax

from calibrant.numba_kernels.affine import affine_rows, residuals, vector_likelihood


def data():
    rng = np.random.default_rng(0)
    return rng.normal(0, 2, (40, 5)), rng.integers(0, 5, 40), rng.dirichlet(np.ones(40))


def test_residuals_are_the_gradient_in_the_logits():
    z, y, share = data()
    out, loss = z.copy(), np.empty(40)
    residuals(out, y, share, loss)
    np.testing.assert_allclose(
        out, share[:, None] * (softmax(z, axis=1) - np.eye(5)[y]), atol=1e-16
    )
    np.testing.assert_allclose(loss, -log_softmax(z, axis=1)[np.arange(40), y], rtol=1e-13)


def test_vector_gradient_agrees_with_differences():
    z, y, share = data()
    grads = np.empty(5), np.empty(5)

    def loss(x):
        return vector_likelihood(z, y, share, x[:5], x[5:], *grads)

    def gradient(x):
        loss(x)
        return np.concatenate(grads)

    x = np.random.default_rng(1).normal(size=10)
    assert check_grad(loss, gradient, x) < 1e-6
    mapped = log_softmax(z * x[:5] + x[5:], axis=1)[np.arange(40), y]
    np.testing.assert_allclose(loss(x), -share @ mapped, rtol=1e-13)


def test_affine_rows_agree_with_a_product_and_with_themselves_one_by_one():
    rng = np.random.default_rng(0)
    z, w, b = rng.normal(size=(50, 20)), rng.normal(size=(20, 20)), rng.normal(size=20)
    out, one = np.empty_like(z), np.empty((1, 20))
    affine_rows(z, np.ascontiguousarray(w.T), b, out)
    np.testing.assert_allclose(out, z @ w.T + b, atol=1e-12)
    for i in range(50):
        affine_rows(z[i : i + 1], np.ascontiguousarray(w.T), b, one)
        assert one.tobytes() == out[i].tobytes()
