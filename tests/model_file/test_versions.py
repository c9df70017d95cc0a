"""Newer files are refused, with an error that says who wrote them."""

import pytest

from calibrant.model_file import _format as frame_module
from calibrant.model_file import dumps, loads
from hostile_files.frame import take_apart
from model_file.catalogue import breaks, fitted


@pytest.mark.parametrize(("major", "minor"), [(2, 0), (2, 5), (1, frame_module.WITH_SAMPLE + 1)])
def test_a_newer_version_is_refused_and_names_its_writer(major, minor):
    frame = take_apart(dumps(fitted("ts")))
    frame.major, frame.minor = major, minor
    frame.header["library"] = "calibrant 7.5"
    with breaks("version", match=rf"format {major}\.{minor} .* by calibrant 7\.5;"):
        loads(frame.assemble())


PLACES = {
    "header": lambda f: f.header,
    "part": lambda f: f.part(),
    "fitted": lambda f: f.part()["fitted"],
    "report": lambda f: f.part()["fitted"]["solver_report_"],
    "vector": lambda f: f.header["vectors"][0],
    "array": lambda f: f.header["arrays"][0],
}


@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_field_is_refused(place):
    frame = take_apart(dumps(fitted("fir")))
    PLACES[place](frame)["colour"] = "blue"
    with breaks("fields", match="'colour'"):
        loads(frame.assemble())


def test_an_unknown_array_parameter_or_feature_is_refused():
    frame = take_apart(dumps(fitted("fir")))
    frame.add_array("0/colours", [1.0])
    with breaks("arrays", match="0/colours"):
        loads(frame.assemble())
    frame = take_apart(dumps(fitted("ts")))
    frame.part()["parameters"]["colour"] = "blue"
    with breaks("parameters", match="colour"):
        loads(frame.assemble())
    frame.header["requires"] = ["entanglement"]
    with breaks("features", match="'entanglement'"):
        loads(frame.assemble())


def test_a_parameter_that_an_older_version_did_not_have_gets_its_default():
    frame = take_apart(dumps(fitted("ts")))
    del frame.part()["parameters"]["tol"]
    assert loads(frame.assemble()).tol == 1e-10
