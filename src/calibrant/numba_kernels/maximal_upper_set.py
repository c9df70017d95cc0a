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

from calibrant.numba_kernels.jit import kernel

STACK = 64
"""More than log2 of any number of points: the smaller part is always split first."""

ROUNDING = 4 * 2.220446049250313e-16
"""A point this close to the mean, relative to its terms, is at the mean."""

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

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
    """Set of numbers up to ``n``: bits in words of 32; two rows more mark words that are not empty.

    One array, since every array that a kernel is passed costs as much as a search.
    """
    return np.zeros((3, (n >> 5) + 1), dtype=np.int64)


@kernel
def insert(members, j):
    """Put ``j`` into the set."""
    members[0, j >> 5] |= 1 << (j & 31)
    members[1, j >> 10] |= 1 << ((j >> 5) & 31)
    members[2, j >> 15] |= 1 << ((j >> 10) & 31)


@kernel
def remove(members, j):
    """Take ``j`` out of the set."""
    members[0, j >> 5] &= ~(1 << (j & 31))
    if members[0, j >> 5] == 0:
        members[1, j >> 10] &= ~(1 << ((j >> 5) & 31))
        if members[1, j >> 10] == 0:
            members[2, j >> 15] &= ~(1 << ((j >> 10) & 31))


@kernel
def next_member(members, j):
    """Smallest member at or after ``j``, or -1."""
    word = j >> 5
    if word >= members.shape[1]:
        return -1
    bits = members[0, word] >> (j & 31)
    if bits:
        return j + lowest_bit(bits)
    word += 1
    page = word >> 5
    if page >= members.shape[1]:
        return -1
    bits = members[1, page] >> (word & 31)
    if not bits:
        page = next_page(members, page + 1)
        if page < 0:
            return -1
        word = page << 5
        bits = members[1, page]
    word += lowest_bit(bits)
    return (word << 5) + lowest_bit(members[0, word])


@kernel
def next_page(members, page):
    """Smallest page of 32 words at or after ``page`` with a member, or -1."""
    book = page >> 5
    last = (members.shape[1] - 1) >> 10
    if book > last:
        return -1
    bits = members[2, book] >> (page & 31)
    if bits:
        return page + lowest_bit(bits)
    for later in range(book + 1, last + 1):
        if members[2, later]:
            return (later << 5) + lowest_bit(members[2, later])
    return -1


@kernel
def climb(rank, labels, weight, total, mass, start, stop, reach, gap, members):
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
                    insert(members, j)
                gap[j] -= v
                rise -= v
        else:  # M grows by v up to the rank, and above it while that pays
            j = next_member(members, j)
            while j >= 0 and gap[j] < v:
                v -= gap[j]
                rise -= gap[j]
                gap[j] = 0
                remove(members, j)
                j = next_member(members, j + 1)
            if j < 0:
                reach[i] = top
            else:
                reach[i] = j - 1
                rise -= v
                gap[j] -= v
                if gap[j] == 0:
                    remove(members, j)
    j = next_member(members, 0)
    while j >= 0:
        gap[j] = 0
        remove(members, j)
        j = next_member(members, j + 1)
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
    for i in range(taken):
        rank[left + i] = spare_rank[i]
        labels[left + i] = spare_labels[i]
        weight[left + i] = spare_weight[i]
        place[left + i] = spare_place[i]
    return left


@kernel
def room_to_climb(n, n_ranks):
    """Return what ``climb`` needs for ``n`` points: reach, gaps of zero and an empty set."""
    top = n_ranks + 1
    return np.empty(n, dtype=np.int32), np.zeros(top + 1, dtype=np.int64), empty_set(top)


@kernel
def room_to_take(a, b, c, d):
    """Return arrays like those that ``take`` is to move."""
    return np.empty_like(a), np.empty_like(b), np.empty_like(c), np.empty_like(d)


