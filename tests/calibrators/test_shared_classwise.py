import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import FlattenedIsotonic
from calibrant.calibrators.shared_classwise import SharedClasswise
from calibrant.errors import ParameterError
from calibrant.simplex import softmax
from calibrators.test_one_vs_rest import DEGENERATE
from calibrators.test_properties import calibration_sets
from conftest import load_real, real_files, simulate

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


@pytest.mark.filterwarnings("ignore::calibrant.errors.ClassShareWarning")  # naive Bayes
@pytest.mark.parametrize("name", real_files("ng20", "clinc"))
def test_one_isotonic_group_is_flattened_isotonic_on_real_files(name):
    parts = load_real(name)
    one = SharedClasswise(map="isotonic").fit(*parts["val"])
    two = FlattenedIsotonic().fit(*parts["val"])
    fresh = parts["test"][0]
    assert one.predict_proba(fresh).tobytes() == two.predict_proba(fresh).tobytes()


@maps
@any_data
@given(data=calibration_sets(), seed=st.integers(0, 99), n_groups=st.integers(1, 4))
def test_any_data_any_order_and_weights_as_repetitions(kind, data, seed, n_groups):
    p, y = data
    rng = np.random.default_rng(seed)
    times = rng.integers(0, 3, len(p))
    times[0] = 1
    order = rng.permutation(times.sum())
    parameters = {"map": kind, "n_groups": n_groups, "classes": np.arange(p.shape[1])}
    one = SharedClasswise(**parameters).fit(p, y, times).predict_proba(p)
    rows, labels = np.repeat(p, times, axis=0)[order], np.repeat(y, times)[order]
    two = SharedClasswise(**parameters).fit(rows, labels).predict_proba(p)
    assert one.tobytes() == two.tobytes()
    assert np.all((one >= 0) & (one <= 1))
    np.testing.assert_allclose(one.sum(axis=1), 1, atol=1e-14)


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


def test_cells_without_division_are_calibrated_one_by_one():
    """The mean of all cells is the share of labels, 1 / k, although rows do not sum to 1."""
    p, y = simulate(800, 5)
    out = SharedClasswise(map="isotonic", normalize_output=False).fit(p, y).predict_proba(p)
    assert out.mean() == pytest.approx(1 / 5, abs=1e-9)
    assert np.abs(out.sum(axis=1) - 1).max() > 0.05


@maps
@pytest.mark.parametrize("floor", [0.0, 1e-12, 0.01, 0.2])
def test_the_floor_without_division_lifts_and_changes_nothing_else(kind, floor):
    p, y = simulate(300, 5)
    parameters = {"map": kind, "normalize_output": False}
    plain = SharedClasswise(**parameters, min_probability=0.0).fit(p, y).predict_proba(p)
    out = SharedClasswise(**parameters, min_probability=floor).fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(out, np.maximum(plain, floor))
    assert out.max() <= 1


@any_data
@maps
@pytest.mark.parametrize("normalize_output", [True, False])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data_are_finite(kind, case, normalize_output):
    p, y = DEGENERATE[case](*simulate(150, 3))
    calibrator = SharedClasswise(
        map=kind, n_groups=2, normalize_output=normalize_output, classes=np.arange(3)
    ).fit(p, y)
    out = calibrator.predict_proba(np.vstack([p, np.eye(3), [[1 / 3] * 3]]))
    assert np.all((out >= 0) & (out <= 1))
    if normalize_output:
        np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-14)


def test_a_class_without_a_label_shares_the_map_of_the_rarest():
    p, y = simulate(600, 5)
    keep = y != 3
    calibrator = SharedClasswise(n_groups=3, classes=np.arange(5)).fit(p[keep], y[keep])
    assert calibrator.groups_[3] == 0
    assert np.sum(calibrator.groups_ == 0) >= 2


def test_logits_are_their_softmax():
    p, y = simulate(300, 4)
    logits = np.log(p) + 3
    p = softmax(logits)
    one = SharedClasswise(map="isotonic", n_groups=2).fit(p, y).predict_proba(p)
    two = SharedClasswise(map="isotonic", n_groups=2, scores="logits").fit(logits, y)
    np.testing.assert_array_equal(one, two.predict_proba(logits))


@pytest.mark.parametrize(
    "parameters",
    [
        {"map": "beta"},
        {"n_groups": 0},
        {"n_bins": 0},
        {"strategy": "depth"},
        {"normalize_output": "no"},
    ],
)
def test_parameters_are_checked(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        SharedClasswise(**parameters).fit(*simulate(150, 3))
