"""Limits are inclusive: what is at a limit loads, what is one beyond it does not."""

import copy
import json

import numpy as np
import pytest

import calibrant
from calibrant import errors
from calibrant.model_file import dumps, limits, loads
from hostile_files.classes_and_parts import nest
from hostile_files.frame import take_apart
from model_file.catalogue import assert_same_calibrator, fitted, scores_of


def loads_at(monkeypatch, method, name, limit, error):
    """Assert that a file is at a limit; one less, and it is refused."""
    data = dumps(fitted(method))
    monkeypatch.setattr(limits, name, limit)
    assert_same_calibrator(fitted(method), loads(data))
    monkeypatch.setattr(limits, name, limit - 1)
    with pytest.raises(error):
        loads(data)


def test_number_of_arrays(monkeypatch):
    loads_at(monkeypatch, "fir", "MAX_ARRAYS", 4, errors.ArrayLayoutError)
    with pytest.raises(errors.UnsavableError):
        dumps(fitted("fir"))
    monkeypatch.setattr(limits, "MAX_ARRAYS", 4)
    assert dumps(fitted("fir"))


def test_dimensions_of_arrays(monkeypatch):
    loads_at(monkeypatch, "ms", "MAX_DIMENSIONS", 2, errors.ArrayLayoutError)


def test_length_of_the_header(monkeypatch):
    length = int.from_bytes(dumps(fitted("ts"))[12:16], "little")
    loads_at(monkeypatch, "ts", "MAX_HEADER", length, errors.HeaderLengthError)
    with pytest.raises(errors.UnsavableError):
        dumps(fitted("ts"))
    monkeypatch.setattr(limits, "MAX_HEADER", length)
    assert dumps(fitted("ts"))


def test_strings_in_the_header(monkeypatch):
    text = take_apart(dumps(fitted("ts"))).text()
    loads_at(monkeypatch, "ts", "MAX_TEXTS", text.count(b'"') // 2, errors.HeaderSyntaxError)


def test_other_tokens_in_the_header(monkeypatch):
    frame = take_apart(dumps(fitted("ts")))
    frame.header = b'{"a":[1,2.5,null,true,-3]}'
    for limit, error in ((9, errors.HeaderFieldError), (8, errors.HeaderSyntaxError)):
        monkeypatch.setattr(limits, "MAX_VALUES", limit)
        with pytest.raises(error):  # two pairs of brackets and five values
            loads(frame.assemble())


def test_depth_of_the_header():
    frame = take_apart(dumps(fitted("ts")))
    frame.minor = 1
    frame.header["extra"] = [[[[[[[]]]]]]]
    with pytest.warns(errors.NewerFormatWarning):
        loads(frame.assemble())
    frame.header["extra"] = [frame.header["extra"]]
    with pytest.raises(errors.HeaderSyntaxError, match="deep"):
        loads(frame.assemble())


def test_length_of_numbers():
    frame = take_apart(dumps(fitted("ts")))
    frame.part()["fitted"]["inverse_temperature_"] = "@"
    text = json.dumps(frame.header).encode()
    for digits, error in ((29, None), (30, errors.HeaderSyntaxError)):
        frame.header = text.replace(b'"@"', b"0.5" + b"0" * digits)
        if error is None:
            assert loads(frame.assemble()).inverse_temperature_ == 0.5
        else:
            with pytest.raises(error):
                loads(frame.assemble())


def test_size_of_integers():
    frame = take_apart(dumps(fitted("vs")))
    for value in (2**63 - 1, 2**63):
        frame.part()["parameters"]["max_rounds"] = value
        if value in limits.INT64:
            assert loads(frame.assemble()).max_rounds == value
        else:
            with pytest.raises(errors.HeaderSyntaxError):
                loads(frame.assemble())
    frame.part()["parameters"]["classes"] = -(2**63)
    frame.part()["parameters"]["max_rounds"] = 1
    assert loads(frame.assemble()).classes == -(2**63)


def test_number_of_classes(monkeypatch):
    loads_at(monkeypatch, "ts", "MAX_CLASSES", 3, errors.StoredClassesError)


def test_number_of_vectors(monkeypatch):
    loads_at(monkeypatch, "ts", "MAX_VECTORS", 1, errors.StoredClassesError)
    with pytest.raises(errors.UnsavableError, match="different lists"):
        dumps(fitted("ts"))


def test_number_of_parts(monkeypatch):
    loads_at(monkeypatch, "chain", "MAX_PARTS", 5, errors.NestingError)


def test_number_of_uses(monkeypatch):
    loads_at(monkeypatch, "chain", "MAX_REFERENCES", 5, errors.NestingError)
    with pytest.raises(errors.NestingError):
        dumps(fitted("chain"))


def test_number_of_binary_maps(monkeypatch):
    loads_at(monkeypatch, "hb-ovr", "MAX_MAPS", 3, errors.FittedValueError)
    with pytest.raises(errors.FittedValueError, match="2 binary maps"):
        dumps(fitted("hb-ovr"))


def test_entries_of_vectors(monkeypatch):
    loads_at(monkeypatch, "ts", "MAX_LABELS", 3, errors.StoredClassesError)
    with pytest.raises(errors.StoredClassesError):
        dumps(fitted("ts"))


def test_work_of_a_row(monkeypatch):
    """The mixture, vector scaling and FIR, each for three classes, and their numbers."""
    monkeypatch.setattr(limits, "WORK_PER_BYTE", 0)
    blocks = fitted("mixture").calibrators_[1].step_function_.n_blocks
    work = 3 * (1 + 3 + 1) + 2 + 6 + 3 * blocks
    loads_at(monkeypatch, "mixture", "SMALL_WORK", work, errors.NestingError)
    with pytest.raises(errors.NestingError, match="multiply"):
        dumps(fitted("mixture"))
    monkeypatch.setattr(limits, "WORK_PER_BYTE", 1)
    assert dumps(fitted("mixture"))


def test_depth_of_parts():
    frame = take_apart(dumps(fitted("mixture")))
    nest(frame, 6)
    calibrator = loads(frame.assemble())
    assert loads(dumps(calibrator))
    nest(frame, 1)
    with pytest.raises(errors.NestingError, match="8 deep"):
        loads(frame.assemble())


@pytest.mark.parametrize(
    ("method", "name", "inside", "outside"),
    [
        ("vs", "coef_", 1e100, 1.1e100),
        ("vs", "coef_", -1e100, -1.1e100),
        ("fir", "values", 1.0, 1 + 2**-52),
        ("m2b-ir", "numbers", None, 1.5),
    ],
)
def test_ranges_of_numbers(method, name, inside, outside):
    frame = take_apart(dumps(fitted(method)))
    place = -1
    if method == "m2b-ir":  # the last value; sizes come after it
        place = int(frame.array("lengths")[:2].sum()) - 1
    for value in (inside, outside):
        if value is None:
            continue
        numbers = frame.array(name)
        numbers[place] = value
        frame.put(name, numbers)
        if value == inside:
            out = loads(frame.assemble()).predict_proba([[0.2, 0.3, 0.5]])
            assert np.isfinite(out).all()
        else:
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


def test_classes_that_are_no_array_are_not_saved():
    calibrator = loads(dumps(fitted("ts")))
    calibrator.classes_ = [0, 1, 2]
    with pytest.raises(errors.StoredClassesError, match="vector"):
        dumps(calibrator)
