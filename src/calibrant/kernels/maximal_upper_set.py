"""Maximal upper sets of points (q, rank) in interval form, and the splitting built on them.

For points sorted by q and then rank, with l the rank of point i and v its excess over the mean,
the last lemma of the paper's appendix on SCIR reads

    M(i, j) = M(i+1, j) + v               for j <= l,
    M(i, j) = max(M(i+1, j), M(i, l))     for j > l.

ERROR CORRECTED: the listing (main text and appendix) takes point i for every j > l when its label
is at or above the mean; the lemma takes it only where M(i, l) is the larger of the two.

MODIFICATION: M(i, .) is non-decreasing in j, so its differences gap[j] = M[j] - M[j-1] >= 0 are
the whole state, and the j > l for which point i is taken are one interval (l, reach[i]]. One number
per point replaces the table of N k. A negative excess makes at most one gap non-zero and a
positive one uses gaps up, so a pass is linear but for the search of the next non-zero gap.
"""

from __future__ import annotations

import numba
import numpy as np
from numba.extending import intrinsic

from calibrant.kernels.jit import kernel

STACK = 64
"""More than log2 of any number of points: the smaller part is always split first."""

ROUNDING = 4 * 2.220446049250313e-16
"""A point this close to the mean, relative to its terms, is at the mean."""

if numba.config.DISABLE_JIT:

    def lowest_bit(word):
        """Position of the lowest bit of a positive word."""
        return (int(word) & -int(word)).bit_length() - 1

else:

    @intrinsic
    def lowest_bit(_context, word):
        """Position of the lowest bit of a positive word."""

        def generate(context, builder, _signature, arguments):
            return builder.cttz(arguments[0], context.get_constant(numba.types.boolean, True))

        return word(word), generate


@kernel
def empty_set(n):
    """Set of numbers below ``n``: bits in words of 32, and a second level that marks words."""
    return np.zeros((n >> 5) + 1, dtype=np.int64), np.zeros((n >> 10) + 1, dtype=np.int64)


@kernel
def insert(words, pages, j):
    """Put ``j`` into the set."""
    words[j >> 5] |= 1 << (j & 31)
    pages[j >> 10] |= 1 << ((j >> 5) & 31)


@kernel
def remove(words, pages, j):
    """Take ``j`` out of the set."""
    words[j >> 5] &= ~(1 << (j & 31))
    if words[j >> 5] == 0:
        pages[j >> 10] &= ~(1 << ((j >> 5) & 31))


@kernel
def next_member(words, pages, j):
    """Smallest member at or after ``j``, or -1."""
    word = j >> 5
    if word >= words.shape[0]:
        return -1
    bits = words[word] >> (j & 31)
    if bits:
        return j + lowest_bit(bits)
    word += 1
    page = word >> 5
    if page >= pages.shape[0]:
        return -1
    bits = pages[page] >> (word & 31)
    if not bits:
        page += 1
        while page < pages.shape[0] and pages[page] == 0:
            page += 1
        if page == pages.shape[0]:
            return -1
        word = page << 5
        bits = pages[page]
    word += lowest_bit(bits)
    return (word << 5) + lowest_bit(words[word])


@kernel
def climb(rank, labels, weight, total, mass, start, stop, reach, gap, words, pages):
    """Largest excess of an upper set of points ``start .. stop - 1``, over that of all of them.

    The excess of a point is ``mass * labels - total * weight``. Right to left through the lemma;
    ``reach`` is filled for ``take``. All gaps are zero before and after.
    """
    top = gap.shape[0] - 1
    rise = np.int64(0)  # M(i, top) - M(i, 1), the sum of the gaps
    for i in range(stop - 1, start - 1, -1):
        v = mass * labels[i] - total * weight[i]
        j = np.int64(rank[i]) + 1
        if v <= 0:  # M falls by -v up to the rank of the point, and stays above it
            reach[i] = j - 1
            if v < 0:
                if gap[j] == 0:
                    insert(words, pages, j)
                gap[j] -= v
                rise -= v
        else:  # M grows by v up to the rank, and above it while that pays
            j = next_member(words, pages, j)
            while j >= 0 and gap[j] < v:
                v -= gap[j]
                rise -= gap[j]
                gap[j] = 0
                remove(words, pages, j)
                j = next_member(words, pages, j + 1)
            if j < 0:
                reach[i] = top
            else:
                reach[i] = j - 1
                rise -= v
                gap[j] -= v
                if gap[j] == 0:
                    remove(words, pages, j)
    j = next_member(words, pages, 0)
    while j >= 0:
        gap[j] = 0
        remove(words, pages, j)
        j = next_member(words, pages, j + 1)
    return rise


@kernel
def take(rank, labels, weight, place, start, stop, reach, top, spare):
    """Read the maximal upper set off, left to right, and move it behind the rest, in order.

    Returns where it starts.
    """
    spare_rank, spare_labels, spare_weight, spare_place = spare
    level = top
    left = start
    taken = 0
    for i in range(start, stop):
        r = rank[i]
        if level <= r or level <= reach[i]:
            level = min(level, r)
            spare_rank[taken] = r
            spare_labels[taken] = labels[i]
            spare_weight[taken] = weight[i]
            spare_place[taken] = place[i]
            taken += 1
        else:
            rank[left] = r
            labels[left] = labels[i]
            weight[left] = weight[i]
            place[left] = place[i]
            left += 1
    rank[left:stop] = spare_rank[:taken]
    labels[left:stop] = spare_labels[:taken]
    weight[left:stop] = spare_weight[:taken]
    place[left:stop] = spare_place[:taken]
    return left


