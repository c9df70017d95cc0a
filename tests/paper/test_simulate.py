"""Simulated predictions: over-confident by a factor of two, heavy tails, the same every time."""

import numpy as np
import pytest

from calibrant import TemperatureScaling
from calibrant.study._files import look_at
from conftest import refuses
from simulate import simulate_imagenet


def load(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_file_is_one_that_a_study_takes_and_the_same_for_the_same_seed(tmp_path):
    sizes = {"n_val": 7, "n_test": 1100, "n_classes": 5}
    a, b, c = (
        simulate_imagenet(tmp_path / f"im_{i}.npz", seed=seed, **sizes)
        for i, seed in enumerate((1, 1, 2))
    )
    assert a.read_bytes() == b.read_bytes() != c.read_bytes()
    found = look_at(a)
    assert (found.n_val, found.n_test, found.n_classes) == (7, 1100, 5)
    assert set(load(a)) == {"val_logits", "val_labels", "test_logits", "test_labels"}


@pytest.mark.parametrize(("degrees_of_freedom", "low", "high"), [(6.0, 4.5, 99), (None, 2.9, 3.1)])
def test_the_right_temperature_is_two_and_tails_are_as_asked(
    tmp_path, degrees_of_freedom, low, high
):
    path = simulate_imagenet(
        tmp_path / "a_b.npz",
        n_val=4000,
        n_test=1,
        n_classes=50,
        degrees_of_freedom=degrees_of_freedom,
    )
    arrays = load(path)
    calibrator = TemperatureScaling(scores="logits", classes=np.arange(50))
    calibrator.fit(arrays["val_logits"], arrays["val_labels"])
    assert calibrator.temperature_ == pytest.approx(2.0, rel=0.05)
    z = arrays["val_logits"].astype(float)
    assert low < (z**4).mean() / (z**2).mean() ** 2 < high


@pytest.mark.parametrize(
    "wrong", [{"n_val": 0}, {"n_test": 1.5}, {"n_classes": 1}, {"degrees_of_freedom": 0.0}]
)
def test_bad_sizes_are_errors(tmp_path, wrong):
    with refuses(next(iter(wrong))):
        simulate_imagenet(tmp_path / "a_b.npz", **wrong)
    assert not list(tmp_path.iterdir())
