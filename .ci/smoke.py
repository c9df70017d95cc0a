"""What an installed calibrant must do: fit, save, load and apply by its command, with every kernel.

Run it with the Python of an environment that has nothing but calibrant and its extra ``cli``.
"""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import calibrant
from calibrant import _kernels as kernels
from calibrant.datasets import simulated_scores
from calibrant.model_file import load

METHODS = ("auto", "na-fir", "scir", "spline", "structured", "ts")


def run(*words, build):
    """A command that must succeed, with one build of the kernels."""
    command = [sys.executable, "-m", "calibrant", *map(str, words)]
    subprocess.run(command, check=True, env={**os.environ, "CALIBRANT_KERNELS": build})


def calibrated(folder, method, build):
    """What fit and apply make of the files in the folder."""
    model, out = folder / f"{method}.calibrant", folder / "out.npy"
    run("fit", folder / "val.npz", "-m", method, "-o", model, build=build)
    run("apply", model, folder / "new.npy", "-o", out, build=build)
    return model, np.load(out)


installed = Path(calibrant.__file__)
assert "site-packages" in installed.parts, f"{installed} is not installed"
for name in kernels.MODULES:
    import_module(f"calibrant._kernels.baseline.{name}")
    import_module(f"calibrant._kernels.{kernels.BUILD}.{name}")

scores, y = simulated_scores(800)
with TemporaryDirectory() as name:
    folder = Path(name)
    np.savez(folder / "val.npz", probs=scores[:400], labels=y[:400])
    np.save(folder / "new.npy", scores[400:])
    for method in METHODS:
        model, quick = calibrated(folder, method, "")
        loaded = load(model).predict_proba(scores[400:])
        assert (loaded == quick).all(), f"{method}: the command and the class differ"
        _, plain = calibrated(folder, method, "baseline")
        assert (plain == quick).all(), f"{method}: {kernels.BUILD} and baseline differ"
print(
    f"{installed.parent}: {', '.join(METHODS)} give the same bits in baseline and {kernels.BUILD}"
)
