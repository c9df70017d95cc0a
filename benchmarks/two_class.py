"""Choose the numbers of two-class scaling within validation parts alone: no test part is read.

    OMP_NUM_THREADS=1 python benchmarks/two_class.py DIR [DIR ...]

Files of two classes are judged in ten folds (five, twice). Of files with more classes the most
frequent one and the third are judged against all others, fitted to 100, 300 and 1,000 rows. Then
labels are drawn from the scores themselves, which nothing should change. Each setting differs from
the default in one number; about ten minutes on one core for 140 files.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from calibrant import TemperatureScaling, TwoClassScaling
from calibrant._solvers import two_class
from measure import read_part

SETTINGS = [
    {},
    *({"POWER": power} for power in (0.1, 0.5, 1.0)),
    *({"AT_BASE": rows} for rows in (1.0, 8.0, 120.0)),
    *({"FEW_NATS": nats} for nats in (0.1, 1.0, 10.0)),
    *({"SMOOTHING": rows} for rows in (0.0, 2.0, 8.0)),
    *({"CLEAR_GAIN": nats} for nats in (-1000.0, 0.0, 1.0)),
    *({"PRIOR": np.append(share, np.full(12, (1 - share) / 12))} for share in (0.05, 0.6)),
]
FEWEST_LABELS = 3


def splits(p, y, is_binary):
    """Yield rows of two classes, their labels, and which rows are fitted to and judged."""
    if is_binary:
        for seed in range(2):
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            yield from ((p, y, *one) for one in folds.split(p, y))
        return
    order = np.argsort(-np.bincount(y, minlength=p.shape[1]), kind="stable")
    for place in (0, 2):
        x, label = p[:, order[place]].clip(0.0, 1.0), (y == order[place]).astype(int)
        for n in (100, 300, 1000):
            if n <= 0.67 * len(y):
                rows = np.random.default_rng([n, place]).permutation(len(y))
                yield np.column_stack([1.0 - x, x]), label, rows[:n], rows[n:]


def losses(p, y, fit, judged, chance=None):
    """NLL of the scores, of temperature scaling and of each setting; expected, of ``chance``."""
    held = p[judged]
    shares = np.eye(2)[y[judged]] if chance is None else chance
    found = [held, TemperatureScaling(classes=[0, 1]).fit(p[fit], y[fit]).predict_proba(held)]
    for setting in SETTINGS:
        before = {name: getattr(two_class, name) for name in setting}
        vars(two_class).update(setting)
        found.append(TwoClassScaling(classes=[0, 1]).fit(p[fit], y[fit]).predict_proba(held))
        vars(two_class).update(before)
    return [-np.sum(shares * np.log(np.maximum(out, 1e-12))) for out in found]


def measure(path):
    """Losses of a file, summed over splits, and those of single fits to honest labels."""
    p, y = read_part(path, "val")
    is_binary, rng = p.shape[1] == 2, np.random.default_rng(0)
    total, honest = [], []
    for p2, y2, fit, judged in splits(p, y, is_binary):
        if min(np.bincount(y2[fit], minlength=2)) >= FEWEST_LABELS:
            total.append(losses(p2, y2, fit, judged))
        drawn = (rng.random(len(y2)) < p2[:, 1]).astype(int)
        few = fit[:300]
        if min(np.bincount(drawn[few], minlength=2)) >= FEWEST_LABELS:
            honest.append(losses(p2, drawn, few, judged, chance=p2[judged]))
    return is_binary, np.sum(total, axis=0) if total else None, honest


def main(folders):
    warnings.simplefilter("ignore")
    files = sorted(path for folder in folders for path in Path(folder).glob("*.npz"))
    found = [measure(path) for path in files]
    groups = {
        "two classes": [t for two, t, _ in found if two and t is not None],
        "one against the rest": [t for two, t, _ in found if not two and t is not None],
        "honest labels": [one for _, _, honest in found for one in honest],
    }
    names = [
        "TS",
        *(
            ", ".join(f"{k}={v if np.ndim(v) == 0 else round(v[0], 2)}" for k, v in s.items())
            or "default"
            for s in SETTINGS
        ),
    ]
    for title, group in groups.items():
        if not group:
            continue
        ratios = np.array(group)[:, 1:] / np.maximum(np.array(group)[:, :1], 1e-9)
        print(f"\n| {title}, {len(ratios)} | NLL / scores | worst | above 1.02 |")
        print("|---|---:|---:|---:|")
        for name, own in zip(names, ratios.T, strict=True):
            mean = np.exp(np.log(own).mean())
            print(f"| {name} | {mean:.4f} | {own.max():.3f} | {np.mean(own > 1.02):.1%} |")


if __name__ == "__main__":
    main(sys.argv[1:])
