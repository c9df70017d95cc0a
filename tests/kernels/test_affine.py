import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import log_softmax

from calibrant.kernels.softmax import affine_rows, vector_likelihood


def data():
    rng = np.random.default_rng(0)
    return rng.normal(0, 2, (40, 5)), rng.integers(0, 5, 40), rng.dirichlet(np.ones(40))


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
