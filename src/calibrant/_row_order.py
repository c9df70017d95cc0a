"""Rows in an order of their own: sorted by hashes, and compared where hashes are equal.

A hash only makes sorting quick. Rows are equal if all their cells are, so that rows whose hashes
collide, by chance or by intent, stay what they are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._kernels.rows import round_gaps, row_hashes, symmetric_hashes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Order = tuple[NDArray[np.int64], NDArray[np.bool_]]

MOST_REPEATS = 1 << 22
"""Repeats of rows that are dealt to folds one by one, beside one of each row."""

HEAVY_ROW = 64
"""Repeats above which, where there are more in all, those of a row are spread evenly; fewer where
there are so many rows that theirs would be too many."""

NO_REPEAT = 1e-9
"""What is left of a weight beside whole numbers, and is rounding."""


def increasing_order(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places of numbers that are not negative, in increasing order; equal ones keep theirs.

    The bits of such doubles have their order, and numpy sorts sixteen bits by counting them.
    """
    digits = (values + 0.0).view(np.uint16).reshape(-1, 4).T  # no -0.0
    return np.lexsort(digits if sys.byteorder == "little" else digits[::-1])


def starts_of_runs(values: NDArray[Any]) -> NDArray[np.int64]:
    """Place of the first of each run of equal values, of which there is at least one."""
    fresh = np.empty(len(values), dtype=bool)
    fresh[0] = True
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return fresh.nonzero()[0]


def order_rows(
    own: NDArray[Any],
    hashes: NDArray[np.uint64],
    last: tuple[NDArray[np.float64], ...],
    content: Callable[[NDArray[np.int64]], NDArray[Any]],
) -> Order:
    """Sort rows by ``own``, then by their hashes, then by content, then by the keys of ``last``.

    ``content`` gives the cells of some rows; it is asked for those whose hashes are not alone.
    Returns the order, and whether each row in it differs from the one before.
    """
    order = np.lexsort((*last[::-1], hashes, own))
    own, hashes = own[order], hashes[order]
    fresh = np.append(True, (own[1:] != own[:-1]) | (hashes[1:] != hashes[:-1]))
    tied = ~fresh
    tied[:-1] |= ~fresh[1:]
    place = np.flatnonzero(tied)
    if len(place) == 0:
        return order, fresh
    rows = order[place]
    cells = content(rows)
    differ = np.any(cells[1:] != cells[:-1], axis=1)
    if np.any(differ & ~fresh[place[1:]]):  # a collision
        keys = (key[rows] for key in last[::-1])
        by_content = np.lexsort((*keys, *cells.T, hashes[place], own[place]))
        order[place], cells = rows[by_content], cells[by_content]
        differ = np.any(cells[1:] != cells[:-1], axis=1)
    fresh[place[1:]] |= differ
    return order, fresh


def order_by_columns(
    scores: NDArray[np.float64], class_index: NDArray[np.int64], weight: NDArray[np.float64]
) -> Order:
    """Order of rows with their labels, in which columns are told apart."""
    hashes = row_hashes(scores.view(np.int64), class_index)
    return order_rows(class_index, hashes, (weight,), lambda rows: scores[rows])


def order_by_cells(
    scores: NDArray[np.float64], class_index: NDArray[np.int64], *last: NDArray[np.float64]
) -> Order:
    """Order of rows by the score of the label, which does not change if columns trade places.

    Rows whose scores are equal, up to the order of columns, are sorted by the keys of ``last``.
    """
    own = scores[np.arange(len(scores)), class_index]
    hashes = symmetric_hashes(scores.view(np.int64), class_index)
    return order_rows(own, hashes, last, lambda rows: np.sort(scores[rows], axis=1))


