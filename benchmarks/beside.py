"""Two environments beside each other: ``beside.py --old PYTHON --new PYTHON -o results.json``.

Each has a release of the package, not in editable mode, and the same libraries. A worker in each
is asked in turn, on one thread, so that both see the same machine; what is compared are medians of
the ratios of pairs. Single-threaded work is measured in seconds of the processor, which other
processes hardly lengthen. Beside the JSON file one of tables in Markdown is written; ``--page``
puts them into a page, too, between its marks.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median

import workers
from beside_page import put_into, tables
from workers import ONE_THREAD, in_turn

WORKER = Path(__file__).with_name("beside_worker.py")
REAL = WORKER.parents[2] / "shared" / "data" / "cifar100_densenet-bc-100.npz"

METHODS = [
    *("NormalizationAwareIsotonic", "SortedCumulativeIsotonic", "FlattenedIsotonic"),
    *("TemperatureScaling", "VectorScaling", "MatrixScaling", "DirichletCalibration"),
    *("OneVsRestIsotonic", "OneVsRestPlatt", "OneVsRestBeta", "OneVsRestHistogram", "OneVsRestBBQ"),
    *("SharedClasswise", "TopLabelHistogram", "TopLabelIsotonic"),
    *("StructuredScaling", "MonotoneSpline", "AutoCalibrator"),
]
PREDICTED = {"10,000 x 10": 100_000, "5,000 x 100": 10_000, "12,500 x 1,000": 2_000}
SLOW = {"MatrixScaling", "DirichletCalibration", "OneVsRestBBQ", "AutoCalibrator"}
LEFT_OUT = {"12,500 x 1,000": SLOW, REAL.stem: SLOW}
FIRST = ("NormalizationAwareIsotonic", "SortedCumulativeIsotonic", "MonotoneSpline")
FIRST += ("StructuredScaling", "AutoCalibrator")
APPLIED = {"npz": FIRST[0], "csv": FIRST[1], "parquet": "AutoCalibrator"}
THREADS = {
    "NormalizationAwareIsotonic": "10,000 x 10",
    "TemperatureScaling": "12,500 x 1,000",
    "SortedCumulativeIsotonic": "5,000 x 100",
}


class Worker(workers.Worker):
    """A process that answers."""

    def ask(self, do, *arguments, **more):
        """Let something be done; returns what was found."""
        names = ("method", "source", "n_rows", "n_jobs")
        return super().ask(do=do, **dict(zip(names, arguments, strict=False)), **more)


def compare(old, new, budget, *question):
    """Medians of both workers and of the ratios of pairs."""
    both = {"old": old, "new": new}
    runs = {name: lambda of=of: of.ask(*question)["cpu"] for name, of in both.items()}
    found = in_turn(runs, budget)
    pairs = [new / old for old, new in zip(found["old"], found["new"], strict=True)]
    medians = {name: median(values) for name, values in found.items()}
    print(f"{median(pairs):6.2f}x  {' '.join(map(str, question))}", flush=True)
    return medians | {"ratio": median(pairs), "measured": found}


def warm(old, new, methods, sources, budget):
    """Fits and predictions after the first."""
    found = {"fit": {}, "predict": {}}
    for source in sources:
        for method in methods:
            name = Path(source).stem
            if method in LEFT_OUT.get(name, ()):
                continue
            for do, seconds in (("fit", budget), ("predict", budget / 4)):
                size = [PREDICTED.get(source, 10_000)] if do == "predict" else []
                cell = compare(old, new, seconds, do, method, source, *size)
                found[do].setdefault(name, {})[method] = cell
        for worker in (old, new):
            worker.ask("forget")
    return found


def fresh(python, *arguments, **variables):
    """What a process that has done nothing before prints."""
    done = subprocess.run(
        [python, WORKER, *arguments], env=os.environ | variables, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def first(old, new, repeats=5):
    """The first fit and prediction of a process beside later ones, with nothing compiled yet."""
    found = {}
    for method in FIRST:
        with tempfile.TemporaryDirectory() as empty:
            then = fresh(old.python, "first", method, NUMBA_CACHE_DIR=empty)
        now = [fresh(new.python, "first", method) for _ in range(repeats)]
        medians = {name: median(one[name] for one in now) for name in ("first", "warm")}
        medians["ratio"] = median(one["first"] / one["warm"] for one in now)
        found[method] = {"old": then | {"ratio": then["first"] / then["warm"]}, "new": medians}
        print(f"{medians['ratio']:6.2f}x  first {method}", flush=True)
    return found


def threads(new):
    """Two threads beside one, in seconds of a clock."""
    if not new.ask("has", "n_jobs"):
        return {}
    questions = {
        f"predict_proba of {method}, {source}": ("predict", method, source, 5 * PREDICTED[source])
        for method, source in THREADS.items()
    }
    questions |= {
        f"fit of AutoCalibrator, {source}": ("fit", "AutoCalibrator", source, None)
        for source in ("650 x 10", "10,000 x 10")
    }
    found = {}
    for name, question in questions.items():
        runs = {n: lambda n=n, q=question: new.ask(*q, n_jobs=n)["clock"] for n in (1, 2)}
        one, two = in_turn(runs, 10).values()
        gain = median(a / b for a, b in zip(one, two, strict=True))
        found[name] = {"one": median(one), "two": median(two), "gain": gain}
        print(f"{gain:6.2f}x  two threads, {name}", flush=True)
    return found


def processor_seconds(command):
    """Seconds of the processor that a process takes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} failed")
    return usage.ru_utime + usage.ru_stime


