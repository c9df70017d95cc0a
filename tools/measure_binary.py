"""Measure intervals and tests of two classes; prints the tables of evidence/intervals.md.

    OMP_NUM_THREADS=1 python tools/measure_binary.py [N [TABLE ...]]

N simulations for each case, 400 by default. Tables are intervals (how often those of
binary_summary hold) and tests (how often calibration_test rejects right and wrong predictions of
20,000 rows).
"""

import sys
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from calibrant.metrics import binary_summary, calibration_test

NUMBERS = ("auc", "predicted_over_observed", "slope", "intercept")
SIZES = (50, 100, 500, 5000)
SPREADS = {"mild": 1.0, "sharp": 4.0}
SHARES = (0.5, 0.02)
SAID = {"right": (0.0, 1.0), "wrong": (0.5, 0.6)}
"""Intercept and slope of the true log-odds on those that are said."""

RATES, N_ROWS = (0.01, 0.05, 0.40), 20_000
WRONG = {
    "right": lambda z, _: z,
    "reversed": lambda z, middle: 2 * middle - z,
    "shift of 0.7": lambda z, _: z - 0.7,
    "shift of 0.3": lambda z, _: z - 0.3,
    "slope of 2": lambda z, middle: middle + 2.0 * (z - middle),
    "slope of 1.3": lambda z, middle: middle + 1.3 * (z - middle),
    "class weights": lambda z, middle: z - middle,
}


def middle_of(share, spread):
    """Mean of normal log-odds whose mean probability is a share."""
    nodes, weight = np.polynomial.hermite_e.hermegauss(200)
    weight /= weight.sum()
    return brentq(lambda m: weight @ expit(m + spread * nodes) - share, -60, 60)


def draw(rng, n_rows, middle, spread):
    z = rng.normal(middle, spread, n_rows)
    return z, (rng.random(n_rows) < expit(z)).astype(int)


@cache
def true_auc(share, spread):
    z, y = draw(np.random.default_rng(1), 2_000_000, middle_of(share, spread), spread)
    return roc_auc_score(y, z)


def coverage(share, spread, said, n_rows, n_times):
    """Of each number: how often an interval was there, held, and did not, in percent of draws."""
    rng = np.random.default_rng([n_rows, int(100 * share), int(spread)])
    a, b = SAID[said]
    middle = middle_of(share, spread)
    nodes, weight = np.polynomial.hermite_e.hermegauss(200)
    said_on_average = weight @ expit((middle + spread * nodes - a) / b) / weight.sum()
    truth = true_auc(share, spread), said_on_average / share, b, a
    held = {name: [] for name in NUMBERS}
    for _ in range(n_times):
        z, y = draw(rng, n_rows, middle, spread)
        found = binary_summary(y, expit((z - a) / b), classes=[0, 1])
        for name, value in zip(NUMBERS, truth, strict=True):
            own = getattr(found, name)
            held[name] += [] if np.isnan(own.low) else [own.low <= value <= own.high]
    return {name: (len(own) / n_times, own) for name, own in held.items()}


def show_intervals(n_times):
    print("| positives, scores, predictions, rows | " + " | ".join(NUMBERS) + " |")
    print("|---" * 5 + "|")
    for share in SHARES:
        for name, spread in SPREADS.items():
            for said in SAID:
                for n_rows in SIZES:
                    found = coverage(share, spread, said, n_rows, n_times)
                    cells = [
                        "none"
                        if part < 0.02
                        else f"{100 * np.mean(own):.1f}"
                        + (f" (in {100 * part:.0f} %)" if part < 0.98 else "")
                        for part, own in found.values()
                    ]
                    title = f"{100 * share:g} %, {name}, {said}, {n_rows:,}"
                    print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def show_tests(n_times):
    print("| predictions | " + " | ".join(f"{100 * rate:g} % positives" for rate in RATES) + " |")
    print("|---" * 4 + "|")
    for name, says in WRONG.items():
        cells = []
        for rate in RATES:
            middle = middle_of(rate, 1.2)
            rng = np.random.default_rng(int(1000 * rate))
            p_values = []
            n_draws, level, n_resamples = (20, 0.01, 499)
            if name == "right":  # fewer resamples have more ties, and reject less
                n_draws, level, n_resamples = n_times, 0.05, 399
            for seed in range(n_draws):
                z, y = draw(rng, N_ROWS, middle, 1.2)
                told = {"n_resamples": n_resamples, "random_state": seed}
                p_values.append(calibration_test(y, expit(says(z, middle)), **told).p_value)
            cells.append(f"{100 * np.mean(np.array(p_values) <= level):.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


TABLES = {"intervals": show_intervals, "tests": show_tests}

if __name__ == "__main__":
    n_times, *names = sys.argv[1:] or ["400"]
    for table in names or TABLES:
        TABLES[table](int(n_times))
