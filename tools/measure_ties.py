"""Measure AutoCalibrator on classifiers whose scores tie; prints the table of auto.md.

    OMP_NUM_THREADS=1 python tools/measure_ties.py [ROWS]

Each classifier is trained on simulated data; its scores for ROWS others (3,000 by default) are
calibrated, and judged on 20,000 more. Two checks: the held-out NLL that ``report_`` tells, of the
mixture and of each candidate, beside that of ordinary folds drawn at random; and the NLL on new
rows beside that of the best candidate alone.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import sys
import warnings

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from calibrant import AutoCalibrator
from calibrant._calibrators.auto_search import make_candidate
from calibrant.metrics import negative_log_likelihood

N_TRAIN, N_TEST = 2000, 20_000

CLASSIFIERS = {
    "forest, 10 trees": (RandomForestClassifier(10, random_state=0), None),
    "forest, 50 trees": (RandomForestClassifier(50, random_state=0), None),
    "forest, 200 trees": (RandomForestClassifier(200, random_state=0), None),
    "25 neighbours": (KNeighborsClassifier(25), None),
    "tree, 50 leaves": (DecisionTreeClassifier(max_leaf_nodes=50, random_state=0), None),
    "tree, 200 leaves": (DecisionTreeClassifier(max_leaf_nodes=200, random_state=0), None),
    "boosting, 1 decimal": (GradientBoostingClassifier(n_estimators=50, random_state=0), 1),
    "boosting, 2 decimals": (GradientBoostingClassifier(n_estimators=50, random_state=0), 2),
}
PROBLEMS = {
    "5 % positives": {"n_classes": 2, "weights": [0.95], "flip_y": 0.02},
    "30 % positives": {"n_classes": 2, "weights": [0.7], "flip_y": 0.1},
    "4 classes": {"n_classes": 4, "flip_y": 0.1},
}


def scores_of(classifier, decimals, problem, n_rows):
    """Scores and labels of a calibration set and of new rows."""
    total = N_TRAIN + n_rows + N_TEST
    x, y = make_classification(
        total, 20, n_informative=8, class_sep=0.8, random_state=0, **PROBLEMS[problem]
    )
    classifier.fit(x[:N_TRAIN], y[:N_TRAIN])
    scores = classifier.predict_proba(x[N_TRAIN:])
    if decimals is not None:
        scores = np.round(scores, decimals)
        scores /= scores.sum(axis=1, keepdims=True)
    y = y[N_TRAIN:]
    return scores[:n_rows], y[:n_rows], scores[n_rows:], y[n_rows:]


def random_folds(scores, y, names):
    """Probability of each label by each candidate, from folds drawn at random."""
    own = np.empty((len(y), len(names)))
    for rest, out in StratifiedKFold(5, shuffle=True, random_state=1).split(scores, y):
        for i, name in enumerate(names):
            found = make_candidate(name).fit(scores[rest], y[rest]).predict_proba(scores[out])
            own[out, i] = found[np.arange(len(out)), y[out]]
    return own


def measure(scores, y, new_scores, new_y):
    """Return the largest distance from random folds, in standard errors, and NLL on new rows."""
    auto = AutoCalibrator().fit(scores, y)
    report = auto.report_
    names = [one.path for one in report.candidates]
    own = random_folds(scores, y, names)
    weights = np.array([one.weight for one in report.candidates])
    losses = -np.log(np.maximum(np.column_stack([own @ weights, own]), 1e-12))
    told = np.array([report.mixture_nll, *(one.nll for one in report.candidates)])
    errors = np.abs(told - losses.mean(axis=0)) / (losses.std(axis=0) / np.sqrt(len(y)))
    alone = {
        name: negative_log_likelihood(
            new_y, make_candidate(name).fit(scores, y).predict_proba(new_scores)
        )
        for name in names
    }
    best = min(alone, key=alone.get)
    found = negative_log_likelihood(new_y, auto.predict_proba(new_scores))
    return errors[0], errors[1:].max(), found, best, alone[best]


def main():
    warnings.simplefilter("ignore")
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    print("| scores | problem | mixture, s.e. | candidates, s.e. | NLL | best candidate | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, (classifier, decimals) in CLASSIFIERS.items():
        for problem in PROBLEMS:
            mixture, largest, found, best, least = measure(
                *scores_of(classifier, decimals, problem, n_rows)
            )
            print(
                f"| {name} | {problem} | {mixture:.1f} | {largest:.1f} | {found:.4f} "
                f"| {best} {least:.4f} | {found / least:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
