"""Decisions on predictions of real classifiers: costs, promises and coverage on test parts.

``python benchmarks/decisions.py DIR... -o results.jsonl``: of every file of predictions in the
directories one line of JSON, those that are there are not measured again, then a summary.
``python benchmarks/decisions.py --simulate 2000`` counts broken promises in simulated draws.

Of each file ``AutoCalibrator`` is fitted to the validation part for costs. What
has a guarantee needs rows that nothing was fitted to: there it is fitted to one half of the
validation part, and the threshold or the quantile is found on the other half.
"""

import os

from workers import ONE_THREAD

if __name__ == "__main__":
    os.environ |= ONE_THREAD  # before anything loads a thread pool

import argparse
import json
import math
import warnings
from pathlib import Path

import numpy as np
from scipy import stats

from calibrant import AutoCalibrator
from calibrant.decisions import (
    ConformalSets,
    expected_cost,
    risk_coverage,
    threshold_for,
)

N_MATRICES = 10
ACCURACY, CONFIDENCE, COVERAGE = 0.95, 0.95, 0.9


def read(path):
    """Return {"val": (probabilities, labels), "test": ...}, or None if there are no such parts."""
    with np.load(path) as file:
        if not {"val_labels", "test_labels"} <= {*file}:
            return None
        return {
            part: (probabilities(file, part), file[f"{part}_labels"]) for part in ("val", "test")
        }


def probabilities(file, part):
    if f"{part}_probs" in file:
        return file[f"{part}_probs"].astype(np.float64)
    logits = file[f"{part}_logits"].astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cost_matrices(n_classes):
    """Random costs of mistakes, log-normal; being right costs nothing."""
    rng = np.random.default_rng(0)
    for _ in range(N_MATRICES):
        costs = rng.lognormal(size=(n_classes, n_classes))
        np.fill_diagonal(costs, 0.0)
        yield costs


def broken(found, rows, y):
    """Test accuracy above a threshold, and the chance of so few hits if the promise held."""
    kept = rows.max(axis=1) >= found.threshold
    n, hits = int(kept.sum()), int((rows.argmax(axis=1) == y)[kept].sum())
    chance = float(stats.binom.cdf(hits, n, ACCURACY)) if n else 1.0
    return {"threshold": found.threshold, "kept": n, "hits": hits, "chance": chance}


def conformal(fitted, rows, y, classes):
    """Hits of sets on test rows, and how probable as few, and as many, are."""
    own, labels = fitted
    made = ConformalSets(COVERAGE).fit(own, labels, classes=classes)
    sets = made.predict_set(rows)
    held = sets.members[np.arange(len(y)), y]
    n, hits = len(own), int(held.sum())
    rank = math.ceil((n + 1) * COVERAGE - 1e-9)
    law = stats.betabinom(len(held), rank, n + 1 - rank)
    size = float(sets.sizes.mean())
    return {"hits": hits, "rows": len(held), "low": float(law.cdf(hits)), "size": size}


def measure(parts):
    (val, y_val), (test, y_test) = parts["val"], parts["test"]
    classes = np.arange(val.shape[1])
    keep = {"classes": classes}
    whole = AutoCalibrator(**keep).fit(val, y_val).predict_proba(test)
    order = np.random.default_rng(0).permutation(len(val))
    first, second = np.array_split(order, 2)
    half = AutoCalibrator(**keep).fit(val[first], y_val[first])
    held_out = half.predict_proba(val[second]), y_val[second]
    by_half = half.predict_proba(test)
    costs = [
        [expected_cost(y_test, rows, matrix, **keep).realised.value for rows in (test, whole)]
        for matrix in cost_matrices(len(classes))
    ]
    promised = {"accuracy": ACCURACY, "confidence_level": CONFIDENCE, **keep}
    return {
        "classes": len(classes),
        "rows": [len(val), len(test)],
        "costs": costs,
        "raw threshold": broken(threshold_for(y_val, val, **promised), test, y_test),
        "threshold": broken(threshold_for(*held_out[::-1], **promised), by_half, y_test),
        "sets": conformal(held_out, by_half, y_test, classes),
        "raw sets": conformal((val, y_val), test, y_test, classes),
        "aurc": [risk_coverage(y_test, rows, **keep).aurc for rows in (test, whole)],
    }


