"""What every loaded map promises, for all rows that validation lets through."""

import numpy as np
import pytest

from calibrant.model_file import dumps, loads
from calibrant.model_file._fields import stored_types
from hostile_files.frame import take_apart
from hostile_files.judge import assert_on_the_simplex, extreme_rows
from model_file.catalogue import (
    CLASS_OF,
    KINDS,
    METHODS,
    assert_same_calibrator,
    fitted,
    make,
    quietly,
)
from model_file.catalogue import scores_of as some_scores

LOGGED = [m for m in METHODS if "zero_logit_" in stored_types(CLASS_OF[m])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", LOGGED)
def test_no_reading_of_zeros_leaves_the_simplex(method, kind):
    for zero_logit in (-1e150, -1e5, -0.5, -0.0, 0.0):
        for steep in (False, True):
            frame = take_apart(dumps(fitted(method, kind)))
            numbers = frame.part()["fitted"]
            numbers["zero_logit_"] = zero_logit
            if steep and "inverse_temperature_" in numbers:
                numbers["inverse_temperature_"] = 1e6
            calibrator = loads(frame.assemble())
            assert_on_the_simplex(calibrator, extreme_rows(calibrator))


@pytest.mark.parametrize("method", ["fir", "na-fir", "hb-ovr", "scw", "m2b-hb", "auto"])
@pytest.mark.parametrize("scale", [1.0, 1e-110, 1e110])
def test_a_fit_to_extreme_weights_can_be_saved(method, scale):
    rng = np.random.default_rng(0)
    scores, y = some_scores()
    weight = 10.0 ** rng.uniform(-12, 12, len(y)) * scale
    calibrator = quietly(make(method).fit, scores, y, weight)
    assert_same_calibrator(calibrator, loads(dumps(calibrator)))
