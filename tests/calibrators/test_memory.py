"""What a fit takes is estimated before it is tried."""

import tracemalloc

import numpy as np
import pytest

import calibrant
from calibrant.errors import MemoryLimitError
from calibrators.catalogue import CALIBRATORS, make
from conftest import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.mark.parametrize(
    ("name", "n_rows", "n_classes", "limit"),
    [
        ("MatrixScaling", 200, 2000, 1e8),
        ("MatrixScaling", 300, 5000, 2e9),
        ("DirichletCalibration", 200, 2000, 1e8),
        ("AutoCalibrator", 1000, 500, 4e7),
        ("Chain", 1000, 500, 1.5e7),
    ],
)
def test_a_fit_beyond_the_limit_is_refused_before_it_starts(
    monkeypatch, name, n_rows, n_classes, limit
):
    """The calibration set itself is within the limit."""
    monkeypatch.setenv("CALIBRANT_MAX_MEMORY", str(limit))
    p = np.full((n_rows, n_classes), 1 / n_classes)
    parts = {"calibrators": [calibrant.FlattenedIsotonic(), calibrant.TemperatureScaling()]}
    calibrator = getattr(calibrant, name)(**parts if name == "Chain" else {})
    with pytest.raises(MemoryLimitError, match=f"{name} to {n_rows} rows of {n_classes} classes"):
        calibrator.set_params(classes=np.arange(n_classes)).fit(p, np.arange(n_rows) % n_classes)


@pytest.mark.parametrize(
    ("cls", "shape"),
    [(cls, (4000, 10)) for cls in CALIBRATORS]
    + [(cls, (150, 150)) for cls in (calibrant.MatrixScaling, calibrant.StructuredScaling)],
)
def test_the_estimate_is_neither_too_low_nor_far_too_high(cls, shape):
    p, y = simulate(*shape)
    calibrator = make(cls, classes=np.arange(shape[1]))
    calibrator.fit(*simulate(120, shape[1]))  # whatever is imported
    tracemalloc.start()
    calibrator.fit(p, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = calibrator._peak_bytes(*shape)
    fixed = 1 << 20  # what does not grow with the data
    assert peak <= 1.25 * estimate + fixed
    assert estimate <= 6 * peak + fixed
