"""Simulated predictions: over-confident by a factor of two, heavy tails, the same every time."""

import inspect

import numpy as np
import pytest

from calibrant import TemperatureScaling
from calibrant.errors import ParameterError
from calibrant.study import simulate_imagenet
from calibrant.study.files import look_at


def load(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_by_default_it_has_the_size_of_imagenet():
    defaults = {
        name: p.default for name, p in inspect.signature(simulate_imagenet).parameters.items()
    }
    assert (defaults["n_val"], defaults["n_test"], defaults["n_classes"]) == (12500, 37500, 1000)


def test_file_is_one_that_a_study_takes(tmp_path):
    path = simulate_imagenet(tmp_path / "im_sim.npz", n_val=7, n_test=1100, n_classes=5)
    found = look_at(path)
    assert (found.n_val, found.n_test, found.n_classes) == (7, 1100, 5)
    arrays = load(path)
    assert set(arrays) == {"val_logits", "val_labels", "test_logits", "test_labels"}
    assert arrays["val_labels"].dtype == np.int16
    assert arrays["test_logits"].dtype == np.float32


def test_same_seed_same_bytes(tmp_path):
    sizes = {"n_val": 20, "n_test": 30, "n_classes": 4}
    a, b, c = (
        simulate_imagenet(tmp_path / f"a_{i}.npz", seed=seed, **sizes).read_bytes()
        for i, seed in enumerate((1, 1, 2))
    )
    assert a == b
    assert a != c


@pytest.mark.parametrize("degrees_of_freedom", [6.0, None])
def test_the_right_temperature_is_two(tmp_path, degrees_of_freedom):
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


def test_tails_are_heavy_unless_they_are_normal(tmp_path):
    def kurtosis(degrees_of_freedom):
        path = simulate_imagenet(
            tmp_path / "a_b.npz",
            n_val=1000,
            n_test=1,
            n_classes=100,
            degrees_of_freedom=degrees_of_freedom,
        )
        z = load(path)["val_logits"].astype(float)
        return (z**4).mean() / (z**2).mean() ** 2

    assert kurtosis(None) == pytest.approx(3.0, abs=0.1)
    assert kurtosis(6.0) > 4.5


@pytest.mark.parametrize(
    "wrong", [{"n_val": 0}, {"n_test": 1.5}, {"n_classes": 1}, {"degrees_of_freedom": 0.0}]
)
def test_bad_sizes_are_errors(tmp_path, wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        simulate_imagenet(tmp_path / "a_b.npz", **wrong)
    assert not list(tmp_path.iterdir())
