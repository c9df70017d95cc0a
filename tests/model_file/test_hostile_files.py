"""Every broken or malicious file is refused, with the error of the rule that it breaks."""

import os
import pickle
import re
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from calibrant.model_file import dumps, load, loads, save
from conftest import needs_pages, refuses
from hostile_files.cases import CASES
from hostile_files.frame import take_apart
from hostile_files.judge import judge, storm
from model_file.catalogue import KINDS, METHODS, assert_same_calibrator, breaks, fitted

GOLDEN = Path(__file__).parents[1] / "golden"

HANG = 60
"""Seconds that no file takes, on a busy machine or with sanitizers; a quiet one takes three."""


@pytest.mark.parametrize(
    ("method", "change", "rule"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_file_that_breaks_a_rule_is_refused(method, change, rule):
    frame = take_apart(dumps(fitted(method)))
    change(frame)
    started = process_time()
    with breaks(rule) as caught:
        loads(frame.assemble())
    assert len(str(caught.value)) < 500
    assert process_time() - started < HANG  # not a measurement: nothing hangs


def test_every_case_starts_from_a_file_that_loads():
    for method in {c[1] for c in CASES}:
        frame = take_apart(dumps(fitted(method)))
        assert_same_calibrator(fitted(method), loads(frame.assemble()))


@needs_pages
def test_every_rule_is_broken_by_some_case_and_stands_on_the_page():
    elsewhere = {"checksum", "digest", "regular", "size", "unchanged", "savable"}
    page = Path(__file__).parents[2] / "docs" / "reference" / "model-files.md"
    table = page.read_text().split("## Errors")[1].split("\n## ")[0]
    assert {c[3] for c in CASES} | elsewhere == {*re.findall(r"^\| `(\w+)`", table, re.MULTILINE)}


class Bomb:
    """Unpickling this makes a directory."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", [0, 5])
def test_a_pickle_is_refused_and_never_executed(protocol, tmp_path):
    path = tmp_path / "model.calibrant"
    path.write_bytes(pickle.dumps(Bomb(str(tmp_path / "executed")), protocol))
    with breaks("magic"):
        load(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system here")
@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")
    path = {"directory": tmp_path, "pipe": tmp_path / "pipe", "device": "/dev/zero"}[kind]
    with breaks("regular"):
        load(path)


def test_a_file_above_the_limit_is_refused_before_it_is_read(tmp_path):
    huge = tmp_path / "huge.calibrant"
    with huge.open("wb") as file:
        file.truncate(2**40)  # sparse: reading it would take for ever
    with breaks("size"):
        load(huge)


@pytest.mark.parametrize("difference", [-8, 8])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, difference):
    path = tmp_path / "model.calibrant"
    save(fitted("ts"), path)
    found = list(os.stat(path))  # noqa: PTH116
    found[6] += difference  # the size
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(found))
    with breaks("unchanged"):
        load(path)


def test_a_pinned_digest_admits_one_file_only(tmp_path):
    path = tmp_path / "model.calibrant"
    digest = save(fitted("ts"), path)
    assert load(path, sha256=digest.upper())
    frame = take_apart(path.read_bytes())
    frame.part()["fitted"]["inverse_temperature_"] = 0.25
    path.write_bytes(frame.assemble())
    assert load(path).inverse_temperature_ == 0.25  # the checksum does not stop a forger
    with breaks("digest"):
        load(path, sha256=digest)
    frame.header = b"\xff" * 64  # which nobody looks at
    with breaks("digest"):
        loads(frame.assemble(), sha256=digest)


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "0" * 65])
def test_a_digest_that_is_none_is_refused(digest):
    with refuses("sha256", value=digest):
        loads(b"", sha256=digest)


def test_only_bytes_are_loaded_and_none_are_shared():
    for data in (5, "text", None):
        with pytest.raises(TypeError):
            loads(data)
    data = bytearray(dumps(fitted("vs")))
    for kind in (bytearray, memoryview):
        calibrator = loads(kind(data))
    data[:] = bytes(len(data))
    np.testing.assert_array_equal(calibrator.coef_, fitted("vs").coef_)


def test_a_name_of_features_that_is_repeated_is_refused():
    """No data frame would have both columns."""
    frame = take_apart((GOLDEN / "1.0" / "features.calibrant").read_bytes())
    first, second = frame.part()["fitted"]["columns_"]
    first["name"] = second["name"]
    with breaks("fitted"):
        loads(frame.assemble())


# Random damage


@pytest.mark.parametrize(("n_files", "seed"), [(1500, "quick"), (200, "golden")])
def test_damaged_files_are_refused_or_harmless(n_files, seed):
    files = [dumps(fitted(method, kind)) for method in METHODS for kind in KINDS]
    if seed == "golden":
        files = [path.read_bytes() for path in sorted(GOLDEN.glob("*/*.calibrant"))]
    assert {judge(data) for data in files} == {"loaded"}
    outcomes = storm(files, n_files, seed)
    assert outcomes["loaded"] > 20  # otherwise nothing behind the checks is tried
    assert len(outcomes) >= 9
