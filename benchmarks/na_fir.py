"""NA-FIR: fits as ratios to sorting the cells, peak memory, prediction against numpy."""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from calibrant import NormalizationAwareIsotonic
from measure import print_ratios, race, simulate

MEMORY = """
import sys, warnings
from pathlib import Path
import numpy as np
from calibrant import NormalizationAwareIsotonic
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
small = rng.dirichlet(np.ones(5), 300)
parameters = {} if sys.argv[3] == "cv" else {"prior_strength": float(sys.argv[3])}
NormalizationAwareIsotonic(**parameters).fit(small, rng.integers(0, 5, 300))  # imports
p, y = np.load(sys.argv[1]), np.load(sys.argv[2])
float(p.sum())
def peak():  # of this program; getrusage starts from the peak of its parent
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
before = peak()
NormalizationAwareIsotonic(classes=np.arange(p.shape[1]), **parameters).fit(p, y)
print((peak() - before) / p.nbytes)
"""


def fits(n_rows, n_classes, goal):
    p, y = simulate(n_rows, n_classes)
    classes = np.arange(n_classes)

    def fit(prior_strength):
        return NormalizationAwareIsotonic(classes=classes, prior_strength=prior_strength).fit(p, y)

    seconds = race(
        {
            "np.argsort of the cells": lambda: np.argsort(p.ravel()),
            "prior_strength=20": lambda: fit(20.0),
            "prior_strength=0": lambda: fit(0.0),
            "prior_strength='cv' (default)": lambda: fit("cv"),
        },
        3 if p.size > 10**6 else 9,
    )
    goals = {"prior_strength=20": goal, "prior_strength='cv' (default)": 4 * goal}
    print_ratios(f"fit, {n_rows:,} x {n_classes:,}, to 1e-8", seconds, goals)
    ratio = seconds["prior_strength='cv' (default)"] / seconds["prior_strength=20"]
    print(f"  the default over a given strength: {ratio:.2f}x   goal <= 4x")
    for strength in (20.0, "cv"):
        report = fit(strength).solver_report_
        print(f"  {report.n_blocks} blocks, {report.rounds} rounds, {report.violation:.1e}")


def memory(n_rows, n_classes):
    p, y = simulate(n_rows, n_classes)
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("p.npy", "y.npy")]
        for path, array in zip(paths, (p, y), strict=True):
            np.save(path, array)
        print(f"\npeak memory above the input, {n_rows:,} x {n_classes:,}")
        for strength in ("0", "20", "cv"):
            command = [sys.executable, "-c", MEMORY, *paths, strength]
            found = float(subprocess.run(command, capture_output=True, check=True).stdout)
            print(f"  prior_strength={strength:<4} {found:.2f}x the matrix   goal <= 3x")


def predictions(n_rows, n_classes):
    p, y = simulate(n_rows, n_classes)
    calibrator = NormalizationAwareIsotonic(prior_strength=20, classes=np.arange(n_classes))
    calibrator.fit(p[:12_500], y[:12_500])
    step = calibrator.step_function_

    def plain():
        mapped = step.values[np.searchsorted(step.thresholds, p, side="right") - 1]
        return mapped / mapped.sum(axis=1, keepdims=True)

    seconds = race(
        {
            "numpy searchsorted + divide": plain,
            "predict_proba": lambda: calibrator.predict_proba(p),
        }
    )
    print_ratios(f"predict, {n_rows:,} x {n_classes:,}", seconds, {"predict_proba": 1 / 3})
    print(f"  {n_rows / seconds['predict_proba'] / 1e6:.2f} M rows/s, {step.n_blocks} blocks")


def main():
    warnings.simplefilter("ignore")
    fits(5_000, 100, 8)
    fits(12_500, 1_000, 3)
    memory(12_500, 1_000)
    for shape in ((500_000, 10), (12_500, 1_000)):
        predictions(*shape)


if __name__ == "__main__":
    main()
