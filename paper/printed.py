"""The numbers of the paper's Table 2, as printed, and what else of it the claims need.

A. Arad and S. Rosset, "Improving multi-class calibration through normalization-aware isotonic
techniques", ICML 2025. ``TABLE_2`` is its Table 2, ``DATA_SETS`` the table of data sets in its
appendix, ``ASSUMPTIONS`` its Table 1. In Table 2 the ranks of every line add up to 36, within the
rounding; one is set in bold that is not the lowest (cw-ECE, YR: IR-OvR 2.3, where MS has 2.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class DataSet(NamedTuple):
    """What the claims need to know of a data set; the paper prints its number of classifiers."""

    kind: str
    n_classes: int
    n_val: int
    n_models: int = 0


DATA_SETS = {
    "20NG": DataSet("text", 20, 1_700, 10),
    "CIFAR10": DataSet("image", 10, 5_000, 4),
    "CIFAR100": DataSet("image", 100, 3_269, 13),  # 4 classifiers have 5,000 rows, 9 have 2,500
    "food101": DataSet("image", 101, 6_300, 8),
    "ImageNet": DataSet("image", 1_000, 12_500, 8),
    "R52": DataSet("text", 52, 600, 10),
    "YR": DataSet("text", 5, 12_500, 22),
}
"""By the names of Table 2, in its order."""

DATA_SETS_HERE = {
    "banking": DataSet("text", 77, 770),
    "cifar10": DataSet("image", 10, 2_500),
    "cifar100": DataSet("image", 100, 2_500),
    "cifar10h": DataSet("image", 10, 2_500),
    "clinc": DataSet("text", 150, 3_000),
    "emoji": DataSet("text", 20, 5_000),
    "hpc": DataSet("tabular", 4, 867),
    "letter": DataSet("tabular", 26, 3_000),
    "mnist": DataSet("image", 10, 2_500),
    "mnist5": DataSet("image", 5, 30_596),
    "ng20": DataSet("text", 20, 1_813),
    "ohsumed": DataSet("text", 23, 1_011),
    "r52": DataSet("text", 52, 642),
    "sst5": DataSet("text", 5, 1_101),
    "udhr-langid": DataSet("text", 493, 3_328),
    "yelp": DataSet("text", 5, 2_499),
}
"""Data sets of the study in docs/evidence/claims.md, by the first half of the file's name.

