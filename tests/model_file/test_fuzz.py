"""Damaged files with a right checksum: refused, or a calibrator that still keeps its promises."""

from pathlib import Path

import pytest

from calibrant.model_file import dumps
from hostile_files.frame import take_apart
from hostile_files.judge import judge, storm
from model_file.catalogue import KINDS, METHODS, fitted

TESTS = Path(__file__).parents[1]
HANG = 20
"""Seconds that no file takes, however busy the machine is."""


def run(n_files, seed):
    files = [dumps(fitted(method, kind)) for method in METHODS for kind in KINDS]
    return storm(files, n_files, seed, HANG)


def test_damaged_files_are_refused_or_harmless():
    outcomes = run(3000, "quick")
    assert outcomes["loaded"] > 100  # otherwise nothing behind the checks is tried
    assert len(outcomes) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_damaged_files_are_refused_or_harmless(part):
    assert run(10_000, part)["loaded"] > 500


def golden_files():
    """Every golden file, and again as one that takes logits where that is one parameter."""
    for path in sorted((TESTS / "golden").glob("*/*.calibrant")):
        yield path.read_bytes()
        frame = take_apart(path.read_bytes())
        if path.stem not in {"auto", "chain", "features", "grouped"}:
            for part in frame.header["parts"]:
                part["parameters"]["scores"] = "logits"
            yield frame.assemble()


def test_damaged_golden_files_are_refused_or_harmless():
    files = [*golden_files()]
    assert {judge(data, HANG) for data in files} == {"loaded"}
    assert storm(files, 300, "golden", HANG)["loaded"] > 50