def commands(old, new, n_rows=1_000):
    """``calibrant apply`` beside the import of one module of scikit-learn."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = {"import sklearn.isotonic": [new.python, "-c", "import sklearn.isotonic"]}
        for name, worker in (("old", old), ("new", new)):
            home = Path(folder) / name
            home.mkdir()
            worker.ask("write", folder=str(home), methods=[*APPLIED.values()], count=n_rows)
            for suffix, method in APPLIED.items():
                command = ["apply", home / f"{method}.calibrant", home / f"p.{suffix}", "-o"]
                command = [worker.python, "-m", "calibrant", *command, home / f"o.{suffix}"]
                runs[f"{suffix}, {method}, {name}"] = command
        runs = {name: lambda c=command: processor_seconds(c) for name, command in runs.items()}
        measured = in_turn(runs, 0, least=7)
    base = measured["import sklearn.isotonic"]
    for name, seconds in measured.items():
        ratio = median(a / b for a, b in zip(seconds, base, strict=True))
        found[name] = {"seconds": median(seconds), "ratio": ratio}
        print(f"{ratio:6.2f}x  {name}", flush=True)
    return found


def sizes(old, new, wheel):
    """Resident MiB after an import and one fit; MB of the install and of the wheel."""
    found = {}
    for name, worker in (("old", old), ("new", new)):
        resident = {method: fresh(worker.python, "memory", method) for method in FIRST}
        found[name] = {"resident": resident, "install": worker.ask("size")}
    return found | {"wheel": wheel and wheel.stat().st_size}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--old", required=True, help="Python with the older release")
    parser.add_argument("--new", required=True, help="Python with the newer one")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--page", type=Path, help="page to put the tables into")
    parser.add_argument("--wheel", type=Path, help="wheel of the newer release")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=METHODS)
    parser.add_argument("--sources", type=lambda text: text.split(";"), help="some of the shapes")
    parser.add_argument("--only", choices=["warm", "first", "threads", "commands", "sizes"])
    parser.add_argument("--budget", type=float, default=3.0, help="seconds for each warm fit")
    options = parser.parse_args()
    os.environ |= ONE_THREAD  # the workers inherit it
    old, new = Worker(options.old, WORKER), Worker(options.new, WORKER)
    sources = options.sources or [*PREDICTED, *([str(REAL)] if REAL.exists() else [])]
    parts = {
        "warm": lambda: warm(old, new, options.methods, sources, options.budget),
        "first": lambda: first(old, new),
        "threads": lambda: threads(new),
        "commands": lambda: commands(old, new),
        "sizes": lambda: sizes(old, new, options.wheel),
    }
    result = {"versions": {"old": old.ask("versions"), "new": new.ask("versions")}}
    for name, run in parts.items():
        if options.only in (None, name):
            result[name] = run()
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    text = tables(result)
    options.output.with_suffix(".md").write_text(text)
    if options.page is not None:
        put_into(options.page, text)


if __name__ == "__main__":
    main()