@kernel
def sum_range(values, start, stop):
    """Sum of whole numbers."""
    total = np.int64(0)
    for i in range(start, stop):
        total += values[i]
    return total


@kernel
def push(parts, depth, start, stop, low, high):
    """Put a part, and two numbers that belong to it, on the stack."""
    parts[depth, 0] = start
    parts[depth, 1] = stop
    parts[depth, 2] = low
    parts[depth, 3] = high


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
    reach, gap, members = room_to_climb(n, n_ranks)
    spare = room_to_take(rank, labels, weight, place)
    head = np.zeros(n, dtype=np.bool_)
    parts = np.empty((STACK, 4), dtype=np.int64)
    push(parts, 0, 0, n, sum_range(labels, 0, n), sum_range(weight, 0, n))
    depth = 1
    visits = np.int64(0)
    while depth > 0:
        depth -= 1
        start, stop = parts[depth, 0], parts[depth, 1]
        total, mass = parts[depth, 2], parts[depth, 3]
        visits += stop - start
        if climb(rank, labels, weight, total, mass, start, stop, reach, gap, members) == 0:
            head[start] = True
            for i in range(start, stop):
                out[place[i]] = total / mass
            continue
        middle = take(rank, labels, weight, place, start, stop, reach, n_ranks + 1, spare)
        upper_total = sum_range(labels, middle, stop)
        upper_mass = sum_range(weight, middle, stop)
        lower = 0 if middle - start >= stop - middle else 1
        push(parts, depth + lower, start, middle, total - upper_total, mass - upper_mass)
        push(parts, depth + 1 - lower, middle, stop, upper_total, upper_mass)
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
    reach, gap, members = room_to_climb(n, n_ranks)
    spare = room_to_take(rank, labels, weight, place)
    excess = np.empty(n, dtype=np.int64)
    head = np.zeros(n, dtype=np.bool_)
    parts = np.empty((STACK, 4), dtype=np.float64)  # whole numbers below 2**53 are exact
    push(parts, 0, 0, n, -np.inf, np.inf)
    depth = 1
    visits = np.int64(0)
    while depth > 0:
        depth -= 1
        start, stop = np.int64(parts[depth, 0]), np.int64(parts[depth, 1])
        visits += stop - start
        mean = compensated_sum(labels, start, stop) / compensated_sum(weight, start, stop)
        mean = min(max(mean, parts[depth, 2]), parts[depth, 3])
        fixed_point(labels, weight, mean, start, stop, excess)
        middle = start
        if climb(rank, excess, excess, 0, 1, start, stop, reach, gap, members) > 0:
            middle = take(rank, labels, weight, place, start, stop, reach, n_ranks + 1, spare)
        if middle in (start, stop):
            head[start] = True
            for i in range(start, stop):
                out[place[i]] = mean
            continue
        low, high = parts[depth, 2], parts[depth, 3]
        lower = 0 if middle - start >= stop - middle else 1
        push(parts, depth + lower, start, middle, low, mean)
        push(parts, depth + 1 - lower, middle, stop, mean, high)
        depth += 2
    return head, visits


@kernel
def largest_excess(rank, labels, weight, starts, values, n_ranks):
    """Largest violation of optimality: the proof that blocks with increasing values are the fit.

    A block is right iff its labels balance its value and no upper set inside it has an excess
    over the value (then the excess can flow along the order, which is the KKT condition).
    """
    reach, gap, members = room_to_climb(rank.shape[0], n_ranks)
    excess = np.empty(rank.shape[0], dtype=np.int64)
    worst = 0.0
    for block in range(values.shape[0]):
        start, stop = starts[block], starts[block + 1]
        unit = fixed_point(labels, weight, values[block], start, stop, excess)
        balance = sum_range(excess, start, stop)
        rise = climb(rank, excess, excess, 0, 1, start, stop, reach, gap, members)
        worst = max(worst, max(rise + balance, -balance) * unit)
    return worst
