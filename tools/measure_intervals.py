"""Measure how often intervals hold and tests reject; prints the tables of evidence/intervals.md.

    OMP_NUM_THREADS=1 python tools/measure_intervals.py [N [PROCESSES [TABLE ...]]]

N simulations for each case, ten times as many for the p-values of cumulative_differences; 400 and
two processes by default. Tables are cumulative, tests and evaluate; all by default.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

from calibrant.metrics import calibration_test, class_shares, cumulative_differences, evaluate

POPULATION = 400_000

TESTED = {
    "3,000 x 10": (3000, 10, 0.0, 1.5, False),
    "300 x 10": (300, 10, 0.0, 1.5, False),
    "100 x 10": (100, 10, 0.0, 1.5, False),
    "30 x 10": (30, 10, 0.0, 1.5, False),
    "300 x 10, sharp": (300, 10, 0.0, 6.0, False),
    "300 x 10, weighted": (300, 10, 0.0, 1.5, True),
    "300 x 2": (300, 2, 0.0, 1.5, False),
    "100 x 2": (100, 2, 0.0, 1.5, False),
    "30 x 2": (30, 2, 0.0, 1.5, False),
    "300 x 2, sharp": (300, 2, 0.0, 6.0, False),
    "300 x 2, weighted": (300, 2, 0.0, 1.5, True),
    "300 x 2, 2 % positive": (300, 2, 5.0, 1.5, False),
    "5,000 x 2, 2 % positive": (5000, 2, 5.0, 1.5, False),
}
"""Calibrated predictions: rows, classes, shift of the first logit, spread of logits, weights.

