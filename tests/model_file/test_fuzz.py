"""Damaged files with a right checksum: refused, or a calibrator that still keeps its promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from calibrant.model_file import dumps
from hostile_files.judge import storm
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


def run_with_bounds_checks(tmp_path, n_files, seconds):
    """Run in a process of its own: kernels that were compiled without checks stay without."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    own = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}
    command = [sys.executable, "-m", "hostile_files", "bounds", str(n_files), str(seconds)]
    out = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | own, cwd=TESTS
    )
    assert out.returncode == 0, out.stderr[-2000:]
    return json.loads(out.stdout)


def test_damaged_files_under_bounds_checks(tmp_path):
    assert run_with_bounds_checks(tmp_path, 300, HANG)["loaded"] > 50


@pytest.mark.slow
def test_ten_thousand_damaged_files_under_bounds_checks(tmp_path):
    outcomes = run_with_bounds_checks(tmp_path, 10_000, 2)
    assert outcomes["loaded"] > 500
