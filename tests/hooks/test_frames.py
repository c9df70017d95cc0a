"""The accessor of pandas."""

import numpy as np
import pandas as pd
import pytest

from calibrant import TemperatureScaling, errors, metrics
from calibrant.datasets import simulated_scores
from calibrant.hooks import register_accessor
from conftest import refuses


@pytest.fixture(scope="module")
def frame():
    register_accessor("calibration")
    scores, y = simulated_scores(300)
    frame = pd.DataFrame(scores, columns=["p_0", "p_1", "p_2"])
    return frame.assign(label=y, weight=np.arange(300) % 3)


def test_columns_by_pattern_or_name_are_evaluated(frame):
    expected = metrics.evaluate(frame["label"], frame[["p_0", "p_1", "p_2"]].to_numpy())
    assert repr(frame.calibration.evaluate("label", "p_*")) == repr(expected)
    assert repr(frame.calibration.evaluate("label", ["p_0", "p_1", "p_2"])) == repr(expected)
    weighted = frame.calibration.evaluate("label", "p_*", sample_weight="weight")
    assert weighted.accuracy != expected.accuracy


def test_columns_are_calibrated(frame):
    fitted = TemperatureScaling().fit(frame[["p_0", "p_1", "p_2"]].to_numpy(), frame["label"])
    found = frame.calibration.calibrate(fitted, "p_*")
    expected = fitted.predict_proba(frame[["p_0", "p_1", "p_2"]].to_numpy())
    np.testing.assert_array_equal(found, expected)


def test_a_pattern_without_columns_is_refused(frame):
    with refuses("columns", errors.ColumnNameError, value="q_*"):
        frame.calibration.evaluate("label", "q_*")