Weights are of a gamma distribution of shape 1/2: a tenth of the rows has half of the weight.
"""

SIZES = (50, 100, 500, 5000)
SPREADS = {"mild": 1.5, "sharp": 6.0}
SAID = {"calibrated": (1.0, 0.0), "over-confident": (1.5, 0.0), "and biased": (1.5, 0.5)}
"""Power of the probabilities, and by how much the last class is favoured over the first."""

NAMES = ("accuracy", "negative_log_likelihood", "brier_score", "positive_ece", "confidence_ece")


def softmax(z):
    found = np.exp(z - z.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def draw(rng, n_rows, n_classes, spread, power, tilt):
    """Calibrated rows, and what a classifier says that sharpens them and favours some classes."""
    z = rng.normal(0, spread, (n_rows, n_classes))
    return softmax(z), softmax(power * z + tilt * np.linspace(-1, 1, n_classes))


def labels(rng, rows):
    return (rows.cumsum(axis=1) > rng.random((len(rows), 1))).argmax(axis=1)


def rejections(task):
    """How often both p-values of calibrated predictions are below 0.05, in percent."""
    n_rows, n_times = task
    rng = np.random.default_rng(n_rows)
    found = np.zeros(2)
    for _ in range(n_times):
        rows, _ = draw(rng, n_rows, 5, 1.5, 1.0, 0.0)
        result = cumulative_differences(labels(rng, rows), rows, classes=range(5))
        found += [result.kuiper_p_value < 0.05, result.kolmogorov_smirnov_p_value < 0.05]
    return 100 * found / n_times


def test_rejections(task):
    """How often tests reject calibrated predictions at 5 %, in percent."""
    case, n_times = task
    n_rows, n_classes, raised, spread, is_weighted = TESTED[case]
    rng = np.random.default_rng([*map(ord, case)])
    found = []
    for _ in range(n_times):
        z = rng.normal(0, spread, (n_rows, n_classes))
        z[:, 0] += raised
        rows = softmax(z)
        y = labels(rng, rows)
        weight = np.maximum(rng.gamma(0.5, 2.0, n_rows), 0.01) if is_weighted else None
        told = {"classes": range(n_classes), "sample_weight": weight}
        p_values = [
            calibration_test(y, rows, metric=metric, n_resamples=199, **told)
            for metric in ((None, "classwise") if n_classes > 2 else (None,))
        ]
        shares = class_shares(y, rows, **told)
        found.append([*(test.p_value for test in p_values), shares.p_holm.min()])
    return 100 * np.mean(np.array(found) <= 0.05, axis=0)


def true_values(n_classes, spread, power, tilt):
    """What metrics estimate, of a population whose calibrated rows are known."""
    rng = np.random.default_rng(1)
    rows, said = draw(rng, POPULATION, n_classes, spread, power, tilt)
    place, top = np.arange(POPULATION), said.argmax(axis=1)

    def error(values, events, bins):
        return np.abs(np.bincount(bins, values - events)).sum() / POPULATION

    own, right = said[place, top], rows[place, top]
    found = {
        "accuracy": right.mean(),
        "negative_log_likelihood": -(rows * np.log(np.maximum(said, 1e-12))).sum(axis=1).mean(),
        "brier_score": np.mean(rows * (1 - rows) + (said - rows) ** 2),
    }
    if n_classes > 2:
        bins = np.maximum(np.searchsorted(np.linspace(0, 1, 16), own) - 1, 0)
        return found | {"confidence_ece": error(own, right, bins)}
    bins = 15 * np.argsort(np.argsort(said[:, 1])) // POPULATION
    return found | {"positive_ece": error(said[:, 1], rows[:, 1], bins)}


def coverage(task):
    """How often intervals of evaluate are there, and hold, in percent."""
    n_classes, spread, said, n_rows, n_times = task
    case = n_classes, SPREADS[spread], *SAID[said]
    truth = true_values(*case)
    rng = np.random.default_rng([n_rows, n_classes, *map(ord, spread + said)])
    held = {name: [] for name in truth}
    for seed in range(n_times):
        rows, predicted = draw(rng, n_rows, *case)
        found = evaluate(labels(rng, rows), predicted, classes=range(n_classes), random_state=seed)
        for name, value in truth.items():
            _, low, high = getattr(found, name)
            held[name] += [] if np.isnan(low) else [low - 1e-12 <= value <= high + 1e-12]
    return {name: (len(own) / n_times, np.mean(own or [0])) for name, own in held.items()}


def table(titles, rows):
    print("| | " + " | ".join(titles) + " |")
    print("|---" * (1 + len(titles)) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(flush=True)


def show_cumulative(pool, n_times):
    chances = [(n, 10 * n_times) for n in (100, 1000, 10_000)]
    rejected = [*pool.map(rejections, chances)]
    rows = {
        "Kuiper": [f"{kuiper:.1f}" for kuiper, _ in rejected],
        "Kolmogorov-Smirnov": [f"{peak:.1f}" for _, peak in rejected],
    }
    table([f"{n:,} rows" for n, _ in chances], rows)


def show_tests(pool, n_times):
    found = pool.map(test_rejections, [(case, n_times) for case in TESTED])
    titles = ["usual", "class-wise"]
    rows = {}
    for case, shares in zip(TESTED, found, strict=True):
        *tests, of_classes = [f"{share:.1f}" for share in shares]
        rows[case] = [*tests, *[""] * (len(titles) - len(tests)), of_classes]
    table([*titles, "shares"], rows)


def show_evaluate(pool, n_times):
    cases = [*product((2, 10), SPREADS, SAID, SIZES)]
    found = pool.map(coverage, [(*case, n_times) for case in cases])
    rows = {}
    for (n_classes, spread, said, n_rows), own in zip(cases, found, strict=True):
        cells = []
        for name in NAMES:
            part, held = own.get(name, (0.0, 0.0))
            some = f" (in {100 * part:.0f} %)" if part < 0.98 else ""
            cells.append(f"{100 * held:.1f}{some}" if part > 0.02 else "")
        rows[f"{n_classes} classes, {spread}, {said}, {n_rows:,} rows"] = cells
    table(NAMES, rows)


TABLES = {"cumulative": show_cumulative, "tests": show_tests, "evaluate": show_evaluate}


def main(n_times=400, n_processes=2, *names):
    with ProcessPoolExecutor(int(n_processes)) as pool:
        for name in names or TABLES:
            TABLES[name](pool, int(n_times))


if __name__ == "__main__":
    main(*sys.argv[1:])
