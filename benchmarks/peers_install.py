"""Install the packages that ``peers.py`` measures into the environment that runs this.

Each in a call of its own, so that one that cannot be installed costs no other. What came of it is
in ``peers.json`` beside ``pyvenv.cfg``: a version, or the last line of pip's error.
"""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

TORCH = "torch==2.13.0"  # an open range fetches gigabytes
CALLS = {
    "torch": [[TORCH]],
    "scikit-learn": [["scikit-learn>=1.8"]],
    "netcal": [["netcal", TORCH]],
    # Of its extra only what its calibrators import: the rest are gradient boosters.
    "probmetrics": [["probmetrics", "numba>=0.59", TORCH]],
    "betacal": [["betacal"]],
    # It asks for Python 3.12, and runs on 3.11; releases that do not ask cannot be built.
    "dirichletcal": [["jax"], ["--no-deps", "--ignore-requires-python", "dirichletcal>=0.5"]],
    "venn-abers": [["venn-abers"]],
    "splinecalib": [["splinecalib"]],
    "MAPIE": [["MAPIE"]],
    "relplot": [["relplot"]],
    "torchmetrics": [["torchmetrics", TORCH]],
    "uncertainty-calibration": [["uncertainty-calibration"]],
}


def install(arguments):
    """Call pip; returns the last line of its error, or nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return (said or ["pip failed"])[-1] if done.returncode else ""


def main():
    found = {}
    for name, calls in CALLS.items():
        errors = [error for error in map(install, calls) if error]
        found[name] = {"error": errors[-1]} if errors else {"version": metadata.version(name)}
        print(name, *found[name].values(), flush=True)
    path = Path(sys.prefix) / "peers.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
