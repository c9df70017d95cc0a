"""What tests of statistics share: rows in chunks by chance, and several passes over them."""

import numpy as np


def count(empty, batch_arrays, seed=0, n_chunks=3):
    """Statistics of rows that were shuffled, cut and merged by chance."""
    scores, y, weight = batch_arrays
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    counted = [
        empty.empty().update(scores[own], y[own], weight[own])
        for own in np.array_split(order, n_chunks)
    ]
    while len(counted) > 1:
        first, second = rng.choice(len(counted), 2, replace=False)
        counted[first].merge(counted[second])
        del counted[second]
    return counted[0]


def passes(statistics, batch_arrays, seed=0, n_chunks=3, most=20):
    """Solutions of one pass after the other."""
    found = []
    while statistics is not None and len(found) < most:
        statistics.merge(count(statistics.empty(), batch_arrays, seed, n_chunks))
        found.append(statistics.solution())
        statistics = found[-1].again
    return found
