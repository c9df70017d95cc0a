"""Limits are inclusive: what is at a limit loads, what is one beyond it does not."""

import copy
import json

import numpy as np
import pytest

import calibrant
from calibrant import errors
from calibrant.model_file import _format as limits
from calibrant.model_file import dumps, loads
from hostile_files.fit_cases import nest
from hostile_files.frame import take_apart
from model_file.catalogue import assert_same_calibrator, fitted, scores_of


def length_of_header(method):
    return int.from_bytes(dumps(fitted(method))[12:16], "little")


@pytest.mark.parametrize(
    ("method", "name", "limit", "error", "unsaved"),
    [
        ("fir", "MAX_ARRAYS", 4, errors.ArrayLayoutError, errors.UnsavableError),
        ("ts", "MAX_HEADER", None, errors.HeaderLengthError, errors.UnsavableError),
        ("ts", "MAX_CLASSES", 3, errors.StoredClassesError, errors.StoredClassesError),
        ("hb-ovr", "MAX_MAPS", 3, errors.FittedValueError, errors.FittedValueError),
        ("chain", "MAX_NESTING", 2, errors.NestingError, errors.NestingError),
        # Two parts, fitted and not, and the chain; three classes in each that is fitted.
        ("chain", "MAX_CELLS", 5 * 1000 + 3 * 3, errors.NestingError, errors.NestingError),
        # The curves of three classes.
        ("hb-ovr", "MAX_CELLS", 1000 + 3 + 3 * 200, errors.NestingError, errors.NestingError),
    ],
)
def test_what_is_at_a_limit_is_saved_and_loaded(monkeypatch, method, name, limit, error, unsaved):
    data, limit = dumps(fitted(method)), limit or length_of_header(method)
    monkeypatch.setattr(limits, name, limit)
    assert_same_calibrator(fitted(method), loads(data))
    assert dumps(fitted(method)) == data
    monkeypatch.setattr(limits, name, limit - 1)
    with pytest.raises(error):
        loads(data)
    with pytest.raises(unsaved):
        dumps(fitted(method))


def test_size_of_integers():
    frame = take_apart(dumps(fitted("vs")))
    frame.part()["parameters"] |= {"max_rounds": 2**63 - 1, "classes": -(2**63)}
    found = loads(frame.assemble())
    assert (found.max_rounds, found.classes) == (2**63 - 1, -(2**63))
    frame.part()["parameters"]["max_rounds"] = 2**63
    with pytest.raises(errors.HeaderSyntaxError):
        loads(frame.assemble())


def test_a_long_number_is_the_number_that_it_says():
    frame = take_apart(dumps(fitted("ts")))
    frame.part()["fitted"]["inverse_temperature_"] = "@"
    frame.header = json.dumps(frame.header).encode().replace(b'"@"', b"0.5" + b"0" * 1000)
    assert loads(frame.assemble()).inverse_temperature_ == 0.5


def test_depth_of_parts():
    frame = take_apart(dumps(fitted("mixture")))
    nest(frame, 6)
    assert loads(dumps(loads(frame.assemble())))
    nest(frame, 1)
    with pytest.raises(errors.NestingError, match="8 deep"):
        loads(frame.assemble())


@pytest.mark.parametrize(
    ("method", "name", "inside", "outside"),
    [
        ("vs", "coef_", 1e100, 1.1e100),
        ("vs", "coef_", -1e100, -1.1e100),
        ("fir", "values", 1.0, 1 + 2**-52),
    ],
)
def test_ranges_of_numbers(method, name, inside, outside):
    frame = take_apart(dumps(fitted(method)))
    frame.put(name, [*frame.array(name)[:-1], inside])
    assert np.isfinite(loads(frame.assemble()).predict_proba([[0.2, 0.3, 0.5]])).all()
    frame.put(name, [*frame.array(name)[:-1], outside])
    with pytest.raises(errors.FittedValueError):
        loads(frame.assemble())


def test_ranges_of_numbers_in_the_header():
    frame = take_apart(dumps(fitted("ts")))
    for value in (0.0, 1e6):
        frame.part()["fitted"]["inverse_temperature_"] = value
        assert loads(frame.assemble()).inverse_temperature_ == value
    frame.part()["fitted"]["zero_logit_"] = -1e150
    assert loads(frame.assemble()).predict_proba([[0.0, 0.5, 0.5]]).min() >= 0


def test_stages_get_rows_that_sum_to_one():
    scores, y = scores_of()
    loose = calibrant.SharedClasswise(normalize_output=False)
    inner = calibrant.Mixture([calibrant.TemperatureScaling(), loose]).fit(scores, y)
    chain = copy.deepcopy(fitted("chain"))
    chain.calibrators_ = [*chain.calibrators_, inner]
    chain.map_ = chain._compose(vars(chain))
    assert loads(dumps(chain)).predict_proba(scores).max() <= 1  # the last may be loose
    chain.calibrators_ = [inner, *chain.calibrators_[1:2]]
    with pytest.raises(errors.FittedValueError, match="need not sum to 1"):
        dumps(chain)


@pytest.mark.parametrize("value", [np.ones(2, dtype=np.float32), 1])
def test_results_that_are_no_numbers_of_64_bits_are_not_saved(value):
    calibrator = loads(dumps(fitted("na-fir")))
    calibrator.cv_results_["prior_strength"] = value
    with pytest.raises(errors.FittedValueError, match="prior_strength is no"):
        dumps(calibrator)
