"""Our methods and metrics beside those of other packages: ``make bench-peers``.

Ours and theirs run in processes of two environments that are asked in turn, on one thread. What is
told are medians of seconds of the processor and of the ratios of pairs, theirs / ours: above 1 ours
is quicker. A call that takes longer than the limit is ended, and its cell says so; so does one that
fails. Every cell is written at once to the JSON file, and one that is there is not measured again.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from itertools import product
from pathlib import Path
from statistics import median

from calibrant import _trial as trial
from calibrant._atomic_file import replace_file
from measure import shape_of
from workers import ONE_THREAD, TooLong, Worker, in_turn

HERE = Path(__file__).parent
WORKER = HERE / "peers_worker.py"
BUILD = HERE.parent / "build"
SIZES = ("10,000 x 10", "5,000 x 100", "1,000,000 x 10", "12,500 x 1,000")
FIRST_SIZE = SIZES[0]
OURS, THEIRS = "ours", "theirs"
MODULES = {OURS: "our_methods", THEIRS: "peer_methods"}
"""Where the methods and metrics of each side are."""

PAIRS = [
    *(("ts", "scikit-learn", "temperature"), ("ts", "netcal", "TemperatureScaling")),
    *(("ts", "probmetrics", "TS"), ("ts", "dirichletcal", "TemperatureScaling")),
    *(("vs", "netcal", "LogisticCalibration"), ("vs", "probmetrics", "VS")),
    *(("vs", "dirichletcal", "VectorScaling"), ("ms", "probmetrics", "MS")),
    *(("ms", "dirichletcal", "MatrixScaling"), ("dirichlet", "dirichletcal", "FullDirichlet")),
    *(("structured diagonal", "probmetrics", "SVS"), ("structured matrix", "probmetrics", "SMS")),
    *(("ir-ovr", "scikit-learn", "isotonic"), ("ir-ovr", "netcal", "IsotonicRegression")),
    ("ir-ovr", "venn-abers", "one_vs_all"),  # which does more: two isotonic fits for each row
    *(("platt-ovr", "scikit-learn", "sigmoid"), ("beta-ovr", "betacal", "BetaCalibration")),
    *(("beta-ovr", "netcal", "BetaCalibration"), ("hb-ovr", "netcal", "HistogramBinning")),
    *(("hb-ovr", "probmetrics", "histogram"), ("hb-ovr", "uncertainty-calibration", "histogram")),
    *(("bbq-ovr", "netcal", "BBQ"), ("m2b-ir", "MAPIE", "TopLabelCalibrator")),
    ("spline", "splinecalib", "SplineCalib"),
]
"""Our method, a package, and the same or the nearest method there."""

LAZY = {"venn-abers"}
"""Packages that do nothing before they predict."""

METRICS = [
    *(("netcal", "conf-ece"), ("torchmetrics", "conf-ece"), ("relplot", "conf-ece")),
    *(("uncertainty-calibration", "conf-ece"), ("MAPIE", "conf-ece"), ("scikit-learn", "nll")),
    *(("probmetrics", "nll"), ("scikit-learn", "brier"), ("probmetrics", "brier")),
]


class Results:
    """A JSON file of lists of cells, written whole after each."""

    def __init__(self, path):
        self.path = path
        self.found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        path.parent.mkdir(parents=True, exist_ok=True)

    def has(self, section, **key):
        return self._place(section, key) is not None

    def put(self, section, cell, **key):
        """Keep a cell in place of the one with the same key."""
        cells = self.found.setdefault(section, [])
        place = self._place(section, key)
        if place is None:
            cells.append(key | cell)
        else:
            cells[place] = key | cell
        self.write()

    def _place(self, section, key):
        for place, cell in enumerate(self.found.get(section, [])):
            if all(cell.get(name) == value for name, value in key.items()):
                return place
        return None

    def write(self):
        with replace_file(self.path) as file:
            file.write((json.dumps(self.found, indent=1) + "\n").encode())


class Failed(Exception):  # noqa: N818  (part of what is found)
    """A side gave no number, for a reason."""

    def __init__(self, side, text):
        super().__init__(f"{side}: {text}")
        self.side, self.text = side, text


class Both:
    """A worker of ours and one of theirs, and how long they may take."""

    def __init__(self, python, limit, budget):
        self.pythons = {OURS: sys.executable, THEIRS: python}
        self.workers = {
            side: Worker(self.pythons[side], WORKER, module) for side, module in MODULES.items()
        }
        self.limit, self.budget = limit, budget

    def ask(self, side, **question):
        """What a worker found; a failure is :class:`Failed`."""
        try:
            found = self.workers[side].ask(self.limit, **question)
        except TooLong:
            raise Failed(side, f"> {self.limit:g} s") from None
        except RuntimeError:
            raise Failed(side, "its process died") from None
        if "error" in found:
            raise Failed(side, found["error"])
        return found

    def compare(self, **questions):
        """Medians of both, and of the ratios of pairs; or what went wrong."""
        found = {}
        for side in (OURS, THEIRS):  # ours is known, too, where theirs fails
            try:
                found[side] = self.ask(side, **questions[side])
            except Failed as failed:
                found[side] = failed.text
        seconds = {s: one if isinstance(one, str) else one["cpu"] for s, one in found.items()}
        if any(isinstance(one, str) for one in seconds.values()):
            return seconds
        runs = {s: lambda s=s: self.ask(s, **questions[s])["cpu"] for s in (OURS, THEIRS)}
        try:
            measured = in_turn(runs, self.budget, first=seconds)
        except Failed as failed:
            return seconds | {failed.side: failed.text}
        pairs = [b / a for a, b in zip(measured[OURS], measured[THEIRS], strict=True)]
        cell = {side: median(values) for side, values in measured.items()}
        cell |= {"ratio": median(pairs), "repeats": len(pairs)}
        values = {side: one["value"] for side, one in found.items() if "value" in one}
        return cell | ({"values": values} if values else {})

    def fresh(self, side, do, **question):
        """What a process that has done nothing before answers, or what went wrong."""
        command = [self.pythons[side], WORKER, MODULES[side], do, json.dumps(question)]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=2 * self.limit + 60, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"> {2 * self.limit:g} s"}
        return json.loads(done.stdout) if done.stdout else {"error": "its process died"}

    def forget(self):
        for worker in self.workers.values():
            worker.ask(do="forget")

    def stop(self):
        for worker in self.workers.values():
            worker.stop()


def questions(ours, package, method, size):
    """What each side is to do."""
    return {
        OURS: {"package": "calibrant", "method": ours, "source": size},
        THEIRS: {"package": package, "method": method, "source": size},
    }


def speed(both, pair, size):
    """Warm fits and predictions; a prediction only where both have fitted."""
    asked = questions(*pair, size)
    cell = {}
    for do in ("both",) if pair[1] in LAZY else ("fit", "predict"):
        cell[do] = both.compare(**{side: {"do": do, **asked[side]} for side in asked})
        if "ratio" not in cell[do]:
            break
    return cell


def memory(both, pair, size):
    asked = questions(*pair, size)
    return {"peak_bytes": {side: both.fresh(side, "memory", **asked[side]) for side in asked}}


def first(both, pair, size, repeats=3):
    """Seconds of the imports and of the first fit and prediction of processes, in turn."""
    asked = questions(*pair, size)
    found = {side: [] for side in asked}
    for _ in range(repeats):
        for side, values in found.items():
            values.append(both.fresh(side, "first", **asked[side]))
    errors = {s: v["error"] for s, values in found.items() for v in values if "error" in v}
    if errors:
        return {"first": errors}
    medians = {
        side: {name: median(one[name] for one in values) for name in ("import", "call")}
        for side, values in found.items()
    }
    return {"first": medians}


def took_too_long(results, pair, size):
    """Whether theirs took too long on no more rows and no more classes, which can be but longer."""
    rows, classes = shape_of(size)
    for cell in results.found.get("pairs", []):
        if (cell["ours"], cell["package"], cell["method"]) != pair:
            continue
        m, k = shape_of(cell["size"])
        main = cell.get("fit") or cell.get("both")
        if m <= rows and k <= classes and str(main[THEIRS]).startswith(">"):
            return main[THEIRS]
    return None


def measure_pairs(both, results, installed, options):
    """All cells of fits and predictions that are not there yet."""
    chosen = [pair for pair in PAIRS if is_wanted(options, pair[1], pair[0])]
    for size, pair in product(options.sizes, chosen):
        key = dict(zip(("ours", "package", "method"), pair, strict=True)) | {"size": size}
        if results.has("pairs", **key) and not options.again:
            continue
        error = installed.get(pair[1], {}).get("error")
        late = took_too_long(results, pair, size)
        if error is not None:
            cell = {"fit": {THEIRS: f"not installed: {error}"}}
        elif late is not None:
            cell = {"fit": {THEIRS: late}, "is_inferred": True}
        else:
            cell = speed(both, pair, size)
            if "ratio" in next(iter(cell.values())):
                cell |= memory(both, pair, size)
                cell |= first(both, pair, size) if size == FIRST_SIZE else {}
        results.put("pairs", cell, **key)
        print(f"{in_words(cell)}  {pair[0]}, {pair[1]} {pair[2]}, {size}", flush=True)
        both.forget()


def measure_metrics(both, results, installed, options):
    chosen = [(p, name) for p, name in METRICS if is_wanted(options, p, name)]
    for size, (package, name) in product(options.sizes, chosen):
        key = {"package": package, "metric": name, "size": size}
        if results.has("metrics", **key) and not options.again:
            continue
        if "error" in installed.get(package, {}):
            continue
        question = {"do": "metric", "name": name, "source": size}
        cell = both.compare(
            **{OURS: {"package": "calibrant", **question}, THEIRS: {"package": package, **question}}
        )
        results.put("metrics", cell, **key)
        print(f"{in_words({'metric': cell})}  {name}, {package}, {size}", flush=True)
        both.forget()


def is_wanted(options, package, name):
    return package in (options.packages or [package]) and name in (options.methods or [name])


def in_words(cell):
    """One line about a cell: ratios, or what went wrong."""
    words = []
    for do, found in cell.items():
        if isinstance(found, dict) and do not in {"peak_bytes", "first"}:
            words.append(f"{found['ratio']:8.2f}x {do}" if "ratio" in found else f"{do}: {found}")
    return "  ".join(words)


def machine():
    """What was measured on."""
    info = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (info.read_text("utf-8").splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return {"processor": (names or [platform.processor()])[0], "system": platform.system()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=Path, default=BUILD / "peers", help="their environment")
    parser.add_argument("-o", "--output", type=Path, default=BUILD / "peers.json")
    parser.add_argument("--sizes", type=lambda text: text.split(";"), default=SIZES)
    parser.add_argument("--packages", type=lambda text: text.split(","))
    parser.add_argument("--methods", type=lambda text: text.split(","), help="ours, or metrics")
    parser.add_argument("--only", choices=["pairs", "metrics"])
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a call")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for each cell")
    parser.add_argument("--again", action="store_true", help="measure cells that are there")
    options = parser.parse_args()
    os.environ |= ONE_THREAD  # the workers inherit it
    installed = json.loads((options.peers / "peers.json").read_text("utf-8"))
    results = Results(options.output)
    results.found |= {
        "versions": trial.versions(),
        "peers": installed,
        "machine": machine(),
        "limit": options.limit,
        "all_sizes": SIZES,
    }
    results.write()
    both = Both(options.peers / "bin" / "python", options.limit, options.budget)
    try:
        if options.only != "metrics":
            measure_pairs(both, results, installed, options)
        if options.only != "pairs":
            measure_metrics(both, results, installed, options)
    finally:
        both.stop()


if __name__ == "__main__":
    main()
