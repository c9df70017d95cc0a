import mpmath
import numpy as np

from calibrant.kernels.softmax import row_sums, scaled_softmax


def test_agrees_with_fifty_digits():
    rng = np.random.default_rng(0)
    for scale in (0.1, 3.0, 50.0):
        gaps = np.sort(-rng.exponential(scale, (6, 4)), axis=1)
        n_zeros = np.array([0, 0, 1, 2, 3, 0])
        out = np.empty((3, 6))
        row_sums(gaps, n_zeros, 0.7, *out)
        for i, row in enumerate(gaps):
            with mpmath.workdps(50):
                cells = [mpmath.mpf(float(d)) for d in row[n_zeros[i] :]]
                want = [
                    float(mpmath.fsum(d**n * mpmath.exp(mpmath.mpf("0.7") * d) for d in cells))
                    for n in range(3)
                ]
            np.testing.assert_allclose(out[:, i], want, rtol=1e-13)


def test_underflow_is_harmless():
    out = np.empty((3, 1))
    row_sums(np.array([[-2e5, -1e5, 0.0]]), np.array([0]), 1.0, *out)
    np.testing.assert_allclose(out.ravel(), [1.0, 0.0, 0.0], atol=1e-290)


def test_softmax_may_overwrite_its_input():
    z = np.random.default_rng(1).normal(size=(20, 5))
    out = np.empty_like(z)
    scaled_softmax(z, 0.3, out)
    scaled_softmax(z, 0.3, z)
    assert z.tobytes() == out.tobytes()
