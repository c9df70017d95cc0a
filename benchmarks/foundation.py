"""FIR and temperature scaling against scikit-learn, prediction against numpy, import time."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from calibrant import FlattenedIsotonic, TemperatureScaling
from measure import import_seconds, print_ratios, race, simulate


class Passthrough(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its probabilities, to time scikit-learn's calibrators."""

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = np.arange(X.shape[1])
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def fits(n_rows, n_classes):
    p, y = simulate(n_rows, n_classes)
    hits = np.zeros(p.shape)
    hits[np.arange(n_rows), y] = 1
    y[:n_classes] = np.arange(n_classes)  # scikit-learn's calibrator needs every class
    frozen = FrozenEstimator(Passthrough().fit(p, y))
    repeats = 5 if p.size > 10**6 else 7
    print_ratios(
        f"fit, {n_rows:,} x {n_classes:,}",
        race(
            {
                "IsotonicRegression on the flattened cells": lambda: IsotonicRegression().fit(
                    p.ravel(), hits.ravel()
                ),
                "FlattenedIsotonic": lambda: FlattenedIsotonic().fit(p, y),
            },
            repeats,
        ),
        {"FlattenedIsotonic": 0.5},
    )
    print_ratios(
        f"fit, {n_rows:,} x {n_classes:,}",
        race(
            {
                "CalibratedClassifierCV(method='temperature')": lambda: CalibratedClassifierCV(
                    frozen, method="temperature"
                ).fit(p, y),
                "TemperatureScaling": lambda: TemperatureScaling().fit(p, y),
            },
            repeats,
        ),
        {"TemperatureScaling": 0.5},
    )


def predictions(n_rows, n_classes):
    p, y = simulate(n_rows, n_classes)
    fir = FlattenedIsotonic().fit(p, y)
    thresholds, values = fir.step_function_.thresholds, fir.step_function_.values

    def plain():
        mapped = values[np.searchsorted(thresholds, p, side="right") - 1]
        return mapped / mapped.sum(axis=1, keepdims=True)

    seconds = race(
        {"numpy searchsorted + divide": plain, "predict_proba": lambda: fir.predict_proba(p)}
    )
    print_ratios(f"predict, {n_rows:,} x {n_classes:,}", seconds, {"predict_proba": 1 / 3})
    print(f"  {n_rows / seconds['predict_proba'] / 1e6:.2f} M rows/s")


def imports():
    numpy, ours = import_seconds("import numpy"), import_seconds("import numpy, calibrant")
    print(f"\nimport calibrant: {ours - numpy:+.3f} s over numpy's {numpy:.3f} s   goal <= 0.3 s")


def main():
    warnings.simplefilter("ignore")
    imports()
    for shape in ((5_000, 100), (12_500, 1_000)):
        fits(*shape)
    for shape in ((500_000, 10), (12_500, 1_000)):
        predictions(*shape)


if __name__ == "__main__":
    main()
