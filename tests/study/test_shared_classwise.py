import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import FlattenedIsotonic
from calibrant.study import SharedClasswise
from calibrators.test_properties import calibration_sets
from conftest import simulate

# A map for several classes, or one with a high floor, does not know how often each class comes.
pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")
any_data = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
maps = pytest.mark.parametrize("kind", ["isotonic", "histogram"])


@any_data
@given(data=calibration_sets(), new=calibration_sets(), seed=st.integers(0, 99))
def test_one_isotonic_group_is_flattened_isotonic_to_the_bit(data, new, seed):
    p, y = data
    rows = new[0] if new[0].shape[1] == p.shape[1] else p
    weight = np.random.default_rng(seed).uniform(0.1, 3, len(p))
    classes = np.arange(p.shape[1])
    one = SharedClasswise(map="isotonic", classes=classes).fit(p, y, weight)
    two = FlattenedIsotonic(classes=classes).fit(p, y, weight)
    assert one.predict_proba(rows).tobytes() == two.predict_proba(rows).tobytes()


@maps
def test_cells_are_mapped_by_the_map_of_their_group(kind):
    p, y = simulate(600, 6)
    calibrator = SharedClasswise(
        map=kind, n_groups=3, normalize_output=False, min_probability=0
    ).fit(p, y)
    out = calibrator.predict_proba(p)
    assert len(calibrator.curves_) == calibrator.groups_.max() + 1 == 3
    for j, group in enumerate(calibrator.groups_):
        np.testing.assert_array_equal(out[:, j], calibrator.curves_[group](p[:, j]))
    rows = SharedClasswise(map=kind, n_groups=3, min_probability=0).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(rows, out / out.sum(axis=1, keepdims=True), rtol=1e-13)
