"""Fits on a local Dask cluster: time and memory by rows and workers, and a worker that is killed.

    python benchmarks/scale.py DIRECTORY -o results.json

DIRECTORY gets Parquet files of simulated predictions, 20 million rows of ten classes by default,
unless it has them. Workers have one thread and ``--memory`` each; Dask kills those that take more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import dask
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dask.distributed import Client, LocalCluster

import calibrant
from calibrant import metrics, model_file

METHODS = {
    "na-fir": "NormalizationAwareIsotonic",
    "fir": "FlattenedIsotonic",
    "ts": "TemperatureScaling",
    "scir": "SortedCumulativeIsotonic",
}
N_CLASSES, ROWS_OF_A_FILE = 10, 200_000
COLUMNS = [f"prob_{j}" for j in range(N_CLASSES)]


def simulate(file: Path, seed: int) -> None:
    """Write a file: labels drawn from honest probabilities, scores sharper, bent and tilted."""
    rng = np.random.default_rng(seed)
    rows = np.arange(ROWS_OF_A_FILE)
    logits = 1.2 * rng.normal(size=(ROWS_OF_A_FILE, N_CLASSES))
    logits[rows, rng.integers(N_CLASSES, size=len(rows))] += rng.gamma(2.0, 1.4, size=len(rows))
    honest = softmax(logits)
    drawn = (honest.cumsum(axis=1) < rng.random(len(rows))[:, None]).sum(axis=1)
    bent = np.log(honest) * 1.7 + 0.15 * np.sin(3.0 * np.log(honest))
    scores = softmax(bent + np.linspace(-0.3, 0.3, N_CLASSES))
    columns = dict(zip(COLUMNS, scores.T, strict=True)) | {"label": drawn.clip(0, N_CLASSES - 1)}
    pq.write_table(pa.table(columns), file, compression="none", use_dictionary=["label"])


def softmax(logits):
    """Rows that sum to one."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def read(directory: Path, n_files: int):
    """Scores and labels of the first files."""
    frame = dd.read_parquet([str(f) for f in sorted(directory.glob("*.parquet"))[:n_files]])
    return frame[COLUMNS], frame["label"]


def resident(pid: int) -> float:
    """Memory of a process in MiB, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


class Watch:
    """The largest memory of each worker, and of this process, while something runs."""

    def __init__(self, client: Client) -> None:
        self._client, self._stop = client, threading.Event()
        self.peaks: dict[str, float] = {}
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            nannies = self._client.cluster.workers.values()
            pids = {f"worker {i}": getattr(n, "pid", None) for i, n in enumerate(nannies)}
            for name, pid in (pids | {"client": os.getpid()}).items():
                if pid is not None:
                    self.peaks[name] = max(self.peaks.get(name, 0.0), resident(pid))

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began
        self._stop.set()
        self._thread.join()


@contextmanager
def cluster(n_workers: int, memory: str):
    """A client of so many workers of one thread."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address=None,
        ) as found,
        Client(found) as client,
    ):
        client.run(lambda: __import__("calibrant._calibrators.base"))
        yield client


def digest(calibrator) -> str:
    """What a fit predicts on a few thousand rows, to the bit."""
    rows = softmax(np.random.default_rng(0).normal(size=(5000, N_CLASSES)) * 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calibrator.predict_proba(rows)
    return hashlib.sha256(found.tobytes()).hexdigest()[:16]


def fit(client: Client, name: str, scores, y) -> dict:
    """Fit a method; what it took."""
    calibrator = getattr(calibrant, METHODS[name])(classes=range(N_CLASSES))
    with Watch(client) as watch:
        calibrator.fit(scores, y)
    report = calibrator.solver_report_
    print(
        f"{name:8}{len(client.cluster.workers)} workers {watch.seconds:7.1f} s  {watch.peaks}",
        flush=True,
    )
    return {
        "seconds": watch.seconds,
        "memory": watch.peaks,
        "digest": digest(calibrator),
        "violation": report.violation,
        "rounds": report.rounds,
        "notes": report.notes,
        "binning": None if report.binning is None else str(report.binning),
        "bytes": len(model_file.dumps(calibrator)),
    }


def evaluate(client: Client, scores, y) -> dict:
    """Every metric; what it took."""
    with Watch(client) as watch:
        found = metrics.evaluate(y, scores, classes=range(N_CLASSES))
    print(f"evaluate {watch.seconds:7.1f} s  {watch.peaks}", flush=True)
    return {"seconds": watch.seconds, "memory": watch.peaks, "result": found.to_dict()}


def fit_and_kill(client: Client, name: str, scores, y, after: float) -> dict:
    """Fit while a worker is killed after so many seconds."""
    victim = next(iter(client.cluster.workers.values())).pid
    timer = threading.Timer(after, os.kill, (victim, signal.SIGKILL))
    timer.start()
    found = fit(client, name, scores, y)
    timer.join()
    return found | {"killed": victim, "after": after}


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("scale.json"))
    parser.add_argument("--files", type=int, default=100, help="of 200,000 rows")
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    options.directory.mkdir(exist_ok=True)
    for i in range(options.files):
        file = options.directory / f"part-{i:04d}.parquet"
        if not file.exists():
            simulate(file, 1000 + i)
    results: dict = {}
    sizes = sorted({max(1, options.files // 10), max(1, options.files // 3), options.files})
    names = options.methods.split(",")
    for n_workers in (2, 1):
        with cluster(n_workers, options.memory) as client:
            for n_files in sizes if n_workers == 2 else sizes[:1]:
                scores, y = read(options.directory, n_files)
                rows = n_files * ROWS_OF_A_FILE
                for name in names:
                    found = fit(client, name, scores, y)
                    results[f"{name}, {rows} rows, {n_workers} workers"] = found
                results[f"evaluate, {rows} rows, {n_workers} workers"] = evaluate(client, scores, y)
                options.output.write_text(json.dumps(results, indent=1, default=str))
    with cluster(2, options.memory) as client:
        scores, y = read(options.directory, sizes[0])
        rows = sizes[0] * ROWS_OF_A_FILE
        for name in names:
            whole = results[f"{name}, {rows} rows, 2 workers"]
            found = fit_and_kill(client, name, scores, y, 0.4 * whole["seconds"])
            results[f"{name}, {rows} rows, one killed"] = found
            print(name, "the same" if found["digest"] == whole["digest"] else "ANOTHER ANSWER")
    options.output.write_text(json.dumps(results, indent=1, default=str))


if __name__ == "__main__":
    main()
