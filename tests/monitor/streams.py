"""Streams of rows with labels, calibrated or not."""

import numpy as np


def shifted(rng, n_rows, k, power=1.0, factor=1.0):
    """Rows whose labels follow p ** power times a factor of each class."""
    p = rng.dirichlet(np.full(k, 0.6), n_rows)
    q = p**power * np.asarray(factor)
    q /= q.sum(axis=1, keepdims=True)
    below = q.cumsum(axis=1) < rng.random((n_rows, 1))
    return p, np.minimum(below.sum(axis=1), k - 1)


def calibrated(rng, n_rows, k):
    """Rows whose labels follow the probabilities."""
    return shifted(rng, n_rows, k)
