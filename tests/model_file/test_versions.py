"""Newer files: an error that says who wrote them, or a warning and no harm."""

import pytest

from calibrant import errors
from calibrant.model_file import _format as frame_module
from calibrant.model_file import dumps, load, loads
from hostile_files.frame import take_apart
from model_file.catalogue import assert_same_calibrator, breaks, fitted


def newer(method, minor=5):
    frame = take_apart(dumps(fitted(method)))
    frame.minor = minor
    frame.header["library"] = "calibrant 7.5"
    return frame


def test_a_newer_major_is_refused_and_names_its_writer():
    frame = newer("ts")
    frame.major = frame_module.MAJOR + 1
    with breaks("version", match=r"format 2\.5 .* by calibrant 7\.5;"):
        loads(frame.assemble())


def test_a_newer_minor_without_anything_new_loads_silently():
    assert_same_calibrator(fitted("ts"), loads(newer("ts").assemble()))


PLACES = {
    "header": lambda f: f.header,
    "part": lambda f: f.part(),
    "fitted": lambda f: f.part()["fitted"],
    "report": lambda f: f.part()["fitted"]["solver_report_"],
    "vector": lambda f: f.header["vectors"][0],
    "array": lambda f: f.header["arrays"][0],
}


@pytest.mark.parametrize("place", PLACES)
def test_a_newer_minor_with_an_unknown_optional_field_loads_and_warns(place):
    frame = newer("fir")
    PLACES[place](frame)["colour"] = "blue"
    with pytest.warns(errors.NewerFormatWarning, match=r"calibrant 7\.5.*'colour'"):
        calibrator = loads(frame.assemble())
    assert_same_calibrator(fitted("fir"), calibrator)


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_field_is_refused_if_the_version_is_ours(place):
    frame = newer("fir", minor=frame_module.MINOR)
    PLACES[place](frame)["colour"] = "blue"
    with breaks("fields", match="'colour'"):
        loads(frame.assemble())


def test_a_newer_minor_with_an_unknown_array_loads_and_warns(tmp_path):
    frame = newer("fir")
    frame.add_array("0/colours", [1.0])
    path = tmp_path / "model.calibrant"
    path.write_bytes(frame.assemble())
    with pytest.warns(errors.NewerFormatWarning, match="0/colours") as caught:
        load(path)
    assert caught[0].filename == __file__  # the warning is about the caller's line


def test_a_newer_minor_may_not_bring_unknown_parameters():
    """They may change what is predicted."""
    frame = newer("ts")
    frame.part()["parameters"]["colour"] = "blue"
    with breaks("parameters", match="colour"):
        loads(frame.assemble())


def test_an_unknown_required_feature_is_refused_in_any_minor():
    for minor in (0, 5):
        frame = newer("ts", minor)
        frame.header["requires"] = ["entanglement"]
        with breaks("features", match=r"'entanglement'.*calibrant 7\.5"):
            loads(frame.assemble())


def test_a_parameter_that_an_older_version_did_not_have_gets_its_default():
    frame = take_apart(dumps(fitted("ts")))
    del frame.part()["parameters"]["tol"]
    assert loads(frame.assemble()).tol == 1e-10
