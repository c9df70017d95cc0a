"""Limits are inclusive: what is at a limit loads, what is one beyond it does not."""

import pytest

from calibrant.model_file import _format as limits
from calibrant.model_file import dumps, loads
from hostile_files.frame import take_apart
from model_file.catalogue import assert_same_calibrator, breaks, fitted


def length_of_header(method):
    return int.from_bytes(dumps(fitted(method))[12:16], "little")


@pytest.mark.parametrize(
    ("method", "name", "limit", "unread", "unsaved"),
    [
        ("fir", "MAX_ARRAYS", 9, "arrays", "savable"),
        ("ts", "MAX_HEADER", None, "header", "savable"),
        ("ts", "MAX_CLASSES", 3, "labels", "labels"),
        ("hb-ovr", "MAX_MAPS", 3, "fitted", "fitted"),
        ("chain", "MAX_NESTING", 2, "parts", "parts"),
        # Two parts, fitted and not, and the chain; three classes in each that is fitted.
        ("chain", "MAX_CELLS", 5 * 1000 + 3 * 3, "parts", "parts"),
        # The curves of three classes.
        ("hb-ovr", "MAX_CELLS", 1000 + 3 + 3 * 200, "parts", "parts"),
    ],
)
def test_what_is_at_a_limit_is_saved_and_loaded(monkeypatch, method, name, limit, unread, unsaved):
    data, limit = dumps(fitted(method)), limit or length_of_header(method)
    monkeypatch.setattr(limits, name, limit)
    assert_same_calibrator(fitted(method), loads(data))
    assert dumps(fitted(method)) == data
    monkeypatch.setattr(limits, name, limit - 1)
    with breaks(unread):
        loads(data)
    with breaks(unsaved):
        dumps(fitted(method))


def test_size_of_integers():
    frame = take_apart(dumps(fitted("vs")))
    frame.part()["parameters"] |= {"max_rounds": 2**63 - 1, "classes": -(2**63)}
    found = loads(frame.assemble())
    assert (found.max_rounds, found.classes) == (2**63 - 1, -(2**63))
    frame.part()["parameters"]["max_rounds"] = 2**63
    with breaks("json"):
        loads(frame.assemble())


def test_a_newer_version_names_its_writer():
    frame = take_apart(dumps(fitted("ts")))
    frame.major, frame.header["library"] = 2, "calibrant 7.5"
    with breaks("version") as caught:
        loads(frame.assemble())
    assert "calibrant 7.5" in str(caught.value)


def test_a_parameter_that_an_older_version_did_not_have_gets_its_default():
    frame = take_apart(dumps(fitted("ts")))
    del frame.part()["parameters"]["tol"]
    assert loads(frame.assemble()).tol == 1e-10


def test_a_field_of_a_report_that_is_gone_is_not_read():
    frame = take_apart(dumps(fitted("auto")))
    frame.part()["fitted"]["report_"]["gain_by_rows"] = {"value": 0.5}
    assert_same_calibrator(fitted("auto"), loads(frame.assemble()))
