"""Interleaved timing: every contender in turn, several times, medians as ratios to the first."""

import ctypes
import re
import resource
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

LONG_ENOUGH = 0.05
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def simulate(n_rows, n_classes, seed=0):
    """Logits N(0, 9), labels from their softmax, predictions over-confident by a factor of two."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 3, (n_rows, n_classes))
    honest = np.exp(z - z.max(axis=1, keepdims=True))
    honest /= honest.sum(axis=1, keepdims=True)
    y = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    bold = honest**2
    bold /= bold.sum(axis=1, keepdims=True)
    return bold, y


def shape_of(source):
    """Numbers of rows and classes of "rows x classes"."""
    n_rows, n_classes = source.replace(",", "").split(" x ")
    return int(n_rows), int(n_classes)


@cache
def rows_of(source):
    """Scores and labels: simulated ("rows x classes"), or the calibration part of a file."""
    if not source.endswith(".npz"):
        return simulate(*shape_of(source))
    return read_part(source, "val")


def read_part(path, part):
    """Probabilities and labels, numbers of columns, of one part of a prediction file."""
    with np.load(path) as file:
        y, logits = file[f"{part}_labels"], file.get(f"{part}_logits")
        if f"{part}_probs" in file:
            scores = file[f"{part}_probs"].astype(np.float64)
        else:
            scores = np.exp(logits.astype(np.float64) - logits.max(1)[:, None])
        if "classes" in file and y.dtype.kind in "US":
            place = {name: i for i, name in enumerate(file["classes"].tolist())}
            y = np.array([place[name] for name in y.tolist()])
    return scores / scores.sum(axis=1, keepdims=True), y.astype(np.int64)


def seconds_of(run):
    """Seconds of a clock and of the processor, of as many calls as can be measured well."""
    calls, clock, processor = 0, perf_counter(), process_time()
    while calls == 0 or perf_counter() - clock < LONG_ENOUGH:
        run()
        calls += 1
    return {"clock": (perf_counter() - clock) / calls, "cpu": (process_time() - processor) / calls}


def race(contenders, repeats=5):
    """Median seconds of each contender; all run once before, then in turn."""
    for run in contenders.values():
        run()
    seconds = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            started = perf_counter()
            run()
            seconds[name].append(perf_counter() - started)
    return {name: median(values) for name, values in seconds.items()}


def print_ratios(title, seconds, goals=None):
    """Print each contender's ratio to the first, with the goal for it where there is one."""
    goals = goals or {}
    base = next(iter(seconds))
    print(f"\n{title}")
    for name, value in seconds.items():
        goal = f"   goal <= {goals[name]:g}x" if name in goals else ""
        print(f"  {name:<46} {value * 1e3:10.1f} ms  {value / seconds[base]:8.3f}x{goal}")


def import_seconds(statement, repeats=7):
    """Median seconds that a fresh interpreter needs for ``statement``."""
    code = f"from time import perf_counter as t; s = t(); {statement}; print(t() - s)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(repeats)
    ]
    return median(times)


def peak_mebibytes():
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak_bytes_of(run):
    """Bytes, C's included, that a call needs at most beyond those held before it.

    Linux forgets an earlier peak when it is asked to; elsewhere a call that stays below the peak of
    what came before seems to need nothing.
    """
    with suppress(OSError, AttributeError):  # what was freed, but not given back, is no longer held
        ctypes.CDLL(None).malloc_trim(0)
    if CLEAR.exists():
        CLEAR.write_text("5")
    before = _peak_bytes()
    run()
    return max(_peak_bytes() - before, 0)


def _peak_bytes():
    if CLEAR.exists():  # ru_maxrss never falls, and begins with that of the parent
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", STATUS.read_text()).group(1))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
