"""Calibration sets of few rows, and classifiers that are honest already.

    python benchmarks/small_sets.py DIR

The val part of every ``.npz`` file in DIR is cut to a tenth, and to 200 rows, five times; what is
fitted is judged on the test part. Honest classifiers are made of the same files: labels are drawn
from the probabilities, and the NLL is that expected of them. The table grows file by file, and what
is in it is not computed again.
"""

import os

from workers import ONE_THREAD

if __name__ == "__main__":
    os.environ |= ONE_THREAD  # before anything loads a thread pool

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

from calibrant import AutoCalibrator, TemperatureScaling
from measure import read_part
from peers import BUILD

DRAWS = 5
ROWS = 200
MOST_TEST_ROWS = 5000
COLUMNS = ("file", "rows", "labels", "draw", "auto", "ts", "identity")
FLOOR = 1e-12


def nll(q, y):
    return -np.mean(np.log(np.maximum(q[np.arange(len(y)), y], FLOOR)))


def expected(q, p):
    return -np.mean(np.sum(p * np.log(np.maximum(q, FLOOR)), axis=1))


def judge(p, y, new, judged):
    """NLL of both calibrators and of the scores as they are, by ``judged``."""
    makes = AutoCalibrator, TemperatureScaling
    fitted = [one(classes=np.arange(p.shape[1])).fit(p, y) for one in makes]
    return [judged(one.predict_proba(new)) for one in fitted] + [judged(new)]


def lines_of(path):
    (p, y), (new, t) = read_part(path, "val"), read_part(path, "test")
    new, t = new[:MOST_TEST_ROWS], t[:MOST_TEST_ROWS]
    for name, n_rows in (("tenth", len(y) // 10), (str(ROWS), ROWS)):
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            rows = rng.permutation(len(y))[:n_rows]
            found = judge(p[rows], y[rows], new, lambda q: nll(q, t))
            yield path.stem, name, "real", draw, *found
            drawn = (p[rows].cumsum(axis=1) > rng.random((len(rows), 1))).argmax(axis=1)
            found = judge(p[rows], drawn, new, lambda q: expected(q, new))
            yield path.stem, name, "honest", draw, *found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, default=BUILD / "small.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    known = set()
    if options.output.exists():
        with options.output.open(encoding="utf-8", newline="") as file:
            known = {line["file"] for line in csv.DictReader(file)}
    with options.output.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not known:
            writer.writerow(COLUMNS)
        for path in sorted(options.directory.glob("*.npz")):
            if path.stem not in known:
                writer.writerows(lines_of(path))
                file.flush()
                print(path.stem, flush=True)


if __name__ == "__main__":
    main()
