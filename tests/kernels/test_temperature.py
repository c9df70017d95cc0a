import mpmath
import numpy as np

from calibrant.kernels.temperature import row_likelihoods, scaled_softmax


def exact(row, label, beta):
    """NLL of one row and its derivatives in beta, in 50 digits."""
    with mpmath.workdps(50):

        def loss(b):
            total = mpmath.fsum(mpmath.exp(b * mpmath.mpf(float(z))) for z in row)
            return mpmath.log(total) - b * mpmath.mpf(float(row[label]))

        return [float(mpmath.diff(loss, mpmath.mpf(beta), n)) for n in range(3)]


def test_agrees_with_fifty_digits():
    rng = np.random.default_rng(0)
    for scale in (0.1, 3.0, 50.0):
        z, y = rng.normal(0, scale, (5, 4)), rng.integers(0, 4, 5)
        out = np.empty((3, 5))
        row_likelihoods(z, y, 0.7, *out)
        want = np.array([exact(row, label, 0.7) for row, label in zip(z, y, strict=True)]).T
        np.testing.assert_allclose(out, want, rtol=1e-9, atol=1e-12)


def test_underflow_is_harmless():
    out = np.empty((3, 1))
    row_likelihoods(np.array([[0.0, -1e5, -2e5]]), np.array([0]), 1.0, *out)
    np.testing.assert_allclose(out.ravel(), 0.0, atol=1e-290)


def test_softmax_may_overwrite_its_input():
    z = np.random.default_rng(1).normal(size=(20, 5))
    out = np.empty_like(z)
    scaled_softmax(z, 0.3, out)
    scaled_softmax(z, 0.3, z)
    assert z.tobytes() == out.tobytes()


def test_compiled_and_plain_agree_bitwise():
    z, y = np.random.default_rng(2).normal(size=(30, 4)), np.zeros(30, dtype=np.int64)
    fast, plain = np.empty((3, 30)), np.empty((3, 30))
    row_likelihoods(z, y, 1.3, *fast)
    row_likelihoods.py_func(z, y, 1.3, *plain)
    assert fast.tobytes() == plain.tobytes()
