"""Exported calibrators beside ``predict_proba``: one row, many rows, and bytes of files.

    make bench-export

One thread, in turns, medians. A ratio is the time of ``predict_proba`` over that of the graph:
1 is as fast, 0.5 takes twice as long.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
import torch
from rich.console import Console
from rich.table import Table

from calibrant import model_file
from calibrant.calibrators.methods import make_calibrator, methods
from calibrant.export import save_pt2, to_onnx, to_torch

SIZES = {1000: (2000, 1000), 10: (5000, 100_000)}
"""By the number of classes, rows to fit to and rows to try."""

SLOW_FITS = {"ms", "dirichlet"}
REPEATS, ONE_ROW_REPEATS = 7, 200


def simulate(n_rows, n_classes):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (n_rows, n_classes))
    honest = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    bold = honest**1.7
    return bold / bold.sum(axis=1, keepdims=True), y


def seconds(call, *others, repeats):
    """Median time of each call, in turns."""
    calls = (call, *others)
    times = [[] for _ in calls]
    for _ in range(repeats):
        for one, found in zip(calls, times, strict=True):
            start = time.perf_counter()
            one()
            found.append(time.perf_counter() - start)
    return [median(found) for found in times]


def session_of(data):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def measure(method, n_classes):
    n_fit, n_rows = SIZES[n_classes]
    scores, y = simulate(n_fit, n_classes)
    calibrator = make_calibrator(method).set_params(n_jobs=1, classes=np.arange(n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator.fit(scores, y)
    graph = to_onnx(calibrator, dtype="float64").SerializeToString()
    session, module = session_of(graph), to_torch(calibrator)
    many = np.tile(scores, (n_rows // n_fit + 1, 1))[:n_rows]
    own, by_onnx, by_torch = seconds(
        lambda: calibrator.predict_proba(many),
        lambda: session.run(None, {"probabilities": many}),
        lambda: module(torch.from_numpy(many)),
        repeats=REPEATS,
    )
    one = many[:1]
    row_own, row_onnx, row_torch = seconds(
        lambda: calibrator.predict_proba(one),
        lambda: session.run(None, {"probabilities": one}),
        lambda: module(torch.from_numpy(one)),
        repeats=ONE_ROW_REPEATS,
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.pt2"
        save_pt2(module, path)
        program = path.stat().st_size
    file = len(model_file.dumps(calibrator))
    return (
        *(f"{1e6 * found:,.0f}" for found in (row_own, row_onnx, row_torch)),
        f"{own / by_onnx:.2f}",
        f"{own / by_torch:.2f}",
        f"{file:,}",
        f"{len(graph) / file:.2f}",
        f"{program / file:.2f}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=list(methods()), choices=methods())
    parser.add_argument("--classes", nargs="+", type=int, default=list(SIZES), choices=SIZES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    console = Console()
    for n_classes in arguments.classes:
        table = Table(title=f"{n_classes:,} classes")
        for heading in (
            "method",
            "one row: predict_proba µs",
            "ONNX µs",
            "torch µs",
            "many rows: ONNX ratio",
            "torch ratio",
            ".calibrant bytes",
            ".onnx / it",
            ".pt2 / it",
        ):
            table.add_column(heading, justify="left" if heading == "method" else "right")
        for method in arguments.methods:
            if not (method in SLOW_FITS and n_classes > 100):
                table.add_row(method, *measure(method, n_classes))
        console.print(table)


if __name__ == "__main__":
    main()
