"""Defaults on real classifiers: fitted to validation parts, judged on test parts."""

import numpy as np
import pytest

from calibrant._calibrators.methods import make_calibrator
from conftest import REAL_FILES, load_real, needs_collection, nll, real_files

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

# Mean and largest ratio of the NLL to that of temperature scaling; MNIST has few errors.
RATIOS = {
    "na-fir": (0.981, 1.05),
    "scir": (0.99, 1.05),
    "structured": (0.94, 1.12),
    "spline": (0.977, 1.05),
}


def confidence_error(p, y, n_bins=15):
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    gaps = np.bincount(bins, confidence - right, minlength=n_bins)
    return np.abs(gaps).sum() / len(y)


def judge(method, name):
    """NLL and error of the confidence on the test part."""
    data = load_real(name)
    rows, labels = data["test"]
    calibrator = make_calibrator(method, classes=np.arange(rows.shape[1])).fit(*data["val"])
    out = calibrator.predict_proba(rows)
    return nll(out, labels), confidence_error(out, labels)


@pytest.mark.parametrize("name", real_files("cifar10_resnet50", "ng20_cleanlab", "r52_nb"))
def test_sorted_cumulative_is_better_where_a_temperature_does_not_fit(name):
    ours, theirs = judge("scir", name), judge("ts", name)
    assert ours[0] < theirs[0]
    assert ours[1] < theirs[1]


@pytest.mark.slow
@needs_collection
@pytest.mark.parametrize("method", RATIOS)
def test_beside_temperature_scaling(method):
    ratios = [judge(method, name)[0] / judge("ts", name)[0] for name in REAL_FILES]
    mean, largest = RATIOS[method]
    assert np.mean(ratios) <= mean
    assert np.max(ratios) <= largest
