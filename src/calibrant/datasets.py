"""Example predictions, made from data that comes with scikit-learn."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant._types import Floats, Labels, Wholes

__all__ = ["overconfident_digits", "simulated_scores"]

TRAINING_ROWS = 400
CALIBRATION_ROWS = 650
NOISE = 0.4


class SplitPredictions(NamedTuple):
    """A classifier's probabilities with the labels: a part to calibrate on, a part to judge on."""

    scores: Floats
    y: Labels
    new_scores: Floats
    new_y: Labels


def overconfident_digits(random_state: int = 0) -> SplitPredictions:
    """Return predictions of an over-confident network, trained on a few noisy digits.

    Parameters
    ----------
    random_state : int, default=0
        Seed of the noise, of the split and of the network.

    Returns
    -------
    predictions : SplitPredictions
        650 rows for calibration and 747 for testing, with ten classes.

    Examples
    --------
    >>> from calibrant.datasets import overconfident_digits
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> scores.shape, new_scores.shape
    ((650, 10), (747, 10))
    """
    from sklearn.datasets import load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(images))
    images = images[order] / 16 + rng.normal(0, NOISE, images.shape)
    labels = labels[order]
    network = MLPClassifier((128,), alpha=0.0, max_iter=300, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it has long memorised its images
        network.fit(images[:TRAINING_ROWS], labels[:TRAINING_ROWS])
    probabilities = network.predict_proba(images[TRAINING_ROWS:])
    labels = labels[TRAINING_ROWS:]
    return SplitPredictions(
        probabilities[:CALIBRATION_ROWS],
        labels[:CALIBRATION_ROWS],
        probabilities[CALIBRATION_ROWS:],
        labels[CALIBRATION_ROWS:],
    )


def naive_bayes(n_rows: int = 5_000) -> SplitPredictions:
    """Train naive Bayes on rows of which 15 features are linear combinations of the other five.

    It counts what they say four times. No temperature mends that, and there are enough rows to tell
    methods apart: as many as these to train on, to calibrate on, and to judge on.
    """
    from sklearn.datasets import make_classification
    from sklearn.naive_bayes import GaussianNB

    rows, labels = make_classification(
        3 * n_rows,
        n_classes=5,
        n_features=20,
        n_informative=5,
        n_redundant=15,
        n_clusters_per_class=1,
        random_state=0,
    )
    (train, val, new), (y_train, y, new_y) = np.split(rows, 3), np.split(labels, 3)
    classifier = GaussianNB().fit(train, y_train)
    return SplitPredictions(classifier.predict_proba(val), y, classifier.predict_proba(new), new_y)


def simulated_scores(
    n_rows: int = 1000, *, power: float = 3.0, tilt: Sequence[float] = (1.0, 1.0, 1.0)
) -> tuple[Floats, Wholes]:
    """Return simulated miscalibrated scores: distorted true probabilities, with labels.

    Parameters
    ----------
    n_rows : int, default=1000
    power : float, default=3.0
        Exponent of the true probabilities: above 1 is over-confident.
    tilt : sequence of float, default=(1.0, 1.0, 1.0)
        Factor of each class, after the exponent; its length is the number of classes.

    Returns
    -------
    scores : ndarray of shape (n_rows, n_classes)
        Rows that sum to 1.
    y : ndarray of shape (n_rows,)

    Examples
    --------
    >>> from calibrant.datasets import simulated_scores
    >>> scores, y = simulated_scores()
    >>> scores.shape
    (1000, 3)
    """
    rng = np.random.default_rng(0)
    honest = rng.dirichlet(np.ones(len(tilt)), size=n_rows)
    y: Wholes = (honest.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    scores = honest**power * np.asarray(tilt)
    return scores / scores.sum(axis=1, keepdims=True), y


def __dir__() -> list[str]:
    return __all__