@kernel
def split_whole(rank, labels, weight, place, n_ranks, out):
    """Isotonic regression of ``labels / weight`` on sorted points, in whole numbers: exact.

    ``labels`` are sums over equal points, weighted. The excess of a point is taken times the
    total weight, so that it is a whole number and "no upper set is above the mean" needs no
    tolerance. The four arrays are left grouped by block, in the order of the values;
    ``out[place]`` gets the values. Returns a mark at the start of each block, and the number of
    visits to a point.
    """
    n = rank.shape[0]
    top = n_ranks + 1
    reach = np.empty(n, dtype=np.int32)
    gap = np.zeros(top + 1, dtype=np.int64)
    words, pages = empty_set(top)
    spare = (np.empty_like(rank), np.empty_like(labels), np.empty_like(weight), np.empty_like(place))
    head = np.zeros(n, dtype=np.bool_)
    parts = np.empty((STACK, 4), dtype=np.int64)
    parts[0] = 0, n, np.sum(labels), np.sum(weight)
    depth = 1
    visits = 0
    while depth > 0:
        depth -= 1
        start, stop, total, mass = parts[depth]
        visits += stop - start
        if climb(rank, labels, weight, total, mass, start, stop, reach, gap, words, pages) == 0:
            head[start] = True
            out[place[start:stop]] = total / mass
            continue
        middle = take(rank, labels, weight, place, start, stop, reach, top, spare)
        upper_total = np.int64(0)
        upper_mass = np.int64(0)
        for i in range(middle, stop):
            upper_total += labels[i]
            upper_mass += weight[i]
        lower = 0 if middle - start >= stop - middle else 1
        parts[depth + lower] = start, middle, total - upper_total, mass - upper_mass
        parts[depth + 1 - lower] = middle, stop, upper_total, upper_mass
        depth += 2
    return head, visits


@kernel
def compensated_sum(values, start, stop):
    """Sum with the error of every addition carried along (Neumaier)."""
    total = 0.0
    lost = 0.0
    for i in range(start, stop):
        value = values[i]
        new = total + value
        if abs(total) >= abs(value):
            lost += (total - new) + value
        else:
            lost += (value - new) + total
        total = new
    return total + lost


@kernel
def fixed_point(labels, weight, mean, start, stop, excess):
    """Excess of each point over the mean as a whole number; returns the size of one unit.

    Rounded once, at 2**-61 of their absolute sum, the excesses are added and compared without
    any further error. A point at the mean to rounding is put exactly there, so that equal labels
    are never split by noise.
    """
    size = 0.0
    for i in range(start, stop):
        size += abs(labels[i] - mean * weight[i])
    unit = max(size * 2.0**-61, 2.0**-1022)
    for i in range(start, stop):
        v = labels[i] - mean * weight[i]
        noise = ROUNDING * (abs(labels[i]) + abs(mean) * weight[i])
        excess[i] = 0 if abs(v) <= noise else np.int64(np.rint(v / unit))
    return unit


@kernel
def split_real(rank, labels, weight, place, n_ranks, out):
    """As ``split_whole``, for real numbers: correct to rounding.

    Every split is into two parts that are not empty, so it ends. A part keeps the means of those
    it was split from as bounds on its values (Theorem 3.1 of Spouge, Wan and Wilbur), so that
    rounding cannot break the order: where a split was noise, both sides end at the bound.
    """
    n = rank.shape[0]
    top = n_ranks + 1
    reach = np.empty(n, dtype=np.int32)
    excess = np.empty(n, dtype=np.int64)
    gap = np.zeros(top + 1, dtype=np.int64)
    words, pages = empty_set(top)
    spare = (np.empty_like(rank), np.empty_like(labels), np.empty_like(weight), np.empty_like(place))
    head = np.zeros(n, dtype=np.bool_)
    parts = np.empty((STACK, 2), dtype=np.int64)
    bounds = np.empty((STACK, 2), dtype=np.float64)
    parts[0] = 0, n
    bounds[0] = -np.inf, np.inf
    depth = 1
    visits = 0
    while depth > 0:
        depth -= 1
        start, stop = parts[depth]
        low, high = bounds[depth]
        visits += stop - start
        mean = compensated_sum(labels, start, stop) / compensated_sum(weight, start, stop)
        mean = min(max(mean, low), high)
        fixed_point(labels, weight, mean, start, stop, excess)
        middle = start
        if climb(rank, excess, excess, 0, 1, start, stop, reach, gap, words, pages) > 0:
            middle = take(rank, labels, weight, place, start, stop, reach, top, spare)
        if middle in (start, stop):
            head[start] = True
            out[place[start:stop]] = mean
            continue
        lower = 0 if middle - start >= stop - middle else 1
        parts[depth + lower] = start, middle
        bounds[depth + lower] = low, mean
        parts[depth + 1 - lower] = middle, stop
        bounds[depth + 1 - lower] = mean, high
        depth += 2
    return head, visits


@kernel
def largest_excess(rank, labels, weight, starts, values, n_ranks):
    """Largest violation of optimality: the proof that blocks with increasing values are the fit.

    A block is right iff its labels balance its value and no upper set inside it has an excess
    over the value (then the excess can flow along the order, which is the KKT condition).
    """
    n = rank.shape[0]
    top = n_ranks + 1
    reach = np.empty(n, dtype=np.int32)
    excess = np.empty(n, dtype=np.int64)
    gap = np.zeros(top + 1, dtype=np.int64)
    words, pages = empty_set(top)
    worst = 0.0
    for block in range(values.shape[0]):
        start, stop = starts[block], starts[block + 1]
        unit = fixed_point(labels, weight, values[block], start, stop, excess)
        balance = np.sum(excess[start:stop])
        rise = climb(rank, excess, excess, 0, 1, start, stop, reach, gap, words, pages)
        worst = max(worst, max(rise + balance, -balance) * unit)
    return worst
