"""Rows in an order of their own: sorted by hashes, and compared where hashes are equal.

A hash only makes sorting quick. Rows are equal if all their cells are, so that rows whose hashes
collide, by chance or by intent, stay what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.rows import round_gaps, row_hashes, symmetric_hashes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Order = tuple[NDArray[np.int64], NDArray[np.bool_]]


def order_rows(
    own: NDArray[Any],
    hashes: NDArray[np.uint64],
    last: NDArray[np.float64],
    content: Callable[[NDArray[np.int64]], NDArray[Any]],
) -> Order:
    """Sort rows by ``own``, then by their hashes, then by content, then by ``last``.

    ``content`` gives the cells of some rows; it is asked for those whose hashes are not alone.
    Returns the order, and whether each row in it differs from the one before.
    """
    order = np.lexsort((last, hashes, own))
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
        by_content = np.lexsort((last[rows], *cells.T, hashes[place], own[place]))
        order[place], cells = rows[by_content], cells[by_content]
        differ = np.any(cells[1:] != cells[:-1], axis=1)
    fresh[place[1:]] |= differ
    return order, fresh


def order_by_columns(
    scores: NDArray[np.float64], class_index: NDArray[np.int64], weight: NDArray[np.float64]
) -> Order:
    """Order of rows with their labels, in which columns are told apart."""
    hashes = row_hashes(scores.view(np.int64), class_index)
    return order_rows(class_index, hashes, weight, lambda rows: scores[rows])


def order_by_cells(
    scores: NDArray[np.float64], class_index: NDArray[np.int64], weight: NDArray[np.float64]
) -> Order:
    """Order of rows by the score of the label, which does not change if columns trade places."""
    own = scores[np.arange(len(scores)), class_index]
    hashes = symmetric_hashes(scores.view(np.int64), class_index)
    return order_rows(own, hashes, weight, lambda rows: np.sort(scores[rows], axis=1))


def _rounded(
    scores: NDArray[np.float64], kind: str, class_index: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return rounded logarithms of each row, and a hash of these and the label.

    Neither the order of columns, nor the last bits of scores, nor whether they are logits or their
    softmax changes a hash.
    """
    codes = np.empty((len(scores), scores.shape[1] + 1), dtype=np.int32)
    round_gaps(scores, kind == "logits", codes)
    return codes, symmetric_hashes(codes, class_index)


def sample_rows(
    scores: NDArray[np.float64], kind: str, class_index: NDArray[np.int64], most: int
) -> NDArray[np.bool_]:
    """Which rows stand for all, where not more than ``most`` different ones are wanted.

    Those of the smallest hashes, so equal rows are all in or all out.
    """
    hashes = _rounded(scores, kind, class_index)[1]
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

    Nothing that leaves a hash as it is changes a group, nor does the order of rows. Groups are
    numbered by the hash, those of one rounded label after the other. Without labels, rows share a
    group whatever their labels, and those of one rounded scale come after the other.
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

    order, fresh = order_rows(own, hashes, np.zeros(n_rows), content)
    group = np.empty(n_rows, dtype=np.int64)
    group[order] = np.cumsum(fresh) - 1
    return group
