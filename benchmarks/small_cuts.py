"""Calibration sets cut to 30, 60, 120 and 250 rows, for our methods and those of other packages.

    python benchmarks/small_cuts.py val|test DIR [-m PACKAGE:METHOD ...]
    python benchmarks/small_cuts.py val|test DIR --show

The calibration part of every ``.npz`` file in ``DIR/tabular`` and ``DIR/tabular2`` is cut several
times; what is fitted to the cut is judged on the rest of that part ("val": where settings are
chosen), or on the test part. Each method has a table of its own in ``build/small_cuts``, which is
not computed again; methods of other packages run in their own environment, which needs
``peers_install.py``. ``--show`` prints Markdown tables, by number of classes and by size: geometric
means over data sets, since the files of a data set are of the same rows.
"""

import os

from workers import ONE_THREAD

if __name__ == "__main__":
    os.environ |= ONE_THREAD  # before anything loads a thread pool

import argparse
import csv
import warnings
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import numpy as np

from measure import read_part

SIZES = (30, 60, 120, 250)
DRAWS = 2
MOST_CUT = 0.7  # of the rows of a part, so that some are left to judge
FLOOR = 1e-12
LEAST_NLL = 1e-3  # of less, ratios tell nothing
FOLDERS = "tabular", "tabular2"
RAW = "none:uncalibrated"
OURS = "calibrant:auto"
COLUMNS = "file", "rows", "draw", "nll"
BUILD = Path(__file__).parents[1] / "build" / "small_cuts"


def paths_of(folder):
    """Files of both collections."""
    return sorted(path for name in FOLDERS for path in (Path(folder) / name).glob("*.npz"))


def data_set_of(file):
    """Data set of a file, whose name begins with it."""
    return file.partition("_")[0]


def cuts(path, draws=range(DRAWS)):
    """Yield size, draw, and the rows that are fitted to, drawn again until they have two labels."""
    y = read_part(path, "val")[1]
    for size in SIZES:
        for draw in draws if size <= MOST_CUT * len(y) else ():
            rng = np.random.default_rng([size, draw, *path.stem.partition("_")[0].encode()])
            order = rng.permutation(len(y))
            while len(set(y[order[:size]].tolist())) < 2:
                order = rng.permutation(len(y))
            yield size, draw, order[:size], order[size:]


def nll(q, y):
    """Mean NLL of labels."""
    return float(-np.mean(np.log(np.maximum(q[np.arange(len(y)), y], FLOOR))))


def losses(path, part, make):
    """NLL of each cut of a file; NaN where the method fails."""
    p, y = read_part(path, "val")
    new, new_y = read_part(path, "test") if part == "test" else (None, None)
    for size, draw, fit, rest in cuts(path):
        own, own_y = (new, new_y) if part == "test" else (p[rest], y[rest])
        try:
            if make is None:
                value = nll(own, own_y)
            else:
                calibrator = make(p.shape[1])
                calibrator.fit(p[fit], y[fit])
                value = nll(calibrator.predict(own), own_y)
        except Exception as error:  # noqa: BLE001  (of another package: it has no value then)
            print(path.stem, size, draw, repr(error)[:100], flush=True)
            value = np.nan
        yield path.stem, size, draw, value


def measure(method, part, folder):
    """Write the table of a method."""
    package, name = method.split(":")
    make = None
    if method != RAW:
        module = import_module("our_methods" if package == "calibrant" else "peer_methods")

        def make(n_classes):
            return module.make(package, name, n_classes)

    place = BUILD / part / f"{method.replace(':', '-')}.csv"
    place.parent.mkdir(parents=True, exist_ok=True)
    lines = [line for path in paths_of(folder) for line in losses(path, part, make)]
    with place.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])


def tables(part):
    """Mean NLL over draws by method, and by file and size."""
    found = {}
    for place in sorted((BUILD / part).glob("*.csv")):
        values = defaultdict(list)
        with place.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                if int(line["draw"]) < DRAWS:
                    values[line["file"], int(line["rows"])].append(float(line["nll"]))
        found[place.stem] = {key: np.mean(one) for key, one in values.items()}
    return found


def show(part, folder):
    """Print how methods do by kind and size, beside ours."""
    found = tables(part)
    raw = found.pop(RAW.replace(":", "-"))
    n_classes = {path.stem: read_part(path, "val")[0].shape[1] for path in paths_of(folder)}
    for title, is_kind in (("two classes", lambda k: k == 2), ("more classes", lambda k: k > 2)):
        for sizes in (SIZES, *((size,) for size in SIZES)):
            keys = [key for key in raw if is_kind(n_classes[key[0]]) and key[1] in sizes]
            print_table(f"{title}, {' '.join(map(str, sizes))} rows", keys, raw, found)


def print_table(title, keys, raw, found):
    """Print the table of some files and sizes."""
    data_sets = {data_set_of(file) for file, _ in keys}
    print(f"\n{title}: {len(keys)} cuts of {len(data_sets)} data sets\n")
    print("| method | NLL / raw | worst | ours has less, % | files | ours / its NLL |")
    print("|---|---:|---:|---:|---:|---:|")
    base = np.maximum([raw[key] for key in keys], LEAST_NLL)
    ours = np.maximum([found[OURS.replace(":", "-")][key] for key in keys], LEAST_NLL)
    for method, table in found.items():
        own = np.array([table[key] for key in keys])
        has = np.isfinite(own)
        if not has.any():
            continue
        own = np.maximum(own, LEAST_NLL)
        where = [key for key, is_in in zip(keys, has, strict=True) if is_in]
        ratio, beside = own[has] / base[has], ours[has] / own[has]
        wins = 100 * (np.mean(beside < 1) + 0.5 * np.mean(beside == 1))
        print(
            f"| {method} | {by_data_set(where, ratio):.4f} | {ratio.max():.3f} | {wins:.0f} "
            f"| {has.sum()} | {by_data_set(where, beside):.4f} |"
        )


def by_data_set(keys, ratios):
    """Geometric mean over data sets of those of their files and sizes."""
    groups = defaultdict(list)
    for (file, _), ratio in zip(keys, ratios, strict=True):
        groups[data_set_of(file)].append(np.log(ratio))
    return float(np.exp(np.mean([np.mean(one) for one in groups.values()])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=("val", "test"))
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("-m", "--methods", nargs="+", default=(), metavar="PACKAGE:METHOD")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for method in options.methods:
        measure(method, options.part, options.directory)
        print(method, flush=True)
    if options.show:
        show(options.part, options.directory)


if __name__ == "__main__":
    main()