Others have no kind, and take no part in claims that need one.
"""

SAME = {"20NG": "ng20", "CIFAR10": "cifar10", "CIFAR100": "cifar100", "R52": "r52", "YR": "yelp"}
"""Data sets of the paper and what files of the same data are called."""

COLUMNS = ("na-fir", "scir", "fir", "ir-ovr", "ts", "vs", "ms", "uncalibrated")
"""Columns of Table 2, in its order."""

# Of each column the average rank and the percentage of first places.
_PRINTED = {
    "nll": {
        "20NG": "1.4 70  6.0 0  2.8 10  7.3 0  3.3 10  3.2 10  5.3 0  6.7 0",
        "CIFAR10": "1.2 75  1.8 25  4.0 0  7.0 0  5.8 0  4.8 0  3.5 0  8.0 0",
        "CIFAR100": "1.5 62  4.4 15  3.3 0  7.6 0  2.8 8  3.8 8  6.7 8  5.9 0",
        "food101": "2.5 0  5.8 0  4.0 0  7.9 0  1.6 62  2.9 38  7.0 0  4.4 0",
        "ImageNet": "1.0 100  4.9 0  2.0 0  8.0 0  3.4 0  5.1 0  5.9 0  5.8 0",
        "R52": "1.7 50  5.1 0  3.2 10  8.0 0  2.1 30  5.1 10  6.7 0  4.1 0",
        "YR": "3.2 14  5.3 5  5.2 0  5.2 0  4.9 0  3.2 5  1.5 77  7.6 0",
    },
    "conf-ece": {
        "20NG": "2.4 10  2.6 60  3.1 30  3.9 0  6.9 0  4.4 0  4.9 0  7.8 0",
        "CIFAR10": "4.8 0  1.0 100  5.8 0  5.8 0  2.8 0  4.0 0  4.0 0  8.0 0",
        "CIFAR100": "2.5 8  1.2 85  4.7 0  5.8 0  3.1 0  4.0 8  7.4 0  7.3 0",
        "food101": "2.6 25  3.2 25  4.4 0  4.9 12  2.8 38  3.4 0  7.6 0  7.1 0",
        "ImageNet": "1.4 75  2.0 25  3.0 0  5.5 0  4.0 0  6.1 0  7.4 0  6.6 0",
        "R52": "2.6 20  2.9 50  3.6 10  6.3 0  4.8 0  3.8 10  5.1 10  6.9 0",
        "YR": "3.0 18  3.2 41  4.1 9  3.4 14  6.0 0  4.8 5  3.7 14  7.9 0",
    },
    "brier": {
        "20NG": "2.1 40  4.3 0  2.8 20  2.7 30  4.9 0  4.9 10  7.0 0  7.3 0",
        "CIFAR10": "2.2 0  1.0 100  3.2 0  3.5 0  6.2 0  5.5 0  6.2 0  8.0 0",
        "CIFAR100": "2.1 31  2.5 46  3.6 0  5.3 0  3.8 8  4.6 8  7.4 8  6.7 0",
        "food101": "3.1 12  4.6 0  3.0 0  5.6 12  2.4 38  3.6 38  7.8 0  5.9 0",
        "ImageNet": "1.2 75  3.4 0  2.4 0  6.5 0  4.1 12  5.8 12  6.6 0  6.0 0",
        "R52": "2.4 50  4.9 10  2.9 0  5.7 0  3.9 20  3.9 20  6.8 0  5.5 0",
        "YR": "3.8 9  6.0 5  4.8 0  3.0 5  5.7 0  3.1 5  1.8 77  7.8 0",
    },
    "cw-ece": {
        "20NG": "4.0 0  3.8 10  3.7 10  1.6 60  7.0 0  5.0 0  3.1 20  7.8 0",
        "CIFAR10": "4.2 0  2.0 50  5.5 0  2.5 25  7.0 0  4.2 0  2.5 25  8.0 0",
        "CIFAR100": "2.6 23  2.4 46  4.0 8  4.2 8  3.7 0  4.7 15  7.3 0  7.1 0",
        "food101": "3.0 0  3.2 38  3.9 0  5.6 0  2.5 25  3.8 38  7.4 0  6.6 0",
        "ImageNet": "3.6 0  6.1 0  3.1 12  4.4 0  2.0 50  4.1 25  5.4 12  7.2 0",
        "R52": "3.8 0  5.0 0  2.7 40  4.5 10  4.7 10  2.8 40  7.2 0  5.3 0",
        "YR": "4.0 18  4.7 0  4.7 0  2.3 14  6.4 0  4.1 0  2.1 68  7.7 0",
    },
    "tece": {
        "20NG": "3.4 20  3.1 10  4.5 10  2.9 30  5.6 0  5.0 20  3.7 10  7.8 0",
        "CIFAR10": "2.8 25  1.8 50  4.5 0  2.5 25  6.8 0  4.8 0  5.0 0  8.0 0",
        "CIFAR100": "2.2 23  1.7 62  4.3 0  4.5 0  4.5 0  4.6 8  7.6 0  6.6 8",
        "food101": "2.5 12  2.6 25  3.0 25  5.8 12  4.0 12  4.8 12  7.6 0  5.8 0",
        "ImageNet": "2.9 12  2.1 50  2.5 0  8.0 0  5.1 0  6.4 0  6.1 0  2.9 38",
        "R52": "6.1 0  2.7 30  5.3 10  3.6 10  5.1 0  3.6 10  3.2 40  6.4 0",
        "YR": "3.9 18  5.3 0  4.7 5  2.7 14  6.0 0  3.5 9  2.0 55  7.7 0",
    },
}


class Entry(NamedTuple):
    """One cell of Table 2."""

    rank: float
    first: float


def _read(line: str) -> dict[str, Entry]:
    numbers = [float(word) for word in line.split()]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return {
        method: Entry(rank, first / 100)
        for method, (rank, first) in zip(COLUMNS, pairs, strict=True)
    }


TABLE_2 = {
    metric: {dataset: _read(line) for dataset, line in lines.items()}
    for metric, lines in _PRINTED.items()
}
"""metric -> data set -> method -> Entry; metrics in the order of the table."""

ASSUMPTIONS = {
    "order preserving": frozenset({"ts", "fir", "na-fir"}),
    "permutation invariant": frozenset({"ts", "fir", "scir", "na-fir"}),
    "relaxing category independence": frozenset({"ms", "vs", "ts", "scir", "na-fir"}),
}
"""Table 1: the methods that have a tick."""


def average_entry(metric: str, method: str) -> Entry:
    """Return a method's rank and share of first places over all classifiers of the paper.

    The paper prints averages by data set; the average over its 75 classifiers is that of the data
    sets, weighted with their numbers of classifiers, to the rounding of what is printed.

    Examples
    --------
    >>> from printed import average_entry
    >>> rank, first = average_entry("nll", "na-fir")
    >>> round(rank, 2), round(first, 2)
    (2.05, 0.46)
    """
    lines = TABLE_2[metric]
    weights = [DATA_SETS[dataset].n_models for dataset in lines]
    ranks = [line[method].rank for line in lines.values()]
    firsts = [line[method].first for line in lines.values()]
    return Entry(
        float(np.average(ranks, weights=weights)), float(np.average(firsts, weights=weights))
    )
