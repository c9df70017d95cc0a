"""The checked builds of ``make test-checked`` see what they are for."""

import os
import subprocess
import sys

import pytest

CHECKS = os.environ.get("CALIBRANT_CHECKS", "")
"""Which of the two builds this is, as the Makefile says."""

pytestmark = pytest.mark.skipif(not CHECKS, reason="in checked builds only")

WORDS = {"bounds": "IndexError: Out of bounds", "sanitizers": "AddressSanitizer: heap-buffer-"}
"""What the end of a process says."""

BEYOND = {
    "written": "softmax.scaled_softmax(np.zeros((4, 3)), 1.0, np.empty((3, 3)))",
    "read": "softmax.row_sums(np.zeros((4, 3)), np.zeros(3, np.int64), 1.0, *np.empty((3, 4)))",
}
UNDEFINED = (
    "softmax.row_sums(np.full((1, 2), 1e300), np.zeros(1, np.int64), 1.0, *np.empty((3, 1)))"
)
"""2^n of an n that is no 32-bit number; logits less the largest of their row are never above 0."""


def last_words(call):
    """Standard error of a process that makes a call and should not live to tell."""
    code = f"import numpy as np; from calibrant._kernels import softmax; {call}; print('lived')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode != 0
    assert "lived" not in out.stdout
    return out.stderr


@pytest.mark.parametrize("call", BEYOND.values(), ids=BEYOND)
def test_a_cell_outside_an_array_is_noticed(call):
    assert WORDS[CHECKS] in last_words(call)


@pytest.mark.skipif(CHECKS != "sanitizers", reason="with sanitizers only")
def test_undefined_behaviour_is_noticed():
    assert "outside the range of representable values" in last_words(UNDEFINED)
