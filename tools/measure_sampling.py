"""Measure fits from samples of the rows; prints the tables of guides/a-billion-predictions.md.

    OMP_NUM_THREADS=1 python tools/measure_sampling.py CASE ...

A case may have another number of rows, or of files of a million rows, as in ten:5000000,
rare:5000000 and hundred:20; ten:20000000:1 measures the first method only. All rows of ten need
6 GiB in memory for temperature scaling, and more for the other methods.

``engines``
    The same 200,000 rows of 10 classes through every engine: samples and maps have the same bits.
``ten``, ``thousand``, ``rare``
    Fits to a sample of 2^24 cells and to all rows in memory, judged on new rows.
``hundred``
    100 million rows of 4 classes through Dask, with one worker and with two, and through the
    command: wall time and peak memory of the largest process. Writes 3 GB to a temporary directory.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from calibrant import (
    AutoCalibrator,
    FlattenedIsotonic,
    NormalizationAwareIsotonic,
    SortedCumulativeIsotonic,
    StructuredScaling,
    TemperatureScaling,
    TwoClassScaling,
)
from calibrant.scale import RowSample, open_tables

warnings.simplefilter("ignore")
CHUNK = 500_000
MANY = (TemperatureScaling, NormalizationAwareIsotonic, StructuredScaling, AutoCalibrator)


def draw_chunk(rng, n_rows, n_classes, spread=2.0, power=1.7):
    """Return over-confident rows with labels."""
    z = rng.normal(0, spread, (n_rows, n_classes))
    z[:, 0] += 0.5 * np.tanh(z[:, 0])  # so that one class is not as the others are
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
    q = np.exp(power * (z - z.max(axis=1, keepdims=True)))
    return q / q.sum(axis=1, keepdims=True), labels


def draw_rare_chunk(rng, n_rows, middle=-8.6, spread=1.8, power=1.4):
    """Return rows of two classes, one in a thousand positive."""
    z = rng.normal(middle, spread, n_rows)
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-z))).astype(np.int64)
    p = 1 / (1 + np.exp(-(power * z + 1.0)))
    return np.column_stack([1 - p, p]), y


def draw(rng, n_rows, n_classes, one=draw_chunk):
    """Return all rows, drawn a chunk at a time: temporary arrays of all would take much memory."""
    rows, labels = np.empty((n_rows, n_classes)), np.empty(n_rows, dtype=np.int64)
    for start in range(0, n_rows, CHUNK):
        some = slice(start, min(start + CHUNK, n_rows))
        size = some.stop - start
        rows[some], labels[some] = (
            one(rng, size) if one is draw_rare_chunk else one(rng, size, n_classes)
        )
    return rows, labels


def loss(calibrator, rows, labels):
    """Return the mean negative log-likelihood, computed a chunk at a time."""
    total = 0.0
    for start in range(0, len(labels), CHUNK):
        some = slice(start, start + CHUNK)
        p = calibrator.predict_proba(rows[some])[np.arange(len(labels[some])), labels[some]]
        total -= np.log(np.maximum(p, 1e-300)).sum()
    return total / len(labels)


def peak_gib(who=resource.RUSAGE_SELF):
    return resource.getrusage(who).ru_maxrss / 2**20


def compare(title, methods, train, test, n_classes):
    """Print what a fit to a sample loses on new rows."""
    started, sample = time.perf_counter(), RowSample(range(n_classes))
    for start in range(0, len(train[1]), CHUNK):
        sample.update(*(array[start : start + CHUNK] for array in train))
    print(f"{title}: {sample!r}, sampled in {time.perf_counter() - started:.1f} s", flush=True)
    for make in methods:
        started = time.perf_counter()
        part = make(classes=range(n_classes)).fit(sample)
        middle = time.perf_counter()
        whole = make(classes=range(n_classes)).fit(*train)
        seconds = middle - started, time.perf_counter() - middle
        losses = loss(part, *test), loss(whole, *test)
        print(
            f"| {title} | {make.__name__} | {losses[1]:.7f} | {losses[0] - losses[1]:+.1e} | "
            f"{losses[0] / losses[1] - 1:+.1e} | {seconds[0]:.1f} | {seconds[1]:.1f} | "
            f"peak {peak_gib():.1f} GiB",
            flush=True,
        )
    return sample


def ten(n_rows=20_000_000, methods="all"):
    rng, chosen = np.random.default_rng(0), MANY if methods == "all" else MANY[: int(methods)]
    train, test = draw(rng, int(n_rows), 10), draw(rng, 1_000_000, 10)
    compare(f"{len(train[1]):,} x 10", chosen, train, test, 10)
    labels = np.minimum(train[1], 8)
    labels[rng.choice(len(labels), 50, replace=False)] = 9
    sample = RowSample(range(10))
    for start in range(0, len(labels), CHUNK):
        sample.update(train[0][start : start + CHUNK], labels[start : start + CHUNK])
    print("kept of a class with 50 rows:", (sample.batch().class_index == 9).sum())


def thousand():
    rng = np.random.default_rng(0)
    train, test = draw(rng, 200_000, 1000), draw(rng, 50_000, 1000)
    compare("200,000 x 1,000", (TemperatureScaling, StructuredScaling), train, test, 1000)


def rare(n_rows=20_000_000):
    rng = np.random.default_rng(0)
    train, test = (draw(rng, n, 2, draw_rare_chunk) for n in (int(n_rows), 4_000_000))
    print(f"{train[1].mean():.5f} positives")
    compare(f"{len(train[1]):,} x 2", (TwoClassScaling, AutoCalibrator), train, test, 2)


def engine_samples(rows, y, names, folder, max_cells):
    """Yield the sample that each engine makes of the same rows, with its name."""
    import dask.array as da

    from calibrant.scale import as_chunks

    table, classes = pd.DataFrame(rows, columns=names).assign(label=y), range(rows.shape[1])
    order = np.random.default_rng(1).permutation(len(y))
    made = RowSample(classes, max_cells=max_cells)
    yield "array", made.update(rows, y)
    made = RowSample(classes, max_cells=max_cells)
    yield "shuffled", made.update(rows[order], y[order])
    made = RowSample(classes, max_cells=max_cells)
    for some in np.array_split(order, 7):
        made.update(rows[some], y[some])
    yield "7 pieces", made
    for size in (10_000, 33_333, 150_000):
        chunks = as_chunks(da.from_array(rows, chunks=(size, -1)), da.from_array(y, chunks=size))
        yield f"Dask, chunks of {size:,}", chunks.sample(classes, max_cells=max_cells)
    for suffix, write in ((".csv", pd.DataFrame.to_csv), (".parquet", pd.DataFrame.to_parquet)):
        own = folder / f"{suffix[1:]}-{max_cells}"
        own.mkdir()
        for i, some in enumerate(np.array_split(order, 5)):
            write(table.iloc[some], own / f"{i}{suffix}", index=False)
        chunks = open_tables(own, scores=names)
        yield f"directory of {suffix}", chunks.sample(classes, max_cells=max_cells)
    try:
        from pyspark.sql import SparkSession

        from calibrant.scale import spark
    except ImportError:
        print("Spark is not installed")
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    df = session.getOrCreate().read.parquet(str(own))
    for n in (3, 16):
        chunks = spark.rows(df.repartition(n), scores=names)
        yield f"Spark, {n} partitions", chunks.sample(classes, max_cells=max_cells)


def engines():
    rows, y = draw(np.random.default_rng(0), 200_000, 10)
    names = [str(c) for c in range(10)]
    every = (*MANY, FlattenedIsotonic, SortedCumulativeIsotonic)
    for max_cells in (1 << 24, rows.size // 4):
        with tempfile.TemporaryDirectory() as folder:
            samples = dict(engine_samples(rows, y, names, Path(folder), max_cells))
        first = samples["array"].batch()
        for name, sample in samples.items():
            other = sample.batch()
            for array in ("scores", "class_index", "weight"):
                same = getattr(first, array).tobytes() == getattr(other, array).tobytes()
                assert same, (name, array)
        print(f"{samples['array']!r}: the same bits from {', '.join(samples)}", flush=True)
        for make in every:
            started = time.perf_counter()
            fits = [make().fit(samples[name]) for name in ("array", next(reversed(samples)))]
            found = [fit.predict_proba(rows) for fit in fits]
            assert found[0].tobytes() == found[1].tobytes(), make
            line = f"  {make.__name__}: the same bits from the first engine and the last"
            if samples["array"].is_complete:
                near = make().fit(rows, y).predict_proba(rows)
                line += f"; in memory {abs(near - found[0]).max():.0e}"
            print(f"{line} ({time.perf_counter() - started:.0f} s)", flush=True)


def write_hundred(folder, n_files=100):
    rng = np.random.default_rng(0)
    for i in range(n_files):
        rows, y = draw_chunk(rng, 1_000_000, 4)
        table = pd.DataFrame(rows, columns=[f"p{c}" for c in range(4)]).assign(label=y)
        table.to_parquet(folder / f"{i:03}.parquet", index=False, compression=None)


def hundred(n_files=100):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_hundred(folder, int(n_files))
        for n_workers in (1, 2):
            on_dask(folder, n_workers)
        started = time.perf_counter()
        command = [sys.executable, "-m", "calibrant", "fit", str(folder), "-m", "ts"]
        subprocess.run([*command, "-o", str(folder / "m.calibrant")], check=True)
        seconds, peak = time.perf_counter() - started, peak_gib(resource.RUSAGE_CHILDREN)
        print(f"| calibrant fit, Parquet | {seconds:.0f} s | (of all children) {peak:.2f} GiB |")


def on_dask(folder, n_workers):
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    options = {"n_workers": n_workers, "threads_per_worker": 1, "memory_limit": "2GiB"}
    with LocalCluster(dashboard_address=None, **options) as cluster, Client(cluster) as client:
        frame = dd.read_parquet(folder)
        columns = [name for name in frame.columns if name != "label"]
        started = time.perf_counter()
        fitted = TemperatureScaling().fit(frame[columns], frame["label"])
        seconds = time.perf_counter() - started
        peaks = [*client.run(peak_gib).values(), peak_gib()]
        load = os.getloadavg()[0]
        print(
            f"| Dask, {n_workers} workers | {seconds:.0f} s | {max(peaks):.2f} GiB | "
            f"load {load:.1f} | {fitted.solver_report_.notes[-1]} |",
            flush=True,
        )


CASES = {
    "engines": engines,
    "ten": ten,
    "thousand": thousand,
    "rare": rare,
    "hundred": hundred,
}

if __name__ == "__main__":
    for case in sys.argv[1:]:
        started = time.perf_counter()
        name, *arguments = case.split(":")
        CASES[name](*arguments)
        seconds = time.perf_counter() - started
        print(f"{case}: {seconds:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
