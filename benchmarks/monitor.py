"""Measure the monitor: false alarms, run length, delays, real rows with a time, speed, state.

``python benchmarks/monitor.py PART ...`` with parts of ``false-alarms``, ``delays``, ``speed``,
``state`` and ``creditcards`` (which needs ``--data DIR`` with
``time/creditcards_nannyml.npz``); ``--streams`` is the number of simulated streams. Everything is
seeded.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from calibrant import AutoCalibrator, TemperatureScaling
from calibrant.metrics import confidence_ece
from calibrant.monitor import CalibrationMonitor

CHUNK = 1000


def draw(rng, p):
    """Draw a label of each row."""
    below = p.cumsum(axis=1) < rng.random((len(p), 1)) * p.sum(axis=1, keepdims=True)
    return np.minimum(below.sum(axis=1), p.shape[1] - 1)


def honest_stream(rng, n_rows, k):
    """Rows as confident as it happens, more or less so as time goes by, and late labels."""
    sharpness = rng.uniform(0.2, 2.0, 2)
    steps = np.linspace(*sharpness, 20).repeat(-(-n_rows // 20))[:n_rows, None]
    p = rng.gamma(np.broadcast_to(steps, (n_rows, k))) + 1e-9
    p /= p.sum(axis=1, keepdims=True)
    y = draw(rng, p)
    arrival = np.arange(n_rows) + rng.exponential(500.0, n_rows)  # whatever the label is
    order = np.argsort(arrival)
    return p[order], y[order]


def false_alarms(n_streams, alpha=0.05, run_length=1000.0, n_rows=20_000):
    """Share of honest streams with an alarm, and run length of the detector."""
    found = {k: [] for k in (2, 3, 10)}
    for seed in range(n_streams):
        k = (2, 3, 10)[seed % 3]
        rng = np.random.default_rng([1, seed])
        p, y = honest_stream(rng, n_rows, k)
        monitor = CalibrationMonitor(alpha, classes=range(k), run_length=run_length)
        start = 0
        while start < n_rows:
            rows = slice(start, start + int(np.exp(rng.uniform(0.0, np.log(5000.0)))))
            status = monitor.update(p[rows], y[rows])
            start = rows.stop
        first = status.change_row or n_rows
        covered = status.gap.low <= 0.0 <= status.gap.high
        found[k].append((status.alarm, first, covered))
        if seed % 100 == 99:
            so_far = np.concatenate([np.array(own, float) for own in found.values()])
            print(seed + 1, so_far.mean(axis=0).tolist(), file=sys.stderr, flush=True)
    every = np.concatenate([np.array(own, float) for own in found.values()])
    bound = alpha + 2.0 * np.sqrt(alpha * (1.0 - alpha) / len(every))
    return {
        "streams": len(every),
        "alpha": alpha,
        "alarms": float(every[:, 0].mean()),
        "alarms_by_classes": {k: float(np.mean([a for a, *_ in own])) for k, own in found.items()},
        "allowed": float(bound),
        "run_length": run_length,
        "mean_run_length_up_to_20000": float(every[:, 1].mean()),
        "gap_interval_covers_0": float(every[:, 2].mean()),
    }


def shifted_stream(rng, shift, n_before, n_after, k=3):
    """Honest rows, and then rows whose labels follow other probabilities."""
    n_rows = n_before + n_after
    p = rng.dirichlet(np.full(k, 0.6), n_rows)
    after = np.maximum(np.arange(n_rows) - n_before, 0)[:, None]
    began, group = after > 0, rng.integers(0, 4, n_rows)
    powers = {
        "temperature 0.7": np.where(began, 0.7, 1.0),
        "one group of four, 0.4": np.where(began & (group == 0)[:, None], 0.4, 1.0),
        "slow drift to 0.6": 1.0 - 0.4 * np.minimum(after / 10_000, 1.0),
    }
    q = p ** powers.get(shift, 1.0)
    if shift == "prior of one class x 2":
        q[:, -1] *= np.where(began[:, 0], 2.0, 1.0)
    return p, draw(rng, q)


def chunk_errors(p, y):
    """Confidence ECE of chunks."""
    starts = range(0, len(p), CHUNK)
    classes = range(p.shape[1])
    return np.array(
        [confidence_ece(y[i : i + CHUNK], p[i : i + CHUNK], classes=classes) for i in starts]
    )


def delays(n_streams, n_before=10_000, n_after=20_000):
    """Median rows from a change to the alarm, of the monitor and of the ECE of chunks.

    Its limits are the mean plus three standard deviations of ten chunks before, as NannyML has it;
    and so many more that as few honest streams of the same length have an alarm.
    """
    excess = []
    for seed in range(5 * n_streams):
        rng = np.random.default_rng([2, seed])
        errors = chunk_errors(*shifted_stream(rng, "none", n_before, n_after))
        base = errors[: n_before // CHUNK]
        excess.append((errors[len(base) :].max() - base.mean()) / base.std(ddof=1))
    fair = float(np.quantile(excess, 0.99))
    table = {
        "chunk_ece_false_alarms_at_3_sd": float(np.mean(np.array(excess) > 3.0)),
        "fair_sd": fair,
    }
    shifts = [
        "temperature 0.7",
        "prior of one class x 2",
        "one group of four, 0.4",
        "slow drift to 0.6",
    ]
    for shift in shifts:
        found = {
            "e-process": [],
            "detector": [],
            "ece 3 sd": [],
            "ece fair": [],
        }
        early = 0
        for seed in range(n_streams):
            rng = np.random.default_rng([3, shifts.index(shift), seed])
            p, y = shifted_stream(rng, shift, n_before, n_after)
            status = CalibrationMonitor(0.01).update(p, y, np.arange(len(p)))  # their time
            row = status.alarm_row or n_before + 2 * n_after
            early += row <= n_before
            found["e-process"].append(row - n_before)
            found["detector"].append((status.change_row or n_before + 2 * n_after) - n_before)
            errors = chunk_errors(p, y)
            base, rest = errors[: n_before // CHUNK], errors[n_before // CHUNK :]
            for name, limit in (("ece 3 sd", 3.0), ("ece fair", fair)):
                over = rest > base.mean() + limit * base.std(ddof=1)
                found[name].append(CHUNK * (int(over.argmax()) + 1) if over.any() else 2 * n_after)
        table[shift] = {name: float(np.median(own)) for name, own in found.items()}
        table[shift]["missed by ece fair"] = float(np.mean(np.array(found["ece fair"]) > n_after))
        table[shift]["missed by e-process"] = float(np.mean(np.array(found["e-process"]) > n_after))
        table[shift]["early"] = early
    return table


def creditcards(data):
    """Fit to the first 30,000 rows; 60,000 honest rows follow, and then the change."""
    z = np.load(data / "time" / "creditcards_nannyml.npz")
    names = ("probs", "labels", "time")
    p, y, when = (np.concatenate([z[f"val_{n}"], z[f"test_{n}"]]) for n in names)
    p, fitted, change = p.astype(np.float64), 30_000, 90_000
    table = {}
    for calibrator in (TemperatureScaling(), AutoCalibrator()):
        calibrator.fit(p[:fitted], y[:fitted])
        served = calibrator.predict_proba(p[fitted:])
        labels, at = y[fitted:], change - fitted
        for told in ("", ", no time"):
            monitor = CalibrationMonitor(0.01)
            for i in range(0, len(served), CHUNK):
                rows = slice(i, i + CHUNK)
                status = monitor.update(
                    served[rows],
                    labels[rows],
                    None if told == ", no time" else when[fitted:][rows],
                )
                if i + CHUNK == at:
                    before = status
            table[f"{type(calibrator).__name__}{told}"] = {
                "honest_rows": at,
                "alarm_before": before.alarm,
                "largest_e_value_before": float(np.exp(before.largest_log_e_value)),
                "rows_from_change_to_alarm": status.alarm_row - at,
                "rows_from_change_to_detector": status.change_row - at,
            }
        hit = (
            (calibrator.predict_proba(p).argmax(axis=1) == y)
            .astype(float)
            .reshape(-1, CHUNK)
            .mean(axis=1)
        )
        for name, values, sides in (
            ("accuracy", hit, 2),
            ("ece", chunk_errors(calibrator.predict_proba(p), y), 1),
        ):
            base, rest = values[: fitted // CHUNK], values[fitted // CHUNK :]
            over = np.abs(rest - base.mean()) if sides == 2 else rest - base.mean()
            alarms = over > 3.0 * base.std(ddof=1)
            n_honest = at // CHUNK
            table[f"{type(calibrator).__name__}: chunk {name}, 3 sd"] = {
                "false_alarms_in_60_honest_chunks": int(alarms[:n_honest].sum()),
                "rows_from_change_to_alarm": CHUNK * (int(alarms[n_honest:].argmax()) + 1),
            }
    return table


def speed(n_rows=1_000_000, k=10):
    """Seconds of processor time, and the ratio to ``predict_proba`` of the same rows."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(k, 0.6), n_rows)
    y = draw(rng, p)
    calibrator = TemperatureScaling().fit(p[:20_000], y[:20_000])
    batches = [slice(i, i + CHUNK) for i in range(0, n_rows, CHUNK)]

    def seconds(work):
        started = time.process_time()
        work()
        return time.process_time() - started

    def count(monitor, batches):
        for rows in batches:
            monitor.update(p[rows], y[rows])

    rounds = []
    for _ in range(3):
        monitor = CalibrationMonitor()
        whole = seconds(lambda: calibrator.predict_proba(p))
        parts = seconds(lambda: [calibrator.predict_proba(p[rows]) for rows in batches])
        own = seconds(partial(count, monitor, batches))
        rounds.append((whole, parts, own, own / whole, own / parts))
    single = seconds(partial(count, monitor, [slice(i, i + 1) for i in range(2000)]))
    best = np.median(rounds, axis=0)
    names = ("predict_proba", "predict_proba_in_batches", "monitor", "ratio", "ratio_in_batches")
    return dict(zip(names, best.tolist(), strict=True)) | {"single_row": single / 2000}


def state():
    """Bytes of the largest states."""
    sizes = {}
    for k in (2, 10, 16, 1000, 2000):
        rng = np.random.default_rng(k)
        monitor = CalibrationMonitor(classes=range(k))
        for _ in range(2100):
            p = rng.dirichlet(np.full(k, 0.6), 30)
            monitor.update(p, draw(rng, p), time=rng.random(30))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "state.json"
            monitor.save(path)
            sizes[f"{k} classes"] = path.stat().st_size
    return sizes


def main():
    """Measure the parts that are asked for, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--data", type=Path)
    told = parser.parse_args()
    parts = {
        "false-alarms": lambda: false_alarms(told.streams),
        "delays": lambda: delays(told.streams),
        "speed": speed,
        "state": state,
        "creditcards": lambda: creditcards(told.data),
    }
    print(json.dumps({part: parts[part]() for part in told.parts}, indent=2))


if __name__ == "__main__":
    main()
