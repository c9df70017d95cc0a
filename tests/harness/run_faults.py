"""Let the n-th allocation, or the n-th write, fail, for every n; print what happened as JSON.

    OMP_NUM_THREADS=1 python run_faults.py memory [NAME ...]
    LD_PRELOAD=faults.so python run_faults.py writes [NAME ...]

``allocations.c`` and ``faults.c``, built, are on the path. Names are those of ``MEMORY``,
``OTHERS`` and ``WRITERS``, by default all. A line for each says how many calls there were, how many
faults were injected, how many of them were raised as errors, how many left the result as it is
without them, and what went wrong. Of more than ``MOST`` allocations as many are chosen evenly.
"""

import contextlib
import ctypes
import errno
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from calibrant import errors, metrics, model_file
from calibrant._calibrators.methods import make_calibrator
from calibrant._files.apply import apply_file
from calibrant._files.source import Request
from calibrant.datasets import simulated_scores
from calibrant.monitor import CalibrationMonitor, write_page
from calibrant.report import compare, write_report

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "half": 0}

MOST = 500

ROWS, LABELS = simulated_scores(1200)
SCORES, Y, NEW, NEW_Y = ROWS[:600], LABELS[:600], ROWS[600:], LABELS[600:]
ONE, ONE_Y = SCORES[:, 1], (Y == 1).astype(int)
FITTED = make_calibrator("ts").fit(SCORES, Y)
OF_SEVERAL = ("ts", "vs", "ms", "structured", "spline", "fir", "na-fir", "scir", "ir-ovr", "auto")
OF_TWO = ("platt-ovr", "beta-ovr", "two-class", "auto")


def fit(name, scores, y, new):
    """Return a function that fits, predicts, and checks that a fit that failed left the old one."""
    parameters = {"scores": "positive"} if np.ndim(scores) == 1 else {}
    calibrator = make_calibrator(name, **parameters).fit(scores[:300], y[:300])
    before, state = calibrator.predict_proba(new), vars(calibrator).copy()

    import allocations

    def run():
        vars(calibrator).clear()
        vars(calibrator).update(state)
        try:
            calibrator.fit(scores, y)
        except MemoryError:
            allocations.disarm()
            assert np.array_equal(calibrator.predict_proba(new), before), "half a fit is left"
            raise
        return calibrator.predict_proba(new)

    return run


def evaluated():
    found = metrics.evaluate(Y, SCORES, n_resamples=20, random_state=0)
    return np.frombuffer(json.dumps(found.to_dict()).encode(), dtype=np.uint8)


MEMORY = {f"fit {name}": (fit, name, SCORES, Y, NEW) for name in OF_SEVERAL}
MEMORY |= {f"fit {name} of two": (fit, name, ONE, ONE_Y, NEW[:, 1]) for name in OF_TWO}


def saved():
    return np.frombuffer(model_file.dumps(FITTED), dtype=np.uint8)


def loaded():
    return model_file.loads(model_file.dumps(FITTED)).predict_proba(NEW)


def checked():
    return np.array([FITTED.check(NEW).p_value])


OTHERS = {"save": saved, "load": loaded, "check": checked, "evaluate": evaluated}


def try_memory(name):
    """Let the memory of each array be refused, and that of all after it."""
    import allocations

    make, *given = MEMORY.get(name, (None,))
    operation = make(*given) if make else OTHERS[name]
    operation()  # what is imported late is there from now on
    allocations.arm(-1, False)
    right = operation()
    number = allocations.disarm()
    told = {"name": name, "calls": number, "faults": 0, "raised": 0, "same": 0, "wrong": []}
    for lasting in (0, 1):
        for n in np.unique(np.linspace(1, number, MOST).astype(int)).tolist():
            allocations.arm(n, bool(lasting))
            try:
                result = operation()
                allocations.disarm()
                told["same"] += 1
                if not np.array_equal(result, right):
                    told["wrong"].append([lasting, n, "another result"])
            except MemoryError:
                allocations.disarm()
                told["raised"] += 1
            except BaseException as error:  # noqa: BLE001  (what is found)
                allocations.disarm()
                told["wrong"].append([lasting, n, f"{type(error).__name__}: {error}"[:200]])
            told["faults"] += 1
            sys.stderr.write(f"\r{name} {lasting} {n}")
        again = operation()
        if not np.array_equal(again, right):
            told["wrong"].append([lasting, 0, "another result afterwards"])
    return told


