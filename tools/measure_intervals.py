"""Measure how often intervals hold and tests reject; prints the tables of evidence/intervals.md.

    OMP_NUM_THREADS=1 python tools/measure_intervals.py [N [PROCESSES [TABLE ...]]]

N simulations for each case, ten times as many for the p-values of cumulative_differences; 1000 and
two processes by default. Tables are parts, cumulative, tests and evaluate; all by default.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import product

import numpy as np

from calibrant import TemperatureScaling
from calibrant.metrics import _cross_fitted as cross_fitted
from calibrant.metrics import (
    calibration_test,
    class_shares,
    cross_fitted_decomposition,
    cumulative_differences,
    evaluate,
    post_hoc_improvement,
    variational_errors,
)
from calibrant.metrics._calibration_error import bin_edges
from calibrant.metrics._cells import CellState
from calibrant.metrics._smooth import DensityGrid
from calibrant.scale._chunks import ArrayChunks

N_CLASSES = 5
CLASSES = range(N_CLASSES)
CASES = {"honest": (1.0, 0.0), "over-confident": (1.5, 0.0), "and biased": (1.5, 0.5)}
SIZES = (300, 1000, 5000)
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
"""Honest predictions: rows, classes, what the first logit is raised by, spread of logits, weights.

Weights are of a gamma distribution of shape 1/2: a tenth of the rows has half of the weight.
"""

EVALUATED = {
    "5 classes, over-confident": (5, 1.5, 0.0),
    "5 classes, and biased": (5, 1.5, 0.5),
    "2 classes, over-confident": (2, 1.5, 0.0),
    "2 classes, and biased": (2, 1.5, 0.5),
}
"""Classes, power and tilt."""


def share_work():
    """Fit once what functions fit alike to the same rows; no bit of a result changes."""
    hold_out, last = cross_fitted.hold_out, {}

    def hold_out_once(predictions, *options):
        key = predictions.all_rows().tobytes(), predictions.class_index.tobytes()
        if key not in last:
            last.clear()
            last[key] = hold_out(predictions, *options)
        return last[key]

    cross_fitted.hold_out = hold_out_once


@contextmanager
def without_slow_metrics():
    """Leave out what the table does not show and takes most of the time: KDE-ECE and TECE."""
    kept = DensityGrid.value, CellState.replicates
    DensityGrid.value = lambda *_: 0.0
    CellState.replicates = lambda _, draws: np.zeros(len(draws))
    yield
    DensityGrid.value, CellState.replicates = kept


def draw(rng, n_rows, power, tilt, n_classes=N_CLASSES):
    """Honest rows, and what a classifier says that sharpens them and favours the last classes."""
    honest = softmax(rng.normal(0, 1.5, (n_rows, n_classes)))
    said = honest**power * np.exp(tilt * np.linspace(-1, 1, n_classes))
    return honest, said / said.sum(axis=1, keepdims=True)


def softmax(z):
    found = np.exp(z - z.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


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


def test_rejections(task):
    """How often tests reject honest predictions at 5 %, in percent."""
    case, n_times = task
    n_rows, n_classes, raised, spread, is_weighted = TESTED[case]
    rng = np.random.default_rng([*map(ord, case)])
    found = []
    for _ in range(n_times):
        z = rng.normal(0, spread, (n_rows, n_classes))
        z[:, 0] += raised
        honest = softmax(z)
        y = labels(rng, honest)
        weight = np.maximum(rng.gamma(0.5, 2.0, n_rows), 0.01) if is_weighted else None
        chunks = ArrayChunks(honest, y, weight, n_rows=n_rows)
        told = {"classes": range(n_classes)}
        draws = {"n_resamples": 199, "random_state": 0, **told}
        p_values = []
        for metric in (None, "classwise") if n_classes > 2 else (None,):
            for is_drawn in (True, False):
                own = {
                    "metric": metric,
                    "sample_weight": weight,
                    "resample_rows": is_drawn,
                    **draws,
                }
                p_values.append(calibration_test(y, honest, **own).p_value)
            p_values.append(calibration_test(None, chunks, metric=metric, **draws).p_value)
        shares = class_shares(y, honest, sample_weight=weight, **told)
        found.append([*p_values, shares.p_holm.min()])
    return 100 * np.mean(np.array(found) <= 0.05, axis=0)


def true_errors(n_classes, power, tilt):
    """What metrics estimate, of a population whose honest rows are known; bins as they are."""
    rng = np.random.default_rng(1)
    honest, said = draw(rng, POPULATION, power, tilt, n_classes)
    rows, top = np.arange(POPULATION), said.argmax(axis=1)
    edges = bin_edges(15)

    def ece(values, events):
        bins = np.maximum(np.searchsorted(edges, values) - 1, 0)
        return np.abs(np.bincount(bins, values - events)).sum() / POPULATION

    found = {
        "accuracy": honest[rows, top].mean(),
        "negative_log_likelihood": -(honest * np.log(said)).sum(axis=1).mean(),
        "brier_score": np.mean(honest * (1 - honest) + (said - honest) ** 2),
        "positive_ece": ece(said[:, -1], honest[:, -1]) if n_classes == 2 else None,
        "confidence_ece": ece(said[rows, top], honest[rows, top]),
        "classwise_ece": np.mean([ece(said[:, j], honest[:, j]) for j in range(n_classes)]),
    }
    return {name: value for name, value in found.items() if value is not None}


def evaluation_coverage(task):
    """How often intervals of evaluate hold the truth."""
    case, n_rows, n_times = task
    n_classes, power, tilt = EVALUATED[case]
    truth = true_errors(n_classes, power, tilt)
    rng = np.random.default_rng([n_rows, *map(ord, case)])
    held = dict.fromkeys(truth, 0)
    for _ in range(n_times):
        honest, said = draw(rng, n_rows, power, tilt, n_classes)
        y = labels(rng, honest)
        with without_slow_metrics():
            found = evaluate(y, said, classes=range(n_classes))
        for name, value in truth.items():
            _, low, high = getattr(found, name)
            held[name] += low <= value <= high
    return {name: 100 * own / n_times for name, own in held.items()}


def table(titles, rows):
    print("| | " + " | ".join(titles) + " |")
    print("|---" * (1 + len(titles)) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(flush=True)


def show_parts(pool, n_times):
    tasks = [(case, n, n_times) for case, n in product(CASES, SIZES)]
    found = [*pool.map(coverage, tasks)]
    gains = [*pool.map(improvement_coverage, tasks)]
    titles = [f"{case}, {n:,}" for case, n, _ in tasks]
    names = [*found[0]]
    held = {name: [f"{own[name][2]:.1f} / {own[name][3]:.1f}" for own in found] for name in names}
    table(titles, held | {"Brier, PHI": [f"{gain:.1f}" for gain in gains]})
    table(
        titles,
        {name: [f"{own[name][0]:.5f} / {own[name][1]:.5f}" for own in found] for name in names},
    )
    table(titles, {name: [f"{own[name][4]:.1f}" for own in found] for name in names})


def show_cumulative(pool, n_times):
    chances = [(n, 10 * n_times) for n in (100, 1000, 10_000)]
    rejected = [*pool.map(rejections, chances)]
    table(
        [f"{n:,} rows" for n, _ in chances],
        {
            "Kuiper": [f"{kuiper:.1f}" for kuiper, _ in rejected],
            "Kolmogorov-Smirnov": [f"{peak:.1f}" for _, peak in rejected],
        },
    )


def show_tests(pool, n_times):
    found = pool.map(test_rejections, [(case, n_times) for case in TESTED])
    ways = ("rows drawn", "rows kept", "statistics")
    usual = [f"usual, {way}" for way in ways] + [f"class-wise, {way}" for way in ways]
    rows = {}
    for case, shares in zip(TESTED, found, strict=True):
        *tests, of_classes = [f"{share:.1f}" for share in shares]
        rows[case] = [*tests, *[""] * (len(usual) - len(tests)), of_classes]
    table([*usual, "shares"], rows)


def show_evaluate(pool, n_times):
    tasks = [(case, n, n_times) for case, n in product(EVALUATED, (300, 2000))]
    found = [*pool.map(evaluation_coverage, tasks)]
    names = ["accuracy", "negative_log_likelihood", "brier_score"]
    names += ["positive_ece", "confidence_ece", "classwise_ece"]
    rows = {
        f"{case}, {n:,} rows": [f"{own[name]:.0f}" if name in own else "" for name in names]
        for (case, n, _), own in zip(tasks, found, strict=True)
    }
    table(names, rows)


TABLES = {
    "parts": show_parts,
    "cumulative": show_cumulative,
    "tests": show_tests,
    "evaluate": show_evaluate,
}


def main(n_times=1000, n_processes=2, *names):
    with ProcessPoolExecutor(int(n_processes), initializer=share_work) as pool:
        for name in names or TABLES:
            TABLES[name](pool, int(n_times))


if __name__ == "__main__":
    main(*sys.argv[1:])
