"""Whether ``PriorShift`` recovers known shifts: ``prior_shift.py DIR`` of prediction files.

On 20 files, the first of every data set and then the second ones, ``AutoCalibrator`` is fitted to
the calibration part. Rows of the test part are kept at rates drawn for each class (gamma of shape
1, so that balanced classes get priors of a flat Dirichlet distribution), and ``PriorShift`` adapts
to them without their labels. Printed for each file: how often the true priors lie in their 95 %
interval, NLL before and after, and NLL where nothing was shifted. ``--val`` splits the calibration
part in two and leaves the test part alone: settings were chosen so.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

from calibrant import AutoCalibrator, PriorShift
from calibrant.metrics import negative_log_likelihood as nll

N_FILES, N_DRAWS = 20, 5


def chosen(folder):
    """Files of the first classifier of each data set in order, then of the second ones."""
    by_data_set = {}
    for path in sorted(Path(folder).glob("*.npz")):
        by_data_set.setdefault(path.stem.partition("_")[0], []).append(path)
    ranked = [
        [paths[place] for paths in by_data_set.values() if len(paths) > place] for place in (0, 1)
    ]
    return [*ranked[0], *ranked[1]][:N_FILES]


def read(path, is_val):
    """Scores and labels of both parts, and the kind of the scores."""
    with np.load(path) as file:
        kind = "probabilities" if "val_probs" in file else "logits"
        name = {"probabilities": "probs", "logits": "logits"}[kind]
        val, test = (
            (file[f"{part}_{name}"].astype(float), file[f"{part}_labels"].astype(int))
            for part in ("val", "test")
        )
    if is_val:
        order = np.random.default_rng(0).permutation(len(val[1]))
        half = len(order) // 2
        val, test = (tuple(x[rows] for x in val) for rows in (order[:half], order[half:]))
    return val, test, kind


def measure(path, is_val):
    """Coverage of classes, mean NLL before and after, largest p-value; two of no shift."""
    (scores, y), (new, new_y), kind = read(path, is_val)
    classes = np.arange(scores.shape[1])
    calibrator = AutoCalibrator(scores=kind, classes=classes).fit(scores, y)
    rows = calibrator.predict_proba(new)
    shift = PriorShift(classes=classes).fit(calibrator.predict_proba(scores), y)
    share = np.bincount(new_y, minlength=len(classes)) / len(new_y)
    held, before, after, p_values = [], [], [], []
    for seed in range(N_DRAWS):
        rng = np.random.default_rng(seed)
        rate = rng.gamma(1.0, size=len(classes))
        keep = rng.random(len(new_y)) < (rate / rate[share > 0].max())[new_y]
        truth = share * rate / (share @ rate)
        shift.adapt(rows[keep])
        before.append(nll(new_y[keep], rows[keep], classes=classes))
        after.append(nll(new_y[keep], shift.predict_proba(rows[keep]), classes=classes))
        held.append((shift.priors_low_ <= truth) & (truth <= shift.priors_high_))
        p_values.append(shift.p_value_)
    shift.adapt(rows)
    loss = nll(new_y, shift.predict_proba(rows), classes=classes)
    harm = loss / nll(new_y, rows, classes=classes) - 1
    return np.array(held), np.mean(before), np.mean(after), max(p_values), shift.p_value_, harm


def main():
    """Print a line for each file, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--val", action="store_true", help="split the calibration parts instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n_held = n_all = n_better = 0
    worst = -np.inf
    print(f"{'file':30}  k  held %     NLL   after  gain %  max p | no shift: p, NLL worse by %")
    for path in chosen(options.folder):
        held, before, after, p_value, own, harm = measure(path, options.val)
        n_held, n_all = n_held + held.sum(), n_all + held.size
        n_better, worst = n_better + (after < before), max(worst, harm)
        print(
            f"{path.stem:30}{held.shape[1]:4}{100 * held.mean():7.1f}{before:9.4f}{after:8.4f}"
            f"{100 * (1 - after / before):8.2f}{p_value:7.3f} | {own:6.3f}{100 * harm:9.4f}",
            flush=True,
        )
    print(f"priors in their 95 % interval: {100 * n_held / n_all:.1f} % of {n_all}")
    print(f"NLL better after it: {n_better} of {N_FILES} files")
    print(f"NLL without a shift: at most {100 * worst:.3f} % worse")


if __name__ == "__main__":
    main()
