"""Measure how many rows a choice by cross-validation needs; prints the table of choices.md.

    OMP_NUM_THREADS=1 python tools/measure_choices.py DIR

Each method is fitted to two thirds of the validation part of each file, its parameter chosen on
all of these rows or on some of them, and judged on the last third. No test part is read.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from calibrant import MonotoneSpline, NormalizationAwareIsotonic, SortedCumulativeIsotonic
from calibrant._solvers import rows

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from measure import read_part

METHODS = (NormalizationAwareIsotonic, SortedCumulativeIsotonic, MonotoneSpline)
BOUNDS = (300, 600, 1200, 2500)
ALL = 1 << 62


def losses(method, n_rows, p, y, held):
    """NLL of each held-out row, where a choice looks at so many rows."""
    rows.CHOICE_CELLS, rows.LEAST_CHOICE_ROWS = 1, n_rows
    fitted = method(classes=np.arange(p.shape[1])).fit(p[~held], y[~held])
    own = fitted.predict_proba(p[held])[np.arange(held.sum()), y[held]]
    return -np.log(np.maximum(own, 1e-12))


def measure(path, method):
    """Mean change of the NLL for each bound that is one, relative, and its standard error."""
    p, y = read_part(path, "val")
    held = np.random.default_rng(0).permutation(len(y)) % 3 == 0
    whole = losses(method, ALL, p, y, held)
    found = {}
    for bound in BOUNDS:
        if bound < np.count_nonzero(~held):
            gap = losses(method, bound, p, y, held) - whole
            found[bound] = gap.mean() / whole.mean(), gap.std() / np.sqrt(len(gap)) / whole.mean()
    return found


def main(folder):
    warnings.simplefilter("ignore")
    print("| method | rows | classifiers | mean change, % | worst | two standard errors |")
    print("|---|---:|---:|---:|---:|---:|")
    for method in METHODS:
        found = [measure(path, method) for path in sorted(Path(folder).glob("*.npz"))]
        for bound in BOUNDS:
            gaps, errors = np.array([one[bound] for one in found if bound in one]).T
            values = 100 * gaps.mean(), 100 * gaps.max(), 200 * errors.mean()
            words = " | ".join(f"{value:.3f}" for value in values)
            print(f"| `{method.method}` | {bound:,} | {len(gaps)} | {words} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
