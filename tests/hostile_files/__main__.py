"""Damage golden files in a process of its own, where kernels are compiled with bounds checks.

``python -m hostile_files SEED N_FILES SECONDS``, with ``NUMBA_BOUNDSCHECK=1`` and a cache of its
own: a kernel that reads or writes outside an array raises ``IndexError`` instead of going on.
"""

import json
import sys
from pathlib import Path

import numba

from hostile_files.frame import take_apart
from hostile_files.judge import judge, storm

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/*.calibrant"))


def files():
    """Every golden file, and again as one that takes logits where that is one parameter."""
    for path in GOLDEN:
        data = path.read_bytes()
        yield data
        frame = take_apart(data)
        if path.stem not in {"chain", "auto"}:
            for part in frame.header["parts"]:
                part["parameters"]["scores"] = "logits"
            yield frame.assemble()


def main(seed, n_files, seconds):
    """Print how often a file was loaded, and how often it was refused with which error."""
    assert numba.config.BOUNDSCHECK == 1
    whole = list(files())
    for data in whole:  # compiles
        assert judge(data, 1e9) == "loaded"
    outcomes = storm(whole, int(n_files), seed, float(seconds))
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
