import mpmath
import numpy as np

from calibrant.kernels.softmax import row_sums


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


def test_zero_is_exactly_one_and_underflow_is_tiny():
    out = exponentials(np.array([0.0, -0.0, -1e6, -np.inf]))
    assert out[:2].tolist() == [1.0, 1.0]
    assert np.all((out[2:] > 0) & (out[2:] < 1e-300))


def test_monotone_across_the_joints_of_the_reduction():
    joints = np.log(2) * (np.arange(-900, 0) + 0.5)
    around = np.sort(np.concatenate([np.nextafter(joints, -1e9), joints, np.nextafter(joints, 0)]))
    around = around[around > -708]
    assert np.all(np.diff(exponentials(around)) >= -2e-16 * np.exp(around[1:]))