def _rounded(
    scores: NDArray[np.float64], kind: str, class_index: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return rounded logarithms of each row, and a hash of these and the label.

    Logits and their softmax have the same hash, also with columns in another order.
    """
    codes = np.empty((len(scores), scores.shape[1] + 1), dtype=np.int32)
    round_gaps(scores, kind == "logits", codes)
    return codes, symmetric_hashes(codes, class_index)


def sample_rows(scores: NDArray[np.float64], kind: str, most: int) -> NDArray[np.bool_]:
    """Which rows stand for all, where not more than ``most`` different ones are wanted.

    Those of the smallest hashes of their scores: rows of equal scores are all in or all out.
    """
    hashes = _rounded(scores, kind, np.full(len(scores), scores.shape[1]))[1]
    different = np.sort(hashes)
    different = different[np.append(True, different[1:] != different[:-1])]  # np.unique is slower
    chosen: NDArray[np.bool_] = (
        np.ones(len(hashes), dtype=np.bool_) if len(different) <= most else hashes < different[most]
    )
    return chosen


def group_rows(
    scores: NDArray[np.float64], kind: str, class_index: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Group of each row: rows of equal rounded logarithms, and a label of the same, share it.

    Groups are numbered by the hash, those of one rounded label after the other. Without labels,
    rows share a group whatever their labels, and go by their rounded scales.
    """
    n_rows, n_classes = scores.shape
    if class_index is None:
        class_index = np.full(n_rows, n_classes)  # of the scale
    codes, hashes = _rounded(scores, kind, class_index)
    own = codes[np.arange(n_rows), class_index]

    def content(rows: NDArray[np.int64]) -> NDArray[Any]:
        cells = codes[rows]
        cells[:, :-1].sort(axis=1)
        return cells

    order, fresh = order_rows(own, hashes, (), content)
    group = np.empty(n_rows, dtype=np.int64)
    group[order] = np.cumsum(fresh) - 1
    return group


def deal_rows(
    *batch: Any, stratify: bool = True
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Row, fold and weight of all that ``deal_shares`` deals."""
    share, _ = deal_shares(*batch, stratify=stratify)
    row, fold = np.nonzero(share)
    return row, fold, share[row, fold]


def deal_shares(
    scores: NDArray[np.float64],
    kind: str,
    class_index: NDArray[np.int64],
    weight: NDArray[np.float64],
    n_folds: int,
    *,
    stratify: bool = True,
    strata: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Weight of each row in each fold, to which they are dealt at random, and group of each row.

    A row of weight w is dealt as floor(w) repeats of weight 1 and one of what is left, each to a
    fold drawn for it alone: rows of equal scores are in all folds, with about the same frequency of
    labels. The random number of a repeat is a hash of its group (see ``group_rows``) and of its
    number there, which neither the order of rows nor that of columns changes. If ``stratify``,
    every fold has as many repeats of a class as any other fold, up to one; ``strata`` are the
    classes, if ``class_index`` is a place in a list of some of them.
    """
    n_rows = len(scores)
    group = group_rows(scores, kind, class_index if stratify else None)
    if strata is None:
        strata = class_index if stratify else np.zeros(n_rows, dtype=np.int64)
    order = order_by_columns(scores, class_index, weight)[0]
    if not stratify:  # rows of one group differ in their labels, whose classes may trade names
        order = order[np.argsort(group_rows(scores, kind, class_index)[order], kind="stable")]
    order = order[np.lexsort((group[order], strata[order]))]
    share = np.empty((n_rows, n_folds))
    share[order] = _deal_weights(group[order], strata[order], weight[order], n_folds)
    return share, group


def _deal_weights(
    group: NDArray[np.int64],
    strata: NDArray[np.int64],
    weight: NDArray[np.float64],
    n_folds: int,
) -> NDArray[np.float64]:
    """Weight of each row in each fold, for rows sorted by stratum and group."""
    n_rows = len(weight)
    whole = np.floor(weight + NO_REPEAT)
    heavy = (whole > min(HEAVY_ROW, max(1, MOST_REPEATS // n_rows))) & (whole.sum() > MOST_REPEATS)
    whole[heavy] = 0.0
    left = np.where(heavy, 0.0, weight - whole)
    has_rest = left > NO_REPEAT * np.minimum(weight, 1.0)
    repeats = whole.astype(np.intp) + has_rest
    row = np.repeat(np.arange(n_rows), repeats)
    size = np.ones(len(row))
    size[np.cumsum(repeats)[has_rest] - 1] = left[has_rest]
    pools = np.append(True, (np.diff(group) != 0) | (np.diff(strata) != 0))
    first = np.concatenate([[0], np.cumsum(repeats)])[:-1]  # repeat of each row
    start = np.maximum.accumulate(np.where(pools, first, 0))  # and of its group in its stratum
    number = np.arange(len(row)) - start[row]
    keys = row_hashes(np.column_stack([group[row], number]), np.zeros(len(row), dtype=np.intp))
    # Strata one after the other, in an order that does not depend on the names of classes.
    ends = np.flatnonzero(np.append(True, np.diff(strata[row]) != 0)) if len(row) else row
    sums = np.repeat(np.add.reduceat(keys, ends), np.diff(np.append(ends, len(row))))
    dealt = np.lexsort((keys, strata[row], sums))
    fold = np.empty(len(row), dtype=np.intp)
    fold[dealt] = np.arange(len(row)) % n_folds
    cells = np.bincount(row * n_folds + fold, size, minlength=n_rows * n_folds)
    share: NDArray[np.float64] = cells.astype(np.float64).reshape(n_rows, n_folds)
    share[heavy] = weight[heavy, None] / n_folds
    return share
