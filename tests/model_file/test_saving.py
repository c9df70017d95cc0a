"""Saving is atomic and safe, and reading costs no more memory than it must."""

import copy
import hashlib
import re
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import calibrant.model_file
from calibrant.errors import ModelFileError
from calibrant.model_file import dumps, load, loads, save
from hostile_files.frame import take_apart
from model_file.catalogue import assert_same_calibrator, fitted

SOURCES = [
    *Path(calibrant.model_file.__file__).parent.glob("*.py"),
    Path(calibrant.__file__).parent / "_atomic_file.py",
]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "model.calibrant"
    save(fitted("fir"), path)
    digest = save(fitted("ts"), path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ModelFileError):
        save("not a calibrator", path)
    assert_same_calibrator(fitted("ts"), load(path))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_nothing_in_a_file_can_be_executed():
    """No module that runs what it reads, nothing imported or evaluated by name."""
    imports = r"^ *(import|from) (pickle|joblib|marshal|shelve|importlib|dill|yaml|ctypes)\b"
    calls = r"(?<![.\w])(eval|exec|compile|__import__|globals|locals|import_module)\("
    for path in SOURCES:
        assert not re.search(f"{imports}|{calls}|allow_pickle", path.read_text(), re.MULTILINE)


def peak_of(function, *arguments, refused=False):
    """Return the most memory that was in use during a call, in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) if refused else nullcontext():
            function(*arguments)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def large_matrix(k=1000):
    small = copy.copy(fitted("ms"))
    del small.score_summary_  # which is of three classes
    frame = take_apart(dumps(small))
    frame.replace_array("vector/0", np.arange(k))
    frame.replace_array("coef_", np.eye(k))
    frame.replace_array("intercept_", np.zeros(k))
    return frame


def test_loading_needs_little_more_memory_than_the_file(tmp_path):
    path = tmp_path / "model.calibrant"
    path.write_bytes(large_matrix().assemble())
    size = path.stat().st_size
    assert size > 8_000_000
    assert peak_of(load, path) < 1.2 * size + 2**20


def test_saving_needs_little_memory_beside_the_calibrator(tmp_path):
    calibrator = loads(large_matrix().assemble())
    assert peak_of(save, calibrator, tmp_path / "model.calibrant") < 2**20


@pytest.mark.parametrize("shape", [[2**40], [2**20, 2**20], [2**62], [2**31, 2**31, 2]])
def test_sizes_that_a_file_claims_are_not_allocated(shape):
    frame = take_apart(dumps(fitted("fir")))
    frame.entry("thresholds")["shape"] = shape
    assert peak_of(loads, frame.assemble(), refused=True) < 2**20
