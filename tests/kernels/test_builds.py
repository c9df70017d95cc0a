"""Both builds of the kernels, and threads that call them at once, give the same bits."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from calibrant import _kernels as kernels
from calibrant._kernels.processor import has_vectors

TESTS = Path(__file__).parents[1]
SOURCES = TESTS.parent / "src" / "calibrant" / "_kernels"
HAS_TWO = find_spec(f"calibrant._kernels.x86_64_v3.{kernels.MODULES[0]}") is not None
needs_two = pytest.mark.skipif(not HAS_TWO or not has_vectors(), reason="one build only")


@cache
def every_number(build, n_threads):
    """What ``every_number.py`` prints in a process that takes this build."""
    own = {"CALIBRANT_KERNELS": build, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    out = subprocess.run(
        [sys.executable, TESTS / "kernels" / "every_number.py", str(n_threads)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | own,
    )
    assert out.returncode == 0, out.stderr[-4000:]
    assert "Exception ignored" not in out.stderr  # a cdef function can do no more than say so
    return json.loads(out.stdout.splitlines()[-1])


@needs_two
def test_both_builds_give_the_same_bits():
    plain, vectors = every_number("baseline", 1), every_number("", 2)
    assert (plain["build"], vectors["build"]) == ("baseline", "x86_64_v3")
    assert len(plain["digests"]) > 80
    differing = [
        name for name, bits in plain["digests"].items() if vectors["digests"][name] != bits
    ]
    assert not differing


def test_two_threads_give_the_same_bits():
    assert every_number("", 2)["differing"] == []


def test_every_kernel_is_among_those_compared():
    assert every_number("", 2)["idle"] == []


def test_every_module_has_its_builds():
    compiled = {path.stem for path in SOURCES.glob("*.pyx")} - {"processor"}
    assert set(kernels.MODULES) == compiled
    listed = re.search(
        r"^modules = \[(.*?)\]", (SOURCES / "meson.build").read_text(), re.DOTALL | re.MULTILINE
    )
    assert set(re.findall(r"\w+", listed[1])) == compiled
    for name in compiled:
        assert find_spec(f"calibrant._kernels.baseline.{name}")
        assert (find_spec(f"calibrant._kernels.x86_64_v3.{name}") is not None) == HAS_TWO
        taken = sys.modules[f"calibrant._kernels.{name}"].__spec__.origin
        assert Path(taken).parent.name == kernels.BUILD


@needs_two
def test_the_processor_decides_which_build_is_taken():
    wanted = "baseline" if os.environ.get("CALIBRANT_KERNELS") == "baseline" else "x86_64_v3"
    assert wanted == kernels.BUILD
