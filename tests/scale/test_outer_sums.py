import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.scale.outer_sums import OuterSums

SCALES = st.sampled_from([0.0, 1e-200, 1e-3, 1.0, 7.0, 1e90])


@given(st.lists(st.tuples(SCALES, SCALES), min_size=1, max_size=30), st.randoms())
def test_chunks_order_and_merges_change_no_bit(scales, random):
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=(len(scales), n)) for n in (3, 2))
    left *= np.array(scales)[:, :1]
    right *= np.array(scales)[:, 1:]
    weight = rng.uniform(1e-3, 1e6, len(scales))
    whole, one, other = OuterSums(3, 2), OuterSums(3, 2), OuterSums(3, 2)
    whole.add(left, right, weight)
    order = np.array(random.sample(range(len(scales)), len(scales)))
    cut = random.randrange(len(scales) + 1)
    one.add(left[order[:cut]], right[order[:cut]], weight[order[:cut]])
    other.add(left[order[cut:]], right[order[cut:]], weight[order[cut:]])
    other.merge(one)
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(other.arrays()[name], array)
    sizes = np.abs(left).max(1) * np.abs(right).max(1) * weight
    error = np.abs(whole.values() - left.T @ (right * weight[:, None]))
    assert np.all(error <= 2.0**-16 * sizes.sum() + 1e-300)


@pytest.mark.parametrize(("is_fine", "digits"), [(True, 1e-7), (False, 1e-5)])
def test_errors_of_rounding_average_out(is_fine, digits):
    """Left cells are small beside the largest: residuals of softmax, say."""
    rng = np.random.default_rng(1)
    left = rng.normal(size=(9000, 3)) * [1.0, 1e-3, 1e-5]
    right, weight = rng.normal(size=(9000, 4)), np.ones(9000)
    sums = OuterSums(3, 4, is_fine=is_fine)
    sums.add(left, right, weight)
    error = np.abs(sums.values() - left.T @ right).max(axis=1) / len(left)
    assert np.all(error <= digits * np.array([1.0, 1e-1 if is_fine else 1.0, 1e-1]))


def test_weights_fade():
    sums = OuterSums(1, 1)
    sums.add(np.array([[3.0]]), np.array([[5.0]]), np.array([2.0]))
    sums.scale(0.5)
    assert sums.values().item() == 15.0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("outer_powers", lambda a: a.astype(float)),
        ("outer_powers", lambda a: a + 10**6),
        ("outer_powers", lambda a: a[:0]),
        ("outer_sums", lambda a: a[:, :1]),
        ("outer_sums", lambda a: a.astype(float)),
        ("outer_sums", lambda a: a - 10),
    ],
)
def test_sums_of_a_stranger_are_refused(name, change):
    sums = OuterSums(1, 1)
    sums.add(np.ones((1, 1)), np.ones((1, 1)), np.ones(1))
    arrays = sums.arrays()
    OuterSums(1, 1).restore(arrays)
    with pytest.raises(ValueError, match="sums"):
        OuterSums(1, 1).restore(arrays | {name: change(arrays[name])})
