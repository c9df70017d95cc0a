"""Our methods and those of other packages on the same files of predictions, by the same metrics.

    make bench-peers DATA=DIR

Every method is fitted to the val part of every ``dataset_model.npz`` in DIR, and in its folders
``tabular``, ``llm`` and ``imagenet``, and judged on its test part. The table has a line for each;
it is written whole after every cell, and what is in it is not computed again. Rows of predictions
are divided by their sums, which not every package does. A method that took too long on a file is
not tried on one with as many rows and classes or more. Ours alone, after a change:

    python benchmarks/peers_quality.py DIR --packages calibrant --methods auto,ts --again
"""

import argparse
import csv
import io
import json
import os
import sys
import tempfile
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np

from calibrant import metrics
from calibrant._atomic_file import replace_file
from calibrant.errors import PredictionFileError
from calibrant.study._files import look_at
from measure import read_part
from our_methods import CLASSES
from peer_methods import PEERS
from peers import BUILD, WORKER
from workers import ONE_THREAD, TooLong, Worker

JUDGES = {
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier_score,
    "conf-ece": metrics.confidence_ece,
    "accuracy": metrics.accuracy,
}
COLLECTIONS = ("tabular", "llm", "imagenet")
"""Folders of predictions of one kind."""

COLUMNS = ("file", "package", "method", "collection", "rows", "classes", *JUDGES)
COLUMNS += ("positive-ece", "fit seconds", "error")


class Table:
    """A CSV file with a line for each file, package and method."""

    def __init__(self, path):
        self.path, self.lines = path, {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                for line in csv.DictReader(file):
                    self.lines[line["file"], line["package"], line["method"]] = line

    def put(self, key, **found):
        self.lines[key] = dict(zip(COLUMNS, key, strict=False)) | found
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.lines[one] for one in sorted(self.lines))
        with replace_file(self.path) as file:
            file.write(text.getvalue().encode())


def judge(rows, file):
    """Metrics of predictions of the test part."""
    p, y = read_part(file, "test")
    rows = rows / rows.sum(axis=1, keepdims=True) if rows is not None else p
    classes = np.arange(p.shape[1])
    found = {name: metric(y, rows, classes=classes) for name, metric in JUDGES.items()}
    if len(classes) == 2:
        found["positive-ece"] = metrics.positive_ece(y, rows, classes=classes)
    return found


def try_method(worker, package, method, file, limit):
    """What a line says of a method on a file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.npy"
        question = {"package": package, "method": method, "file": str(file), "out": str(out)}
        try:
            found = worker.ask(limit, do="quality", **question)
        except TooLong:
            return {"error": f"> {limit:g} s"}
        except RuntimeError:
            return {"error": "its process died"}
        if "error" in found:
            return {"error": found["error"]}
        return judge(np.load(out), file) | {"fit seconds": found["cpu"]}


def took_too_long(table, files, key):
    """The error of a method that took too long on no more rows and no more classes."""
    name, *who = key
    size = {file.path.stem: (file.n_val, file.n_classes) for file in files}
    for (other, *by), line in table.lines.items():
        is_late = by == who and other in size and line.get("error", "").startswith(">")
        if is_late and all(a <= b for a, b in zip(size[other], size[name], strict=True)):
            return line["error"]
    return None


def fill(table, files, methods, workers, installed, options):
    """Compute what is not in the table yet, small files first."""
    ordered = sorted(files, key=lambda file: (file.n_val * file.n_classes, file.path))
    for found_file, (package, method) in product(ordered, methods):
        file = found_file.path
        key = (file.stem, package, method)
        if key in table.lines and not options.again:
            continue
        if "error" in installed.get(package, {}):
            found = {"error": "not installed"}
        elif (late := took_too_long(table, files, key)) is not None:
            found = {"error": late}
        elif package == "none":
            found = judge(None, file)
        else:
            worker = workers["calibrant" if package == "calibrant" else "peers"]
            found = try_method(worker, package, method, file, options.limit)
        home = file.parent.name if file.parent.name in COLLECTIONS else ""
        size = {"rows": found_file.n_val, "classes": found_file.n_classes}
        table.put(key, collection=home, **size, **found)
        said = found.get("error") or f"NLL {found['nll']:.4f}"
        print(f"{file.stem}  {package} {method}: {said}", flush=True)


def words(text):
    return text.split(",")


def find(directory, pattern):
    """Prediction files of a directory and of its collections."""
    found = []
    for folder in (directory, *(directory / name for name in COLLECTIONS)):
        for path in sorted(folder.glob(f"{pattern}.npz")):
            with suppress(PredictionFileError):  # as groups of rows, which are no predictions
                found.append(look_at(path))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--peers", type=Path, default=BUILD / "peers", help="their environment")
    parser.add_argument("-o", "--output", type=Path, default=BUILD / "quality.csv")
    parser.add_argument("--files", default="*", help="a pattern of names")
    parser.add_argument("--packages", type=words, help='as "none,calibrant,netcal"; all by default')
    parser.add_argument("--methods", type=words, help="some of ours")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a fit and predict")
    parser.add_argument("--again", action="store_true", help="compute what is there")
    options = parser.parse_args()
    files = find(options.directory, options.files)
    if not files:
        parser.error(f"{options.directory} has no {options.files}.npz")
    os.environ |= ONE_THREAD  # the workers inherit it
    installed = json.loads((options.peers / "peers.json").read_text("utf-8"))
    own = [("calibrant", method) for method in options.methods or CLASSES]
    methods = [("none", "uncalibrated"), *own, *PEERS]
    methods = [pair for pair in methods if pair[0] in (options.packages or [pair[0]])]
    workers = {
        "calibrant": Worker(sys.executable, WORKER, "our_methods"),
        "peers": Worker(options.peers / "bin" / "python", WORKER, "peer_methods"),
    }
    try:
        fill(Table(options.output), files, methods, workers, installed, options)
    finally:
        for worker in workers.values():
            worker.stop()


if __name__ == "__main__":
    main()
