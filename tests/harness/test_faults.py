"""Where memory or the disk ends: errors that say so, nothing half written, and the old fit."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
CC = shutil.which("cc")
pytestmark = pytest.mark.skipif(
    CC is None or not sys.platform.startswith("linux"), reason="needs cc and a preloaded library"
)


@pytest.fixture(scope="module")
def inject(tmp_path_factory):
    """Build both libraries, and return a function that injects faults and reports on them."""
    home = tmp_path_factory.mktemp("faults")
    include = [f"-I{np.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
    for name, words in (("faults", ["-ldl"]), ("allocations", include)):
        source, built = HERE / f"{name}.c", home / f"{name}.so"
        line = [CC, "-shared", "-fPIC", "-O1", source, *words, "-o", built]
        subprocess.run(line, check=True, capture_output=True)

    def run(what, *names):
        preload = {"LD_PRELOAD": str(home / "faults.so")} if what == "writes" else {}
        path = os.pathsep.join([str(home), *sys.path])
        done = subprocess.run(
            [sys.executable, HERE / "run_faults.py", what, *names],
            env={**os.environ, **preload, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def check(tried):
    for one in tried:
        assert one["wrong"] == [], one
        assert one["faults"] == one["raised"] + one["same"] > 0


def test_every_write_may_fail(inject):
    tried = inject("writes", ".csv", ".npy", ".npz", "model file", "directory", "monitor")
    check(tried)
    assert sum(one["raised"] for one in tried) > 60


def test_every_array_may_lack_memory(inject):
    tried = inject("memory", "save", "load", "check")
    check(tried)
    assert sum(one["raised"] for one in tried) > 100


@pytest.mark.slow
@pytest.mark.parametrize("what", ["writes", "memory"])
def test_everything_that_writes_and_fits(inject, what):
    check(inject(what))
