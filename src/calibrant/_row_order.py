"""Rows in an order of their content, and dealt to folds by it; starts of segments of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels.lookup import bound_cells, first_of_scores
from calibrant._kernels.rows import round_gaps, row_hashes, symmetric_hashes
from calibrant._kernels.tables import SAME_SCORE, build_lookup

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._gate import SimplexBatch
    from calibrant._types import Array, Bools, Floats, Wholes

    Order = tuple[Wholes, Bools]

MOST_DEALT_SINGLY = 1 << 17
"""Repeats of rows above which those of a row are drawn at once instead of dealt one by one."""

MOST_REPEATS = 500_000_000
HEAVY_ROW = 64
"""Repeats in all above which no numbers of them can be drawn: where there are more, those of a row
with more than the second are spread evenly."""

GOLDEN = 0.5 * (5.0**0.5 - 1.0)
"""Where a threshold lies between two scores. Not at one half: between 3 and 5 votes of 100 are 4,
and a forest may give those to a row that comes later. No fraction is farther from all others."""

NO_REPEAT = 1e-9  # what is left of a weight beside whole numbers, and is rounding


def starts_of_runs(values: NDArray[np.generic]) -> Wholes:
    """Place of the first of each run of equal values, of which there is at least one."""
    fresh = np.empty(len(values), dtype=bool)
    fresh[0] = True
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return fresh.nonzero()[0]


def score_rounding(scores: Floats, least: float = 0.0) -> Floats:
    """By how much scores may differ that are one."""
    rounding = np.subtract(1.0, scores)  # in place: a million scores take new pages each time
    np.maximum(rounding, 0.0, out=rounding)
    rounding *= scores
    rounding *= SAME_SCORE
    rounding += least
    return rounding


def distinct_scores(values: Floats, least: float = 0.0) -> Wholes:
    """Place of the first of each run of values, increasing, that are one but for rounding."""
    return np.flatnonzero(first_of_scores(values, score_rounding(values, least)))


def start_segments(scores: Floats, least: float = 0.0) -> tuple[Floats, Wholes]:
    """Return the starts of segments, 0 and just below each of the distinct scores, increasing.

    What differs from a score by rounding only, or by the ``least``, is in its segment. Returns the
    segment of each of the scores, which are increasing, too.
    """
    is_first = first_of_scores(scores, score_rounding(scores, least))
    distinct = scores[is_first]
    starts = np.maximum(distinct - score_rounding(distinct, least), 0.0)
    segment = np.cumsum(is_first) - 1
    if starts[0] > 0.0:
        starts, segment = np.append(0.0, starts), segment + 1
    starts[0] = 0.0  # not -0.0
    return starts, segment


def bound_blocks(cells: Floats, starts: Floats) -> tuple[Floats, Floats]:
    """Least and largest of the cells in each block; its start where there is none."""
    least = np.full(len(starts), np.inf).view(np.int64)
    largest = np.full(len(starts), -1, dtype=np.int64)
    bound_cells(cells.view(np.int64), *build_lookup(starts), least, largest)
    is_empty = largest < 0
    bounds = least.view(np.float64), largest.view(np.float64)
    return np.where(is_empty, starts, bounds[0]), np.where(is_empty, starts, bounds[1])


def lay_thresholds(below: Floats, above: Floats) -> Floats:
    """Thresholds about half-way between the last score of a block and the first of the next one.

    Every one between the two gives the scores of the fit the same values, so that all are
    optimal. About half-way, no score changes its block when it is rounded, or computed elsewhere.
    """
    thresholds = below + GOLDEN * (above - below)
    np.copyto(thresholds, above, where=thresholds <= below)
    return thresholds


def order_rows(*keys: Array) -> Order:
    """Sort rows by keys, the first of which counts most, and the second of which are hashes.

    Returns the order, and whether the first two keys of each row in it differ from those of the row
    before. Rows of equal hashes are equal: two of a billion others collide once in 40 samples.
    """
    order = np.lexsort(keys[::-1])
    first, hashes = (key[order] for key in keys[:2])
    return order, np.append(True, (first[1:] != first[:-1]) | (hashes[1:] != hashes[:-1]))


def order_by_columns(scores: Floats, class_index: Wholes, weight: Floats) -> Order:
    """Order of rows with their labels; rows whose columns are permuted are different rows."""
    return order_rows(class_index, row_hashes(scores.view(np.int64), class_index), weight)


def _rounded(
    scores: Floats, kind: str, class_index: Wholes
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return rounded logarithms of each row, and a hash of these and the label.

    Logits and their softmax have the same hash, also with columns in another order.
    """
    codes = np.empty((len(scores), scores.shape[1] + 1), dtype=np.int32)
    round_gaps(scores, kind == "logits", codes)
    return codes, symmetric_hashes(codes, class_index)


def sample_rows(scores: Floats, kind: str, most: int) -> Bools:
    """Which rows stand for all, where not more than ``most`` different ones are wanted.

    Those of the smallest hashes of their scores: rows of equal scores are all in or all out.
    """
    hashes = _rounded(scores, kind, np.full(len(scores), scores.shape[1]))[1]
    different = np.sort(hashes)
    different = different[np.append(True, different[1:] != different[:-1])]  # np.unique is slower
    chosen: Bools = (
        np.ones(len(hashes), dtype=np.bool_) if len(different) <= most else hashes < different[most]
    )
    return chosen


