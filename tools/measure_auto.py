"""Measure what each setting of AutoCalibrator is worth, within validation parts alone.

    python tools/measure_auto.py DIR [-s SETTING ...] [--jobs N]

DIR has ``.npz`` files of networks, and folders ``tabular``, ``tabular2`` and ``llm``. Sets of rows:

- two thirds of each validation part, judged on the last third;
- 200 rows of each network, and 30 to 250 of each tabular file (``benchmarks/small_cuts.py``),
  judged on the rest;
- 200 rows of each file of these with labels that are drawn from the scores, judged by the expected
  NLL: then nothing can be gained.

No test part is read. Candidates are fitted once to each set and kept in ``build/auto_sets``, which
is to be removed when their code changes. A setting differs from the default in one constant,
candidate or stage. The table has the change of the mean NLL in percent, by data set; where it is
positive, the default is better.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from workers import ONE_THREAD

if __name__ == "__main__":
    os.environ |= ONE_THREAD  # before anything loads a thread pool

import argparse
import pickle
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from unittest.mock import patch

import numpy as np
from auto_settings import SETTINGS

from calibrant import AutoCalibrator
from calibrant import _gate as gate
from calibrant._calibrators.auto_search import Search
from measure import read_part
from small_cuts import DRAWS, FLOOR, LEAST_NLL, cuts, data_set_of

FOLDERS = {"networks": ".", "llm": "llm", "tabular": "tabular", "tabular2": "tabular2"}
MOST_CELLS, MOST_JUDGED, FEW_ROWS, MOST_CLASSES = 100_000, 1000, 200, 160
KEPT = Path(__file__).parents[1] / "build" / "auto_sets"


@dataclass
class Rows:
    """Rows that are fitted to, rows that are judged (without labels: as honest), and candidates."""

    kind: str
    p: np.ndarray
    y: np.ndarray
    new: np.ndarray
    new_y: np.ndarray | None
    kept: dict = field(default_factory=dict)

    def loss(self, setting):
        """NLL of a setting; candidates that are not kept yet are fitted."""
        classes = np.arange(self.p.shape[1])
        auto = AutoCalibrator(classes=classes, **setting.get("parameters", {}))
        with patched(setting.get("constants", {})):
            batch = gate.check_batch(
                self.p,
                self.y,
                None,
                groups=None,
                kind="probabilities",
                classes=classes,
                normalize=None,
            )
            search = KeptSearch(batch, auto.cv)
            search.bind(self.kept, setting.get("candidates", {}))
            fit = auto._fit_batch(batch, search=search)  # noqa: SLF001
            q = np.maximum(fit.map_(gate.check_scores(self.new, "probabilities")), FLOOR)
        if self.new_y is None:
            return float(-np.mean((self.new * np.log(q)).sum(axis=1)))
        return float(-np.mean(np.log(q[np.arange(len(q)), self.new_y])))


def patched(constants):
    """Change constants, called "module.NAME", for a while."""
    stack = ExitStack()
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        stack.enter_context(patch.object(import_module(f"calibrant.{module}"), constant, value))
    return stack


class KeptSearch(Search):
    """Search whose candidates are fitted once, by name and by what is changed in them."""

    def bind(self, kept, changes):
        self._kept, self._changes = kept, changes

    def _key(self, name):
        return name, str(self._changes.get(name, "")), self.n_folds

    def hold_out(self, names, start):  # noqa: ARG002
        new = [name for name in names if self._key(name) not in self._kept]
        if new:
            constants = {k: v for name in new for k, v in self._changes.get(name, {}).items()}
            with patched(constants):
                names_fitted = list(dict.fromkeys(["ts", *new]))
                own = Search(self._all, self.n_folds)
                own.hold_out(names_fitted, lambda _: None)
                fitted = dict(zip(names_fitted, own.fit(names_fitted), strict=True))
            for name in new:
                self._kept[self._key(name)] = own.held_out[name].scores, fitted[name]
        for name in names:
            self.held_out[name] = self.batch.with_probabilities(self._kept[self._key(name)][0])
            self.seconds[name] = 0.0

    def fit(self, names):
        return [self._kept[self._key(name)][1] for name in names]


def sets_of(path, collection):
    """Yield the sets of a file."""
    p, y = read_part(path, "val")
    k = p.shape[1]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    third = min(len(y) // 3, MOST_JUDGED)
    judged, rest = order[:third], order[third:][: MOST_CELLS // k]
    kind = "llm" if collection == "llm" else "networks" if collection == "networks" else "tabular"
    if kind == "tabular":
        kind = "two classes" if k == 2 else "more classes"
    if third >= 20:
        yield Rows(f"{kind}, 2/3", p[rest], y[rest], p[judged], y[judged])
    if kind in {"two classes", "more classes"}:
        for size, _, fit, held in cuts(path, (sum(path.stem.encode()) % DRAWS,)):
            yield Rows(f"{kind}, {size}", p[fit], y[fit], p[held], y[held])
    elif kind == "networks" and len(rest) > FEW_ROWS:
        few = rest[:FEW_ROWS]
        yield Rows("networks, 200", p[few], y[few], p[judged], y[judged])
    if kind != "llm":
        few = rest[:FEW_ROWS]
        drawn = (p[few].cumsum(axis=1) > rng.random((len(few), 1))).argmax(axis=1)
        title = "networks" if kind == "networks" else "tabular"
        yield Rows(f"honest {title}", p[few], drawn, p[judged], None)


def measure(names, place):
    """Sets' kinds, and NLL of each setting on each set of a file."""
    warnings.simplefilter("ignore")
    collection, path = place
    is_two = classes_of(path) == 2
    settings = [SETTINGS[name] for name in names]
    kept = KEPT / f"{collection}-{path.stem}.pickle"
    if kept.exists():
        with kept.open("rb") as file:
            sets = pickle.load(file)
    else:
        sets = list(sets_of(path, collection))
    before = sum(len(one.kept) for one in sets)
    found = [
        [one.loss(s) if s.get("of_two", is_two) == is_two else np.nan for s in settings]
        for one in sets
    ]
    if sum(len(one.kept) for one in sets) > before:
        KEPT.mkdir(parents=True, exist_ok=True)
        with kept.open("wb") as file:
            pickle.dump(sets, file)
    return collection, path.stem, [one.kind for one in sets], found


