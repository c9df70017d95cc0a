"""Which rows a ``RowSample`` keeps, and their weights: literally, in exact fractions."""

from fractions import Fraction

import numpy as np

from calibrant._kernels.rows import row_hashes


def content_hash(scores, weight):
    """Hash of a row; a weight that is no whole number is a part of its content."""
    nothing = np.zeros(1, dtype=np.intp)
    own = int(row_hashes((np.array([scores]) + 0.0).view(np.int64), nothing)[0])
    if weight == int(weight):
        return own
    pair = np.array([[np.uint64(own).view(np.int64), np.float64(weight).view(np.int64)]])
    return int(row_hashes(pair, nothing)[0])


def keep_rows(rows, labels, weights, n_classes, room):
    """Return {(scores, label): weight} of the kept rows, as many as fit into ``room``.

    Distinct rows are (scores, label, weight of one row); whole weights are repetitions of rows of
    weight 1. Each class keeps its equal share of the room, those of the smallest hashes; what is
    left of the room goes to the smallest of all other hashes. The kept rows of a class that lost
    some are weighted such that the class has its total weight.
    """
    counts = {}
    for scores, label, weight in zip(rows, labels, weights, strict=True):
        is_whole = weight == int(weight)
        key = tuple(scores), label, 1.0 if is_whole else float(weight)
        counts[key] = counts.get(key, 0) + (int(weight) if is_whole else 1)
    hashes = {key: content_hash(key[0], key[2]) for key in counts}
    by_class = [
        sorted((key for key in counts if key[1] == c), key=lambda key: (hashes[key], key))
        for c in range(n_classes)
    ]
    if len(counts) <= room:
        kept = set(counts)
    else:
        share = room // n_classes
        kept = {key for keys in by_class for key in keys[:share]}
        others = sorted(hashes[key] for keys in by_class for key in keys[share:])
        left = room - len(kept)
        last = others[left - 1] if left > 0 else -1
        kept |= {key for keys in by_class for key in keys[share:] if hashes[key] <= last}
    found = {}
    for keys in by_class:
        total = sum(Fraction(key[2]) * counts[key] for key in keys)
        own = sum(Fraction(key[2]) * counts[key] for key in keys if key in kept)
        for key in keys:
            if key in kept:
                weight = Fraction(key[2]) * counts[key] * total / own
                found[key[:2]] = found.get(key[:2], 0) + weight
    return found
