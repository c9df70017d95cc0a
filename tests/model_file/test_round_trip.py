"""What is saved comes back: the same predictions to the bit, for every calibrator."""

import copy
import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hynp

import calibrant
from calibrant.errors import NotFittedError
from calibrant.model_file import dumps, loads
from model_file.catalogue import (
    KINDS,
    METHODS,
    assert_same_calibrator,
    breaks,
    fitted,
    make,
    quietly,
    scores_of,
)

each = pytest.mark.parametrize("method", METHODS)


@st.composite
def calibration_sets(draw):
    """Few rows with ties, zeros, ones and tiny values, and their labels."""
    k, m = draw(st.integers(2, 4)), draw(st.integers(1, 12))
    cells = draw(
        st.sampled_from([st.integers(0, 3).map(float), st.floats(1e-300, 1), st.floats(0.01, 1)])
    )
    masses = draw(hynp.arrays(float, (m, k), elements=cells))
    masses[masses.sum(axis=1) <= 0, 0] = 1.0
    y = draw(hynp.arrays(np.int64, m, elements=st.integers(0, k - 1)))
    return masses / masses.sum(axis=1, keepdims=True), y


@each
@settings(max_examples=15)
@given(data=calibration_sets())
def test_any_fit_survives(method, data):
    before = quietly(make(method).fit, *data)
    assert_same_calibrator(before, loads(dumps(before)))


@each
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_calibrator_has_every_attribute_and_predicts_the_same_bytes(method, kind):
    before = fitted(method, kind)
    after = loads(dumps(before))
    assert_same_calibrator(before, after)
    names = {name for name in vars(before) if name.endswith("_")}
    assert names == {name for name in vars(after) if name.endswith("_")}
    assert dumps(after) == dumps(before)
    untimed = dataclasses.replace(before.solver_report_, seconds=math.nan)
    assert repr(after.solver_report_) == repr(untimed)  # one has NaN


@each
def test_two_fits_to_the_same_data_give_the_same_bytes(method):
    """Times are no part of a file."""
    one, two = (quietly(make(method).fit, *scores_of()) for _ in range(2))
    assert dumps(one) == dumps(two)


def test_a_parameter_that_was_changed_after_the_fit_is_refused():
    calibrator = copy.deepcopy(fitted("ts")).set_params(scores="logits")
    with breaks("fitted"):
        dumps(calibrator)


def test_names_of_columns_survive():
    scores, y = scores_of()
    frame = pd.DataFrame(scores, columns=["red", "green", "blue"])
    before = calibrant.TemperatureScaling().fit(frame, y)
    after = loads(dumps(before))
    assert after.feature_names_in_.tolist() == ["red", "green", "blue"]
    assert after.feature_names_in_.dtype == object
    assert after.predict_proba(frame).tobytes() == before.predict_proba(frame).tobytes()


def test_parts_in_parts_survive():
    scores, y = scores_of()
    inner = calibrant.Mixture(
        [calibrant.TemperatureScaling(), ("fir", calibrant.FlattenedIsotonic())], weights=[1, 3]
    )
    before = quietly(
        calibrant.Chain([inner, calibrant.OneVsRestIsotonic(min_probability=0.01)], cv=3).fit,
        scores,
        y,
    )
    after = loads(dumps(before))
    assert_same_calibrator(before, after)
    assert after.calibrators[0].calibrators[1][1].scores == "probabilities"
    assert type(after.calibrators_[0].calibrators_[1]) is calibrant.FlattenedIsotonic


def test_a_part_that_is_used_twice_is_one_object_again():
    scores, y = scores_of()
    part = calibrant.TemperatureScaling()
    before = calibrant.Mixture([("one", part), ("two", part)]).fit(scores, y)
    after = loads(dumps(before))
    assert after.calibrators[0][1] is after.calibrators[1][1]


def test_an_unfitted_calibrator_is_refused():
    with pytest.raises(NotFittedError):
        dumps(calibrant.TemperatureScaling())


def test_what_is_not_ours_is_refused():
    class Mine(calibrant.TemperatureScaling):
        pass

    for other in (Mine().fit(*scores_of()), "a calibrator"):
        with breaks("savable"):
            dumps(other)


def test_a_calibrator_that_came_another_way_is_checked():
    broken = copy.deepcopy(fitted("mixture"))
    broken.calibrators_[0].map_ = fitted("vs", "logits").map_
    with breaks("fitted"):
        dumps(broken)