def deal_shares(batch: SimplexBatch, n_folds: int) -> tuple[Floats, Wholes]:
    """Weight of each row in each fold, to which they are dealt at random, and group of each row.

    A row of w repetitions is dealt as floor(w) of them and one of what is left, each to a fold
    drawn for it alone: rows of equal scores are in all folds, with about the same frequency of
    labels. The random number of a repetition is a hash of its group (rows of equal rounded
    logarithms and a label of the same) and of its number there, which neither the order of rows nor
    that of columns changes. Every fold has as many repetitions of a class as any other fold, up to
    one. Where rows have groups of their own, those of a group are dealt to one fold, see
    ``deal_groups``.
    """
    scores, index, weight = batch.scores, batch.class_index, batch.weight
    if batch.group is not None:
        fold = deal_groups(batch, n_folds)
        return weight[:, None] * (fold[:, None] == np.arange(n_folds)), batch.group
    n_rows, unit = batch.n_rows, 1.0 if batch.unit is None else batch.unit
    codes, hashes = _rounded(scores, batch.kind, index)
    by_code, fresh = order_rows(codes[np.arange(n_rows), index], hashes)
    del codes  # half as large as the scores
    group = np.empty(n_rows, dtype=np.int64)
    group[by_code] = np.cumsum(fresh) - 1
    # Rows of one group are equal but for rounding, or are each other's permutations.
    own = scores[np.arange(n_rows), index]
    order = np.lexsort((weight, own, group, index))
    share = np.empty((n_rows, n_folds))
    share[order] = _deal_weights(group[order], index[order], (weight / unit)[order], n_folds)
    share *= np.reshape(unit, (-1, 1))
    return share, group


def deal_groups(batch: SimplexBatch, n_folds: int) -> Wholes:
    """Fold of each row: groups are dealt whole, the heaviest first, to the lightest fold so far.

    Groups of equal weight are dealt in an order of their content, not of their names.
    """
    names, codes = np.unique(np.asarray(batch.group), return_inverse=True)
    hashes = np.zeros(len(names), dtype=np.uint64)
    of_rows = _rounded(batch.scores, batch.kind, batch.class_index)[1]
    np.add.at(hashes, codes, of_rows * np.ceil(batch.weight).astype(np.uint64))
    weight = np.bincount(codes, batch.weight)
    # As whole numbers, so that the order of rows, which rounds sums otherwise, changes no fold.
    weight = np.rint(weight / weight.max() * 2.0**30)
    fold_of_group, load = np.empty(len(names), dtype=np.int64), np.zeros(n_folds)
    for group in np.lexsort((hashes, -weight)):
        fold_of_group[group] = load.argmin()
        load[fold_of_group[group]] += weight[group]
    fold: Wholes = fold_of_group[codes]
    return fold


def _deal_weights(group: Wholes, strata: Wholes, weight: Floats, n_folds: int) -> Floats:
    """Weight of each row in each fold, for rows sorted by stratum and group."""
    n_rows = len(weight)
    whole = np.floor(weight + NO_REPEAT)
    heavy = (whole > HEAVY_ROW) & (whole.sum() > MOST_REPEATS)
    whole[heavy] = 0.0
    left = np.where(heavy, 0.0, weight - whole)
    has_rest = left > NO_REPEAT * np.minimum(weight, 1.0)
    drawn = np.zeros((n_rows, n_folds))
    if whole.sum() > MOST_DEALT_SINGLY:
        drawn = _draw_repeats(group, strata, whole.astype(np.int64), n_folds)
        whole[:] = 0.0
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
    share: Floats = cells.astype(np.float64).reshape(n_rows, n_folds) + drawn
    share[heavy] = weight[heavy, None] / n_folds
    return share


def _draw_repeats(group: Wholes, strata: Wholes, whole: Wholes, n_folds: int) -> Floats:
    """Repeats of each row in each fold, drawn at once: by the law of dealing them one by one.

    What a fold gets of a stratum's repeats, out of those that are left, is hypergeometric. Rows of
    one group share what is drawn for it, so that a weight of 2 is the row given twice. The
    generator of a stratum is seeded by its content, so that names of classes make no difference.
    """
    starts = np.flatnonzero(np.append(True, (np.diff(group) != 0) | (np.diff(strata) != 0)))
    pools = np.add.reduceat(whole, starts)
    drawn = np.zeros((len(pools), n_folds), dtype=np.int64)
    keys = row_hashes(np.column_stack([group[starts], pools]), np.zeros(len(pools), dtype=np.intp))
    first = starts_of_runs(strata[starts])
    for start, end in zip(first, np.append(first[1:], len(pools)), strict=True):
        left = pools[start:end].copy()
        rng = np.random.default_rng(int(keys[start:end].sum()))
        for fold in range(n_folds - 1):
            n_drawn = int(left.sum()) // (n_folds - fold)
            some = rng.multivariate_hypergeometric(left, n_drawn, method="marginals")
            drawn[start:end, fold] = some
            left -= some
        drawn[start:end, -1] = left
    # The repeats of a group lie in a line, fold after fold, and its rows take them in their order.
    pool = np.repeat(np.arange(len(pools)), np.diff(np.append(starts, len(whole))))
    end_of_row = np.cumsum(whole) - (np.cumsum(pools) - pools)[pool]
    end_of_fold = np.cumsum(drawn, axis=1)[pool]
    low = np.maximum((end_of_row - whole)[:, None], end_of_fold - drawn[pool])
    shared = np.minimum(end_of_row[:, None], end_of_fold) - low
    share: Floats = np.maximum(shared, 0).astype(np.float64)
    return share
