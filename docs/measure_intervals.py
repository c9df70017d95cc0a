"""Measure how often intervals hold the truth and tests reject it; prints the tables of metrics.md.

    OMP_NUM_THREADS=1 python docs/measure_intervals.py [N [PROCESSES]]

N simulations for each case, ten times as many for the p-values; 1000 and two processes by default.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product

import numpy as np

from calibrant import TemperatureScaling
from calibrant.metrics import (
    cross_fitted,
    cross_fitted_decomposition,
    cumulative_differences,
    post_hoc_improvement,
    variational,
    variational_errors,
)
from calibrant.metrics.resampling import Resamples

N_CLASSES = 5
CLASSES = range(N_CLASSES)
CASES = {"honest": (1.0, 0.0), "over-confident": (1.5, 0.0), "and biased": (1.5, 0.5)}
SIZES = (300, 1000, 5000)
POPULATION = 400_000


def share_work():
    """Do once what functions do alike, each time they are called; no bit of a result changes.

    Resamples of as many rows are the same, by the same seed, and so are fits to the same rows.
    """
    counts, hold_out = Resamples.all_counts, cross_fitted.hold_out
    last = {}

    @cache
    def counts_of(n_rows, n_resamples, resample):
        return counts(Resamples([n_rows], n_resamples, 0), resample)

    def counts_once(resamples, resample):
        return counts_of(int(resamples._sizes.sum()), resamples.n_resamples, resample)  # noqa: SLF001

    def hold_out_once(predictions, *options):
        key = predictions.all_rows().tobytes(), predictions.class_index.tobytes()
        if key not in last:
            last.clear()
            last[key] = hold_out(predictions, *options)
        return last[key]

    Resamples.all_counts = counts_once
    cross_fitted.hold_out = variational.hold_out = hold_out_once


def draw(rng, n_rows, power, tilt):
    """Honest rows, and what a classifier says that sharpens them and favours the last classes."""
    z = rng.normal(0, 1.5, (n_rows, N_CLASSES))
    honest = np.exp(z - z.max(axis=1, keepdims=True))
    honest /= honest.sum(axis=1, keepdims=True)
    said = honest**power * np.exp(tilt * np.linspace(-1, 1, N_CLASSES))
    return honest, said / said.sum(axis=1, keepdims=True)


def labels(rng, honest):
    return (honest.cumsum(axis=1) > rng.random((len(honest), 1))).argmax(axis=1)


def truths(power, tilt):
    """What is estimated, by the mean over a population whose honest rows are known."""
    honest, said = draw(np.random.default_rng(1), POPULATION, power, tilt)
    top = said.argmax(axis=1)[:, None]
    gap = (np.take_along_axis(said, top, 1) - np.take_along_axis(honest, top, 1))[:, 0]
    found = {
        "NLL, refinement": -np.sum(honest * np.log(honest), axis=1).mean(),
        "NLL, calibration": np.sum(honest * np.log(honest / said), axis=1).mean(),
        "Brier, refinement": np.mean(honest * (1 - honest)),
        "Brier, calibration": np.mean((honest - said) ** 2),
        "L1 error": np.abs(honest - said).sum(axis=1).mean(),
        "over-confidence": np.maximum(gap, 0).mean(),
        "under-confidence": np.maximum(-gap, 0).mean(),
    }
    return {name: 0.0 if abs(value) < 1e-12 else value for name, value in found.items()}


def estimates(y, said):
    """The same from labels."""
    found = {}
    for title, metric in (("NLL", "negative_log_likelihood"), ("Brier", "brier_score")):
        parts = cross_fitted_decomposition(y, said, metric=metric, classes=CLASSES)
        found[f"{title}, refinement"] = parts.refinement
        found[f"{title}, calibration"] = parts.calibration
    sides = variational_errors(y, said, classes=CLASSES)
    found["L1 error"] = sides.error
    found["over-confidence"] = sides.over_confidence
    found["under-confidence"] = sides.under_confidence
    return found


def coverage(task):
    """Of each estimate: its mean, the truth, and three shares in percent.

    How often the interval holds the truth, how often the truth is on the right side of the end that
    bounds it (below the high end of a refinement, above the low end of all else), and how often the
    estimate is negative.
    """
    case, n_rows, n_times = task
    truth = truths(*CASES[case])
    rng = np.random.default_rng([n_rows, *map(ord, case)])
    found = {name: [] for name in truth}
    for _ in range(n_times):
        honest, said = draw(rng, n_rows, *CASES[case])
        for name, estimate in estimates(labels(rng, honest), said).items():
            above, below = estimate.low <= truth[name], truth[name] <= estimate.high
            bounded = below if name.endswith("refinement") else above
            found[name].append((estimate.value, above and below, bounded, estimate.value < 0))
    means = {name: np.mean(np.array(rows, dtype=float), axis=0) for name, rows in found.items()}
    return {name: (mean[0], truth[name], *(100 * mean[1:])) for name, mean in means.items()}


def improvement_coverage(task):
    """The same for the gain of a temperature that was fitted to 500 other rows."""
    case, n_rows, n_times = task
    rng = np.random.default_rng([7, n_rows, *map(ord, case)])
    honest, said = draw(rng, 500, *CASES[case])
    calibrator = TemperatureScaling(classes=CLASSES).fit(said, labels(rng, honest))
    honest, said = draw(rng, POPULATION, *CASES[case])
    calibrated = calibrator.predict_proba(said)
    truth = np.mean((said - honest) ** 2) - np.mean((calibrated - honest) ** 2)
    held = 0
    for _ in range(n_times):
        honest, said = draw(rng, n_rows, *CASES[case])
        y = labels(rng, honest)
        found = post_hoc_improvement(y, said, calibrator.predict_proba(said), classes=CLASSES)
        held += found.improvement.low <= truth <= found.improvement.high
    return 100 * held / n_times


def rejections(task):
    """How often both p-values of honest predictions are below 0.05, in percent."""
    n_rows, n_times = task
    rng = np.random.default_rng(n_rows)
    found = np.zeros(2)
    for _ in range(n_times):
        honest, _ = draw(rng, n_rows, 1.0, 0.0)
        differences = cumulative_differences(labels(rng, honest), honest, classes=CLASSES)
        found += [differences.kuiper_p_value < 0.05, differences.kolmogorov_smirnov_p_value < 0.05]
    return 100 * found / n_times


def table(titles, rows):
    print("| | " + " | ".join(titles) + " |")
    print("|---" * (1 + len(titles)) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def main(n_times, n_processes):
    tasks = [(case, n, n_times) for case, n in product(CASES, SIZES)]
    chances = [(n, 10 * n_times) for n in (100, 1000, 10_000)]
    with ProcessPoolExecutor(n_processes, initializer=share_work) as pool:
        found = [*pool.map(coverage, tasks)]
        gains = [*pool.map(improvement_coverage, tasks)]
        rejected = [*pool.map(rejections, chances)]
    titles = [f"{case}, {n:,}" for case, n, _ in tasks]
    names = [*found[0]]
    held = {name: [f"{own[name][2]:.1f} / {own[name][3]:.1f}" for own in found] for name in names}
    table(titles, held | {"Brier, PHI": [f"{gain:.1f}" for gain in gains]})
    table(
        titles,
        {name: [f"{own[name][0]:.5f} / {own[name][1]:.5f}" for own in found] for name in names},
    )
    table(titles, {name: [f"{own[name][4]:.1f}" for own in found] for name in names})
    table(
        [f"{n:,} rows" for n, _ in chances],
        {
            "Kuiper": [f"{kuiper:.1f}" for kuiper, _ in rejected],
            "Kolmogorov-Smirnov": [f"{peak:.1f}" for _, peak in rejected],
        },
    )


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [1000, 2][len(given) :]))
