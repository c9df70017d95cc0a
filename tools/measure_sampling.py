"""Measure what a sample of the rows costs; prints the table of evidence/sampling.md.

    OMP_NUM_THREADS=2 python tools/measure_sampling.py [CASE ...]

Simulated rows are fitted from a sample of 2^24 cells and from all of them in memory, and both fits
are judged on new rows. Cases are ten, thousand and rare; all by default. Up to 12 GiB are needed.
"""

import sys
import time
import warnings

import numpy as np

from calibrant import (
    AutoCalibrator,
    NormalizationAwareIsotonic,
    SortedCumulativeIsotonic,
    StructuredScaling,
    TemperatureScaling,
    TwoClassScaling,
)
from calibrant.scale._chunks import ArrayChunks

warnings.simplefilter("ignore")
CHUNK = 500_000


def draw(rng, n_rows, n_classes, spread=2.0, power=1.7):
    """Over-confident rows with labels, a chunk at a time: all of the logits take too much room."""
    rows, labels = np.empty((n_rows, n_classes)), np.empty(n_rows, dtype=np.int64)
    for start in range(0, n_rows, CHUNK):
        own = slice(start, min(start + CHUNK, n_rows))
        z = rng.normal(0, spread, (own.stop - start, n_classes))
        z[:, 0] += 0.5 * np.tanh(z[:, 0])  # so that one class is not as the others are
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        labels[own] = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
        z = power * z
        q = np.exp(z - z.max(axis=1, keepdims=True))
        rows[own] = q / q.sum(axis=1, keepdims=True)
    return rows, labels


def draw_rare(rng, n_rows, middle=-8.6, spread=1.8, power=1.4):
    """Two classes, one row in a thousand positive."""
    z = rng.normal(middle, spread, n_rows)
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-z))).astype(np.int64)
    p = 1 / (1 + np.exp(-(power * z + 1.0)))
    return np.column_stack([1 - p, p]), y


def loss(calibrator, rows, labels):
    own = calibrator.predict_proba(rows)[np.arange(len(labels)), labels]
    return -np.log(np.maximum(own, 1e-12)).mean()


def compare(title, methods, train, test, classes):
    chunks = ArrayChunks(*train, n_rows=CHUNK)
    started = time.perf_counter()
    sample = chunks.sample(classes)
    print(f"{title}: {sample}, sampled in {time.perf_counter() - started:.1f} s", flush=True)
    for make in methods:
        started = time.perf_counter()
        part = make(classes=classes).fit(sample)
        middle = time.perf_counter()
        whole = make(classes=classes).fit(*train)
        seconds = middle - started, time.perf_counter() - middle
        losses = loss(part, *test), loss(whole, *test)
        print(
            f"| {title} | {make.__name__} | {losses[1]:.7f} | {losses[0] - losses[1]:+.1e} | "
            f"{losses[0] / losses[1] - 1:+.1e} | {seconds[0]:.1f} | {seconds[1]:.1f} |",
            flush=True,
        )


MANY = (TemperatureScaling, NormalizationAwareIsotonic, StructuredScaling, AutoCalibrator)


def ten():
    rng = np.random.default_rng(0)
    train = draw(rng, 20_000_000, 10)
    compare("20,000,000 x 10", MANY, train, draw(rng, 1_000_000, 10), range(10))


def thousand():
    rng = np.random.default_rng(0)
    methods = (*MANY, SortedCumulativeIsotonic)
    train, test = draw(rng, 200_000, 1000), draw(rng, 50_000, 1000)
    compare("200,000 x 1,000", methods, train, test, range(1000))


def rare():
    rng = np.random.default_rng(0)
    train, test = draw_rare(rng, 20_000_000), draw_rare(rng, 4_000_000)
    print(f"{train[1].mean():.5f} positives")
    compare("20,000,000 x 2", (TwoClassScaling, AutoCalibrator), train, test, range(2))


CASES = {"ten": ten, "thousand": thousand, "rare": rare}

if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        CASES[case]()
