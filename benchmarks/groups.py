"""Calibration by group beside one fit of all: ``python benchmarks/groups.py [DIRECTORY]``.

Prints the NLL of a fit of all rows, that of ``GroupedCalibrator``, and their difference in percent:
of simulated groups of 50 to 5,000 rows against their true probabilities, and, of a DIRECTORY that
has ``groups_mmlu.npz`` and the files of language models, of their test parts by subject; in both
also with groups that say nothing.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

from calibrant import AutoCalibrator, GroupedCalibrator

SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
EFFECTS = {"temperature": (0.3, 0.0, 0.0), "bias": (0.0, 0.4, 0.0), "noise": (0.0, 0.0, 0.5)}
EFFECTS |= {"no difference": (0.0, 0.0, 0.0)}


def softmax(logits):
    """Rows of probabilities."""
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)


def compare(val, test, truth, **parameters):
    """Return the NLL of the fit of all, and of that by group, on the test part."""
    scores, y, groups = val
    pooled = AutoCalibrator(**parameters).fit(scores, y).predict_proba(test[0])
    grouped = GroupedCalibrator(**parameters).fit(scores, y, groups=groups)
    by_group = grouped.predict_proba(test[0], groups=test[1])
    return [-float((truth * np.log(rows)).sum(axis=1).mean()) for rows in (pooled, by_group)]


def simulate(k, slopes, biases, noise, sizes, rng):
    """Return scores, true probabilities, labels and groups."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    z = 2.0 * rng.normal(size=(len(groups), k))
    truth = softmax(slopes[groups, None] * z + biases[groups])
    truth = (1.0 - noise[groups, None]) * truth + noise[groups, None] / k
    y = (truth.cumsum(axis=1) > rng.uniform(size=(len(z), 1))).argmax(axis=1)
    return softmax(1.6 * z), truth, y, groups


def simulated(k, effect, seed):
    """Compare on groups that differ by an effect."""
    rng = np.random.default_rng(seed)
    temperature, bias, noise = EFFECTS[effect]
    n = len(SIZES)
    about = np.exp(temperature * rng.normal(size=n)), bias * rng.normal(size=(n, k))
    about = *about, noise * rng.uniform(size=n)
    scores, _, y, groups = simulate(k, *about, SIZES, rng)
    new_scores, truth, _, new_groups = simulate(k, *about, [1000] * n, rng)
    return compare((scores, y, groups), (new_scores, new_groups), truth, classes=np.arange(k))


def show(name, both):
    """Print one line."""
    pooled, by_group = both
    print(
        f"{name:<34}{pooled:9.4f}{by_group:9.4f}{100 * (by_group / pooled - 1):+8.2f} %", flush=True
    )


def main(directory=None):
    """Print all."""
    warnings.simplefilter("ignore")
    print(f"{'':<34}{'of all':>9}{'by group':>9}")
    for effect in EFFECTS:
        for k in (2, 4):
            for seed in range(3):
                show(f"{effect}, {k} classes, seed {seed}", simulated(k, effect, seed))
    if directory is None:
        return
    subjects = np.load(Path(directory) / "groups_mmlu.npz")
    groups, new_groups = subjects["val_groups"], subjects["test_groups"]
    for path in sorted(Path(directory).glob("mmlu_*.npz")):
        data = np.load(path)
        scores, new_scores = (data[f"{part}_logits"].astype(float) for part in ("val", "test"))
        truth = np.eye(6)[data["test_labels"]]
        told = {"scores": "logits", "classes": np.arange(6)}
        for words, seed in (("by subject", None), ("shuffled", 0)):
            order, new_order = np.arange(len(groups)), np.arange(len(new_groups))
            if seed is not None:
                rng = np.random.default_rng(seed)
                order, new_order = rng.permutation(order), rng.permutation(new_order)
            val = scores, data["val_labels"], groups[order]
            found = compare(val, (new_scores, new_groups[new_order]), truth, **told)
            show(f"{path.stem[5:]}, {words}", found)


if __name__ == "__main__":
    main(*sys.argv[1:])
