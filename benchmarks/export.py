"""Exported calibrators beside ``predict_proba`` and behind networks, and bytes of files.

    make bench-export

One thread, in turns, medians. A ratio is the time of ``predict_proba`` over that of the graph:
1 is as fast, 0.5 takes twice as long. Many rows are a batch of 100,000 cells.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import itertools
import logging
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
from calibrant._calibrators.methods import make_calibrator
from calibrant.export import merge_onnx, save_pt2, to_onnx, to_torch
from calibrant.study._methods import ALL_METHODS

ROWS = {1000: 2000, 10: 5000}
"""By the number of classes, rows to fit to."""

CELLS = 100_000
"""Of a batch."""

SLOW_FITS = {"ms", "dirichlet"}
REPEATS = 21
ONE_ROW = {"repeats": 20, "at_once": 50}
BEHIND = ("ts", "structured", "spline", "na-fir", "scir", "auto")


def simulate(n_rows, n_classes):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (n_rows, n_classes))
    honest = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    bold = honest**1.7
    return bold / bold.sum(axis=1, keepdims=True), y


def seconds(call, *others, repeats, at_once=1):
    """Median time of each call, in turns of so many."""
    calls = (call, *others)
    times = [[] for _ in calls]
    for _ in range(repeats):
        for one, found in zip(calls, times, strict=True):
            for _ in range(at_once):
                start = time.perf_counter()
                one()
                found.append(time.perf_counter() - start)
    return [median(found) for found in times]


def session_of(data):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def fitted(method, scores, y, kind="probabilities"):
    calibrator = make_calibrator(method).set_params(
        n_jobs=1, classes=np.arange(scores.shape[1]), scores=kind
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit(scores, y)


def measure(method, n_classes):
    n_fit, n_rows = ROWS[n_classes], CELLS // n_classes
    scores, y = simulate(n_fit, n_classes)
    calibrator = fitted(method, scores, y)
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
        **ONE_ROW,
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


def networks():
    """A small network of ten classes, and one of the layers of an image classifier."""
    layers = torch.nn
    torch.manual_seed(0)
    yield (
        "64 inputs, 128 units, 10 classes",
        layers.Sequential(layers.Linear(64, 128), layers.ReLU(), layers.Linear(128, 10)),
        torch.randn(2, 64),
    )
    sizes = [3, 32, 64, 128, 256, 512]
    parts = []
    for before, after in itertools.pairwise(sizes):
        parts += [layers.Conv2d(before, after, 3, stride=2, padding=1), layers.ReLU()]
    parts += [layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(512, 1000)]
    yield (
        "224 x 224 pixels, 5 convolutions, 1,000 classes",
        layers.Sequential(*parts),
        torch.randn(2, 3, 224, 224),
    )


def measure_behind(network, example):
    """Time of one row through a network, and through it and each calibrator."""
    free = ({0: torch.export.Dim("rows")},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's own
        model = torch.onnx.export(
            network.eval(), (example,), dynamic_shapes=free, verbose=False
        ).model_proto
    n_classes = network[-1].out_features
    scores, y = simulate(ROWS[n_classes], n_classes)
    graphs = [model] + [
        merge_onnx(model, fitted(method, np.log(scores), y, "logits")) for method in BEHIND
    ]
    feed = {model.graph.input[0].name: example[:1].numpy()}
    sessions = [session_of(graph.SerializeToString()) for graph in graphs]
    calls = [lambda session=session: session.run(None, feed) for session in sessions]
    return [f"{1e6 * found:,.0f}" for found in seconds(*calls, **ONE_ROW)]


def print_behind(console):
    table = Table(title="One row through a network, and with a calibrator behind it, µs")
    for heading in ("network", "alone", *BEHIND):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for name, network, example in networks():
        table.add_row(name, *measure_behind(network, example))
    console.print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=ALL_METHODS, choices=ALL_METHODS)
    parser.add_argument("--classes", nargs="+", type=int, default=list(ROWS), choices=ROWS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # of torchvision, which is not needed
    console = Console(width=140)
    print_behind(console)
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
