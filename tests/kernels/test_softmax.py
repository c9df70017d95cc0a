import numpy as np
import pytest

from calibrant.kernels.rows import FINE, NOT_FINITE, log_rows, scan_probabilities
from calibrant.kernels.softmax import scaled_softmax, vector_softmax


def exact(z):
    """Softmax in extended precision where there is one."""
    z = z.astype(np.longdouble)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3, 7, 8, 9, 100, 3000])
def test_rows_are_the_softmax_of_what_they_are_mapped_to(n_classes):
    rng = np.random.default_rng(n_classes)
    z = rng.normal(0, 5, (30, n_classes))
    slope, intercept = rng.normal(1, 0.5, (2, n_classes))
    out = np.empty_like(z)
    scaled_softmax(z, 0.7, out)
    np.testing.assert_allclose(out, exact(0.7 * z).astype(float), rtol=2e-14)
    vector_softmax(z, slope, intercept, out)
    np.testing.assert_allclose(out, exact(z * slope + intercept).astype(float), rtol=2e-14)
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


@pytest.mark.parametrize("n_classes", [2, 8, 9, 31])
@pytest.mark.parametrize("small", [0.0, -0.0, -1e-9])
def test_rows_that_have_to_be_repaired_are_counted(n_classes, small):
    rows = np.full((3, n_classes), 1 / (n_classes - 1))
    rows[:, -1] = small
    assert scan_probabilities(rows, 1e-6, 1e-3)[4] == (3 if np.signbit(small) else 0)
