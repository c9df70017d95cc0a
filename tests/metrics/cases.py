"""Shared by the tests of metrics: small data full of ties, and every metric that is one number."""

import numpy as np
from hypothesis import strategies as st

from calibrant import metrics
from conftest import simulate

SCALARS = {
    "accuracy": metrics.accuracy,
    "negative_log_likelihood": metrics.negative_log_likelihood,
    "brier_score": metrics.brier_score,
    "ranked_probability_score": metrics.ranked_probability_score,
    "confidence_ece": metrics.confidence_ece,
    "confidence_ece quantile": lambda *a, **k: metrics.confidence_ece(*a, strategy="quantile", **k),
    "confidence_ece l2": lambda *a, **k: metrics.confidence_ece(*a, norm="l2", **k),
    "classwise_ece": metrics.classwise_ece,
    "classwise_ece max": lambda *a, **k: metrics.classwise_ece(*a, norm="max", **k),
    "thresholded_ece": metrics.thresholded_ece,
    "smooth_ece": metrics.smooth_ece,
    "kuiper": lambda *a, **k: metrics.cumulative_differences(*a, **k).kuiper,
    "kolmogorov_smirnov": lambda *a, **k: (
        metrics.cumulative_differences(*a, **k).kolmogorov_smirnov
    ),
    "decomposition": lambda *a, **k: metrics.score_decomposition(*a, **k).miscalibration,
    "refinement": lambda *a, **k: metrics.score_decomposition(*a, **k).refinement,
}

ORDERED = ["ranked_probability_score"]
IN_ORDER = [
    "confidence_ece quantile",
    "thresholded_ece",
    "kuiper",
    "kolmogorov_smirnov",
    "decomposition",
    "refinement",
]
"""Metrics that are no function of sums over rows: of chunks, a sample of the rows has them."""


@st.composite
def predictions(draw, max_rows=12, most_classes=4):
    """Rows on the simplex with many equal cells, zeros and ones; labels; whole weights."""
    k = draw(st.integers(2, most_classes))
    cells = st.lists(st.integers(0, 4), min_size=k, max_size=k).filter(any)
    rows = draw(st.lists(cells, min_size=1, max_size=max_rows))
    n = len(rows)
    labels = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    matrix = np.array(rows, dtype=float)
    return matrix / matrix.sum(axis=1, keepdims=True), np.array(labels), np.array(weights)


def weighted(n_rows=600, n_classes=4, seed=0):
    """Over-confident predictions, labels, and weights that are no whole numbers."""
    proba, y = simulate(n_rows, n_classes, seed)
    return proba, y, np.random.default_rng(seed + 1).gamma(0.5, 2.0, n_rows)


def recorded():
    """The data of all recorded numbers: (over-confident, honest, labels)."""
    rng = np.random.RandomState(0)
    z = rng.normal(0, 2, (1000, 4))
    honest = np.exp(z)
    honest /= honest.sum(1, keepdims=True)
    y = (honest.cumsum(1) > rng.rand(1000, 1)).argmax(1)
    bold = honest**2
    bold /= bold.sum(1, keepdims=True)
    return bold, honest, y
