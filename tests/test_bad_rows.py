"""Rows that cannot be calibrated are refused, marked or left out."""

import numpy as np
import pytest

from calibrant import TemperatureScaling, errors
from calibrant._bad_rows import bad_rows, predict_good
from calibrant.datasets import simulated_scores

SCORES, Y = simulated_scores(200)
CALIBRATOR = TemperatureScaling().fit(SCORES, Y)


def test_bad_rows_are_found_wherever_they_are():
    rows = SCORES.copy()
    rows[[0, 7, 8, 199], [0, 1, 2, 0]] = np.nan
    assert bad_rows(rows, "probabilities", None) == [0, 7, 8, 199]


@pytest.mark.parametrize(("method", "missing"), [("predict_proba", np.nan), ("predict", None)])
def test_all_rows_may_be_bad(method, missing):
    predict, rows = getattr(CALIBRATOR, method), np.full((3, 3), np.nan)
    marked, good = predict_good(predict, rows, CALIBRATOR, "nan")
    assert not good.any()
    assert len(marked) == 3
    np.testing.assert_array_equal(marked, np.full_like(marked, missing))
    assert len(predict_good(predict, rows, CALIBRATOR, "skip")[0]) == 0


@pytest.mark.parametrize("on_bad_row", ["raise", "nan", "skip"])
@pytest.mark.parametrize("rows", [np.empty(0), np.empty((0, 4)), np.full((5, 4), 0.25)])
def test_rows_of_another_shape_are_refused_whatever_becomes_of_bad_ones(rows, on_bad_row):
    """No row at all in one dimension went on for ever."""
    with pytest.raises(errors.ShapeError):
        predict_good(CALIBRATOR.predict_proba, rows, CALIBRATOR, on_bad_row)
