"""What tests of statistics share: rows, chunks in any order, merged in any tree, several passes."""

import numpy as np

from calibrant.simplex import check_batch
from conftest import load_real, simulate

CASES = [("probabilities", False), ("probabilities", True), ("logits", False), ("logits", True)]
"""Kinds of scores, without and with exact zeros."""


def make_rows(kind, zeros, n_rows, k, seed=0, *, change=np.copy, share=0.3):
    """Scores that were changed, labels and weights; of small scores a share is exactly zero."""
    rng = np.random.default_rng(seed)
    scores, y = simulate(n_rows, k, seed)
    scores = change(scores)
    if zeros:
        scores = np.where((scores < 0.1) & (rng.random(scores.shape) < share), 0.0, scores)
    scores /= scores.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        scores = 3.0 * np.log(scores) if kind == "logits" else scores
    return scores, y, rng.uniform(0.5, 2.0, n_rows)


def make_empty(cls):
    """Return what makes empty statistics of a method, for k classes."""

    def fresh(kind, max_rows=None, k=4, **options):
        return cls(np.arange(k), scores=kind, max_rows=max_rows, **options)

    return fresh


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


def real_losses(name, fresh, solve, **options):
    """Log-loss of a real file, fitted in passes with a quarter of its rows kept, and in memory."""
    data = load_real(name)
    scores, y = data["val"]
    empty = fresh("probabilities", len(y) // 4, scores.shape[1], **options)
    found = passes(empty, (scores, y, np.ones(len(y))))[-1].fitted["map_"]
    want, _ = solve(check_batch(scores, y), **options)
    rows, labels = data["test"]
    place = np.arange(len(labels)), labels
    return [-np.mean(np.log(one(rows)[place])) for one in (found, want)]
