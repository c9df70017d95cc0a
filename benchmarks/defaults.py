"""Default fits as ratios to a sort of the same numbers: ``make bench-defaults``.

A fit and ``np.argsort(P.ravel())`` take turns in one process, on one thread; a ratio is the median
over pairs of seconds of the processor, so that it means the same on every machine. The JSON file
holds ``defaults``, a list of

    {"method", "rows", "classes", "ratio_to_argsort", "seconds", "argsort_seconds", "repeats"}

and is written whole after each. The whole takes less than fifteen minutes.
"""

import os

from workers import ONE_THREAD

if __name__ == "__main__":
    os.environ |= ONE_THREAD  # before anything loads a thread pool

import argparse
import warnings
from pathlib import Path
from statistics import median
from time import monotonic, process_time

import numpy as np

from calibrant import _trial as trial
from measure import rows_of, shape_of
from our_methods import make
from peers import BUILD, Results, machine

METHODS = ("fir", "ts", "na-fir", "scir", "spline", "structured", "auto")
SIZES = ("100,000 x 10", "1,000,000 x 10", "12,500 x 1,000")
FEWEST, MOST = 3, 15


def seconds(run):
    began = process_time()
    run()
    return process_time() - began


def ratio(method, size, budget):
    """A fit beside a sort, in turn, for so many seconds and three times at least.

    One that takes longer than the whole budget is made twice, one that takes far longer once.
    """
    p, y = rows_of(size)
    flat = p.ravel()
    fits, sorts = [], []
    until, fewest = monotonic() + budget, FEWEST
    while len(fits) < fewest or (len(fits) < MOST and monotonic() < until):
        sorts.append(seconds(lambda: np.argsort(flat)))
        fits.append(seconds(lambda: make(None, method, p.shape[1]).fit(p, y)))
        if fits[0] > budget:
            fewest = 2 if fits[0] < 3 * budget else 1
    sorts.append(seconds(lambda: np.argsort(flat)))
    # Each fit beside the sorts before and after it.
    pairs = [2 * fit / (a + b) for fit, a, b in zip(fits, sorts, sorts[1:], strict=False)]
    return {
        "ratio_to_argsort": median(pairs),
        "seconds": median(fits),
        "argsort_seconds": median(sorts),
        "repeats": len(fits),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=BUILD / "defaults.json")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=METHODS)
    parser.add_argument("--sizes", type=lambda text: text.split(";"), default=SIZES)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each cell")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = Results(options.output)
    results.found |= {
        "versions": trial.versions(),
        "machine": machine(),
        "all_methods": METHODS,
        "all_sizes": SIZES,
    }
    for size in options.sizes:
        n_rows, n_classes = shape_of(size)
        for method in options.methods:
            make(None, method, 3).fit(*rows_of("300 x 3"))  # imports
            found = ratio(method, size, options.budget)
            key = {"method": method, "rows": n_rows, "classes": n_classes}
            results.put("defaults", found, **key)
            words = f"{found['seconds']:.3g} s, {found['repeats']} times"
            print(f"{found['ratio_to_argsort']:9.3f}  {method}, {size}  ({words})", flush=True)
        rows_of.cache_clear()


if __name__ == "__main__":
    main()