def summarize(lines):
    n = len(lines)
    means = np.array([np.mean(line["costs"], axis=0) for line in lines])
    pairs = np.array([pair for line in lines for pair in line["costs"]])
    print(f"{n} files")
    print(f"costs lower calibrated: {(means[:, 1] < means[:, 0]).mean():.1%} of files, ", end="")
    print(f"{(pairs[:, 1] < pairs[:, 0]).mean():.1%} of (file, matrix); ", end="")
    paid = means[means[:, 0] > 0]
    print(f"median saving {np.median(1 - paid[:, 1] / paid[:, 0]):.1%}")
    for name in ("raw threshold", "threshold"):
        own = [line[name] for line in lines]
        found = [one for one in own if one["kept"]]
        below = [one for one in found if one["hits"] < ACCURACY * one["kept"]]
        sure = [one for one in found if one["chance"] < 0.05]
        strict = [one for one in found if one["chance"] < 0.05 / n]
        print(f"{name}: {len(found)} files have one; below {ACCURACY}: {len(below)}; ", end="")
        print(f"beyond noise: {len(sure)} at 5 %, {len(strict)} at 5 % over all files")
    for name in ("sets", "raw sets"):
        low = np.array([line[name]["low"] for line in lines])
        print(f"{name}: below the interval {np.sum(low < 0.025)} at 95 %, ", end="")
        print(f"{np.sum(low < 0.025 / n)} over all files; ", end="")
        rate = np.mean([line[name]["hits"] / line[name]["rows"] for line in lines])
        size = np.mean([line[name]["size"] for line in lines])
        print(f"mean coverage {rate:.4f}, mean size {size:.2f}")


def simulate(n_draws):
    """Count broken promises, where accuracy falls with confidence and where it does not."""
    rng = np.random.default_rng(0)
    shapes = ((500, 0.9499, 0.0), (2500, 0.9499, 0.0), (500, 1.0, 0.2), (2500, 1.0, 0.2))
    for n_rows, top, slope in shapes:  # the promise fails everywhere, or below u = 1/2
        bad = n_found = 0
        for _ in range(n_draws):
            u = rng.random(n_rows)
            hits = rng.random(n_rows) < top - slope * (1.0 - u)
            rows = np.column_stack([0.5 - u / 2, 0.5 + u / 2])
            found = threshold_for(hits.astype(int), rows, accuracy=ACCURACY, classes=[0, 1])
            low = 2.0 * found.threshold - 1.0
            n_found += math.isfinite(low)
            bad += math.isfinite(low) and top - slope * (1.0 - low) / 2.0 < ACCURACY
        print(
            f"{n_rows} rows, accuracy {top} - {slope} (1 - u): found {n_found}, broken {bad}",
            end="",
        )
        print(f" of {n_draws} ({bad / n_draws:.2%}, allowed {1 - CONFIDENCE:.0%})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directories", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/decisions.jsonl"))
    parser.add_argument("--simulate", type=int, default=0, metavar="DRAWS")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    if told.simulate:
        simulate(told.simulate)
    if not told.directories:
        return
    told.output.parent.mkdir(parents=True, exist_ok=True)
    known = {}
    if told.output.exists():
        known = {one["file"]: one for one in map(json.loads, told.output.read_text().splitlines())}
    with told.output.open("a") as out:
        for path in sorted(path for own in told.directories for path in own.glob("*.npz")):
            if path.stem not in known and (parts := read(path)) is not None:
                known[path.stem] = {"file": path.stem, **measure(parts)}
                print(json.dumps(known[path.stem]), file=out, flush=True)
    summarize(list(known.values()))


if __name__ == "__main__":
    main()
