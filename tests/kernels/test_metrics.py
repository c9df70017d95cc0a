import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrant._kernels import metrics as kernels

unit = st.floats(0, 1)


@given(st.integers(1, 60), st.lists(unit, max_size=20))
def test_bins_of_equal_width_are_those_of_searchsorted(n_bins, values):
    edges = np.linspace(0, 1, n_bins + 1)
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), values])
    near = np.clip(near, 0, 1)
    found = np.empty(len(near), dtype=np.int32)
    kernels.find_bins(near, edges, found)
    np.testing.assert_array_equal(found, np.searchsorted(edges[1:-1], near))


def test_labels_drawn_have_a_positive_probability():
    rows = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]])
    for u in (0.0, 0.25, 0.5, 0.75, np.nextafter(1, 0)):
        gaps = np.zeros((5, 1))
        kernels.subtract_null_labels(
            rows.cumsum(axis=1),
            np.zeros((1, 5), dtype=np.int32),
            np.ones(1),
            np.zeros(1, dtype=np.int64),
            np.array([u]),
            gaps,
        )
        assert gaps[:, 0].tolist() == ([0, -1, 0, 0, 0] if u < 0.5 else [0, 0, 0, -1, 0])
