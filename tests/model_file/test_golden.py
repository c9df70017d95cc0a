"""Old files load for ever, and no damage to them goes unnoticed."""

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import errors
from calibrant.model_file import _format as frame
from calibrant.model_file import describe, dumps, load, loads
from hostile_files.frame import take_apart
from model_file.catalogue import METHODS, breaks, quietly, same, scores_of

FOLDER = Path(__file__).parents[1] / "golden"
FILES = sorted(FOLDER.glob("*/*.calibrant"))
DAILY = FOLDER / f"{frame.MAJOR}.{frame.WITH_MORE}" / "daily.calibrant"
SMALL = [FOLDER / "1.0" / f"{method}.calibrant" for method in ("ts", "fir", "scir")]


def name(path):
    return f"{path.parent.name}-{path.stem}"


def test_every_calibrator_has_a_golden_file():
    assert {path.stem for path in FILES} == {*METHODS, "grouped", "features", "daily"}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_golden_file_predicts_what_it_always_did(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    calibrator = load(path, sha256=expected["sha256"])
    assert calibrator.classes_.tolist() == expected["classes"]
    by_row = {name: expected[name] for name in ("groups", "features") if name in expected}
    found = calibrator.predict_proba(np.array(expected["rows"]), **by_row)
    np.testing.assert_allclose(found, expected["predictions"], rtol=1e-12, atol=1e-15)


def test_rows_of_a_golden_file_are_those_that_would_be_counted_now():
    """So that a row that comes once more is not a new one."""
    calibrator = load(DAILY)
    scores, y = scores_of(n_rows=60)
    again = quietly(calibrator.partial_fit, scores[:30], y[:30], decay=0.5)
    assert repr(again.sample_) == "RowSample(60 kept of 60 rows, 3 classes)"
    again = quietly(load(DAILY).partial_fit, scores[:30], y[:30])
    assert repr(again.sample_) == "RowSample(30 kept of 60 rows, 3 classes)"


def without_times(stored):
    """Remove what earlier files say of the time that a fit took."""
    if isinstance(stored, dict):
        stored.pop("seconds", None)
        stored = list(stored.values())
    for inside in stored if isinstance(stored, list) else ():
        without_times(inside)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_golden_file_is_written_again_byte_by_byte(path, monkeypatch):
    found = describe(path)
    monkeypatch.setattr(frame, "__version__", found["library"].split()[1])
    again = take_apart(dumps(load(path), sample=path == DAILY))
    old = take_apart(path.read_bytes())
    for was, now in zip(old.header["parts"], again.header["parts"], strict=True):
        # A parameter that came later is written when the file is saved again.
        now["parameters"] = {k: v for k, v in now["parameters"].items() if k in was["parameters"]}
        without_times(was["fitted"])  # which files have no more
        if was["method"] == "auto":  # so are fields of its report
            report = now["fitted"]["report_"]
            now["fitted"]["report_"] = {k: report[k] for k in was["fitted"]["report_"]}
        if was["method"] == "na-fir":  # loose options of annealing are not read
            was["parameters"] = {k: was["parameters"][k] for k in now["parameters"]}
    assert found["format"] == path.parent.name
    assert again.text() == old.text()
    assert again.data == old.data
    assert same(loads(dumps(load(path))), load(path))


@pytest.mark.parametrize("path", SMALL, ids=name)
def test_no_truncation_loads(path):
    data = path.read_bytes()
    for length in range(len(data)):
        with pytest.raises(errors.ModelFileError) as caught:
            loads(data[:length])
        assert caught.value.rule in {"magic", "length", "checksum"}


@pytest.mark.parametrize("path", SMALL, ids=name)
def test_no_flipped_bit_loads(path):
    data = bytearray(path.read_bytes())
    for i in range(len(data)):
        for bit in range(8):
            data[i] ^= 1 << bit
            with pytest.raises(errors.ModelFileError):
                loads(data)
            data[i] ^= 1 << bit
    assert loads(data)


def test_bytes_that_are_added_break_the_checksum():
    with breaks("checksum"):
        loads(SMALL[0].read_bytes() + b"\0")