def write_predictions():
    """Return a function that calibrates a file into one of the format of its name."""
    source = Path(tempfile.mkdtemp(prefix="calibrant-faults-")) / "rows.npz"
    np.savez(source, probs=np.tile(NEW, (10, 1)), labels=np.tile(NEW_Y, 10))
    return lambda path: apply_file(FITTED, source, path, Request())


def write_directory():
    """Return a function that calibrates a directory into a new one."""
    source = Path(tempfile.mkdtemp(prefix="calibrant-faults-"))
    head, rows = "0,1,2,label\n", np.column_stack([NEW, NEW_Y])
    for name in ("a.csv", "b.csv"):
        lines = "".join(",".join(f"{cell:g}" for cell in row) + "\n" for row in rows[:20].tolist())
        (source / name).write_text(head + lines, "utf-8")
    return lambda path: apply_file(FITTED, source, path, Request(normalize="rows"))


def write_monitor(path):
    monitor = CalibrationMonitor(0.01)
    monitor.update(SCORES, Y)
    monitor.save(path)


def write_monitor_page(path):
    monitor = CalibrationMonitor(0.01)
    monitor.update(SCORES, Y)
    write_page(path, monitor)


COMPARISON = compare(Y, SCORES, NEW_Y, NEW, ["ts"])
SUFFIXES = (".npy", ".npz", ".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".jsonl")
WRITERS = {suffix: write_predictions() for suffix in SUFFIXES}
WRITERS |= {
    "model file": lambda path: model_file.save(FITTED, path),
    "directory": write_directory(),
    "report": lambda path: write_report(path, COMPARISON),
    "monitor": write_monitor,
    "monitor's page": write_monitor_page,
}


def contents(directory):
    return {p.relative_to(directory): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def try_writes(name):
    """Let each write, flush, truncation and rename fail with each error, or write a half."""
    write, home = WRITERS[name], Path(tempfile.mkdtemp(prefix="calibrant-faults-"))
    is_new = name == "directory"  # nothing is written over
    suffix = name if name.startswith(".") else ".x"
    path = home / ("out" if is_new else f"out{suffix}")
    old = {} if is_new else {path.relative_to(home): b"old"}

    def reset():
        for p in sorted(home.rglob("*"), reverse=True):
            p.rmdir() if p.is_dir() else p.unlink()
        for p, text in old.items():
            (home / p).write_bytes(text)

    def operation():
        reset()
        write(path)

    faults = ctypes.CDLL(None)
    told = {"name": name, "calls": 0, "faults": 0, "raised": 0, "same": 0, "wrong": []}
    operation()  # what is imported late is there from now on
    for word, code in ERRORS.items():
        faults.arm_faults(ctypes.c_long(-1), code)
        operation()
        number = faults.disarm_faults()
        told["calls"], right = max(told["calls"], number), contents(home)
        for n in range(1, number + 1):
            reset()
            faults.arm_faults(ctypes.c_long(n), code)
            try:
                write(path)
                faults.disarm_faults()
                told["same"] += 1
                found = contents(home)
                if found != right:
                    told["wrong"].append([word, n, f"no error, but {sorted(map(str, found))}"])
            except (OSError, errors.DataError) as error:
                faults.disarm_faults()
                told["raised"] += 1
                found = contents(home)
                if found not in (old, right):  # the name is new before its directory is flushed
                    told["wrong"].append([word, n, f"{error} left {sorted(map(str, found))}"])
                if code and str(home) not in str(error):
                    told["wrong"].append([word, n, f"{error} names no file"])
            except BaseException as error:  # noqa: BLE001  (what is found)
                faults.disarm_faults()
                told["wrong"].append([word, n, f"{type(error).__name__}: {error}"[:200]])
            told["faults"] += 1
            sys.stderr.write(f"\r{name} {word} {n}")
    operation()
    if contents(home) != right:
        told["wrong"].append(["", 0, "another file afterwards"])
    return told


def main(what, *names):
    """Try what is named, or all."""
    warnings.simplefilter("ignore")
    tried, run = ({**MEMORY, **OTHERS}, try_memory) if what == "memory" else (WRITERS, try_writes)
    for name in names or tried:
        with contextlib.redirect_stdout(sys.stderr):
            told = run(name)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