def some_files(folder, *, is_all):
    """Files of a folder: three of the seven classifiers of each tabular data set, in turn."""
    files = sorted(folder.glob("*.npz"))
    turn = {name: i for i, name in enumerate(sorted({data_set_of(path.stem) for path in files}))}
    place = dict.fromkeys(turn, 0)
    for path in files:
        name = data_set_of(path.stem)
        if is_all or (place[name] + turn[name]) % 7 in {0, 2, 4}:
            yield path
        place[name] += 1


def classes_of(path):
    """Number of classes; 0 of a file without scores."""
    with np.load(path) as file:
        parts = [name for name in ("val_probs", "val_logits") if name in file]
        return file[parts[0]].shape[1] if parts else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("-s", "--settings", nargs="+", default=None, metavar="SETTING")
    parser.add_argument("-c", "--collections", nargs="+", default=tuple(FOLDERS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--two", action=argparse.BooleanOptionalAction, help="only two classes")
    options = parser.parse_args()
    names = list(dict.fromkeys(["default", *(options.settings or SETTINGS)]))
    places = [
        (name, path)
        for name in options.collections
        for path in some_files(options.directory / FOLDERS[name], is_all="tabular" not in name)
        if 2 <= classes_of(path) <= MOST_CLASSES and options.two in {None, classes_of(path) == 2}
    ]
    logs = defaultdict(lambda: defaultdict(list))  # by kind and data set
    with ProcessPoolExecutor(options.jobs) as pool:
        for collection, file, kinds, found in pool.map(partial(measure, names), places):
            data_set = file if collection in {"networks", "llm"} else data_set_of(file)
            for kind, losses in zip(kinds, found, strict=True):
                own = np.log(np.maximum(losses, LEAST_NLL))
                logs[kind][data_set].append(own)
    kinds = sorted(logs)
    print("| setting | " + " | ".join(kinds) + " | mean |\n|---|" + "---:|" * (len(kinds) + 1))
    means = {
        kind: np.mean([np.mean(own, axis=0) for own in logs[kind].values()], axis=0)
        for kind in kinds
    }
    for i, name in enumerate(names):
        values = [100 * (means[kind][i] - means[kind][0]) for kind in kinds]
        words = " | ".join("" if np.isnan(value) else f"{value:.2f}" for value in values)
        print(f"| {name} | {words} | {np.nanmean(values):.3f} |")


if __name__ == "__main__":
    main()
