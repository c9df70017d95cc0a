"""Interleaved timing: every contender in turn, several times, medians as ratios to the first."""

import resource
import subprocess
import sys
from statistics import median
from time import perf_counter

import numpy as np


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
