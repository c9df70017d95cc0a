import numpy as np

from calibrant._kernels import metrics as kernels


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
