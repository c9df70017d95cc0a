"""Isotonic regression: on a line by pooling adjacent violators, on points (q, rank) by upper sets.

Maximal upper sets of points (q, rank) are kept in interval form. For points sorted by q and then
rank, with l the rank of point i and v its excess over the mean, the last lemma of the paper's
appendix on SCIR reads

    M(i, j) = M(i+1, j) + v               for j <= l,
    M(i, j) = max(M(i+1, j), M(i, l))     for j > l.

ERROR CORRECTED: the listing (main text and appendix) takes point i for every j > l when its label
is at or above the mean; the lemma takes it only where M(i, l) is the larger of the two.

MODIFICATION: M(i, .) is non-decreasing in j, so its differences gap[j] = M[j] - M[j-1] >= 0 are
the whole state, and the j > l for which point i is taken are one interval (l, reach[i]]. One number
per point replaces the table of N k. A negative excess makes at most one gap non-zero and a
positive one uses gaps up, so a pass is linear but for the search of the next non-zero gap.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, ldexp, rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from calibrant._kernels.bit_set cimport BitSet, insert, next_member, point_to_set, remove

cdef enum:
    STACK = 64  # more than log2 of any number of points: the smaller part is always split first

ctypedef fused number_t:
    int32_t
    int64_t
    double


cdef struct Room:  # what a climb needs: reach, gaps of zero and an empty set
    int32_t* reach
    int64_t* gap
    int64_t top
    BitSet members


cdef struct Part:
    int64_t start
    int64_t stop
    double low
    double high


def pool_adjacent_violators(const double[::1] numerator, const double[::1] weight):
    """Isotonic regression of ``numerator / weight`` with weights ``weight`` (all positive).

    Returns the start of each block and its two sums; the fitted value is their ratio, strictly
    increasing from block to block. scipy's ``isotonic_regression`` keeps running means, which
    round; sums of whole numbers do not, and cross-multiplied they compare exactly. Each step
    back removes a block for good, so the pass is linear.
    """
    cdef Py_ssize_t n = numerator.shape[0], i, last = -1
    starts, tops, bottoms = np.empty(n, dtype=np.intp), np.empty(n), np.empty(n)
    cdef Py_ssize_t[::1] start = starts
    cdef double[::1] top = tops, bottom = bottoms
    with nogil:
        for i in range(n):
            last += 1
            start[last] = i
            top[last] = numerator[i]
            bottom[last] = weight[i]
            # Invariant: the blocks below ``last`` have strictly increasing means.
            while last > 0 and top[last - 1] * bottom[last] >= top[last] * bottom[last - 1]:
                top[last - 1] += top[last]
                bottom[last - 1] += bottom[last]
                last -= 1
    return starts[: last + 1], tops[: last + 1], bottoms[: last + 1]


cdef room_to_climb(n, n_ranks):
    """Return what ``climb`` needs for ``n`` points: reach, gaps of zero and an empty set."""
    top = n_ranks + 1
    members = np.zeros((3, (top >> 6) + 1), dtype=np.uint64)
    return np.empty(n, dtype=np.int32), np.zeros(top + 1, dtype=np.int64), members


cdef Room point_to_room(room):
    """Addresses of the arrays to climb with, which outlive them."""
    cdef int32_t[::1] reach = room[0]
    cdef int64_t[::1] gap = room[1]
    cdef uint64_t[:, ::1] members = room[2]
    return Room(&reach[0], &gap[0], gap.shape[0] - 1, point_to_set(members))


cdef int64_t climb(
    const int32_t* rank, const int64_t* excess, Py_ssize_t start, Py_ssize_t stop, const Room* room
) noexcept nogil:
    """Largest excess of an upper set of points ``start .. stop - 1``, over that of all of them.

    Right to left through the lemma; ``reach`` is filled for ``take``. All gaps are zero before and
    after.
    """
    cdef int64_t* gap = room.gap
    cdef const BitSet* members = &room.members
    cdef int64_t rise = 0, v, j  # rise: M(i, top) - M(i, 1), the sum of the gaps
    cdef Py_ssize_t i
    for i in range(stop - 1, start - 1, -1):
        v = excess[i]
        j = <int64_t> rank[i] + 1
        if v <= 0:  # M falls by -v up to the rank of the point, and stays above it
            room.reach[i] = <int32_t> (j - 1)
            if v < 0:  # M(i, j) = M(i+1, j) + v up to the rank: a gap opens behind it
                if gap[j] == 0:
                    insert(members, j)
                gap[j] -= v
                rise -= v
        else:  # M grows by v up to the rank, and above it while M(i, l) is the larger of the two
            j = next_member(members, j)
            while j >= 0 and gap[j] < v:
                v -= gap[j]
                rise -= gap[j]
                gap[j] = 0
                remove(members, j)
                j = next_member(members, j + 1)
            if j < 0:
                room.reach[i] = <int32_t> room.top
            else:
                room.reach[i] = <int32_t> (j - 1)
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


cdef Py_ssize_t take(
    int32_t* rank, number_t* labels, number_t* weight, int32_t* place, Py_ssize_t start,
    Py_ssize_t stop, const Room* room, int32_t* spare_rank, number_t* spare_labels,
    number_t* spare_weight, int32_t* spare_place,
) noexcept nogil:
    """Read the maximal upper set off, left to right, and move it behind the rest, in order.

    Returns where it starts.
    """
    cdef int64_t level = room.top
    cdef Py_ssize_t left = start, taken = 0, i
    cdef int32_t r
    for i in range(start, stop):
        r = rank[i]
        if level <= r or level <= room.reach[i]:
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
    memcpy(rank + left, spare_rank, taken * sizeof(rank[0]))
    memcpy(labels + left, spare_labels, taken * sizeof(labels[0]))
    memcpy(weight + left, spare_weight, taken * sizeof(weight[0]))
    memcpy(place + left, spare_place, taken * sizeof(place[0]))
    return left


cdef double compensated_sum(const double* values, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Sum with the error of every addition carried along (Neumaier)."""
    cdef double total = 0.0, lost = 0.0, value, new
    cdef Py_ssize_t i
    for i in range(start, stop):
        value = values[i]
        new = total + value
        if fabs(total) >= fabs(value):
            lost += (total - new) + value
        else:
            lost += (value - new) + total
        total = new
    return total + lost


cdef double fixed_point(
    const double* labels, const double* weight, double mean, Py_ssize_t start, Py_ssize_t stop,
    int64_t* excess,
) noexcept nogil:
    """Excess of each point over the mean as a whole number; returns the size of one unit.

    Rounded once, at 2**-61 of their absolute sum, the excesses are added and compared without
    any further error. A point at the mean to rounding is put exactly there, so that equal labels
    are never split by noise.
    """
    cdef double rounding = 4 * 2.220446049250313e-16  # relative to the terms of a point
    cdef double size = 0.0, unit, v, noise
    cdef Py_ssize_t i
    for i in range(start, stop):
        size += fabs(labels[i] - mean * weight[i])
    unit = max(ldexp(size, -61), ldexp(1.0, -1022))
    for i in range(start, stop):
        v = labels[i] - mean * weight[i]
        noise = rounding * (fabs(labels[i]) + fabs(mean) * weight[i])
        excess[i] = 0 if fabs(v) <= noise else <int64_t> rint(v / unit)
    return unit


cdef double center(
    const number_t* labels, const number_t* weight, double low, double high, Py_ssize_t start,
    Py_ssize_t stop, int64_t* excess,
) noexcept nogil:
    """Mean of the points, real ones within bounds, and the excess of each over it.

    That of whole numbers is taken times the total weight, so that it is a whole number.
    """
    cdef Py_ssize_t i
    cdef int64_t total = 0, mass = 0
    cdef double mean
    if number_t is double:
        mean = compensated_sum(labels, start, stop) / compensated_sum(weight, start, stop)
        mean = min(max(mean, low), high)
        fixed_point(labels, weight, mean, start, stop, excess)
        return mean
    else:
        for i in range(start, stop):
            total += labels[i]
            mass += weight[i]
        for i in range(start, stop):
            excess[i] = mass * <int64_t> labels[i] - total * <int64_t> weight[i]
        return <double> total / <double> mass


def split(
    int32_t[::1] rank, number_t[::1] labels, number_t[::1] weight, int32_t[::1] place,
    int64_t n_ranks, double[::1] out,
):
    """Isotonic regression of ``labels / weight`` on sorted points: exact of whole numbers.

    ``labels`` are sums over equal points, weighted. The four arrays are left grouped by block, in
    the order of the values; ``out[place]`` gets the values. Returns a mark at the start of each
    block, and the number of visits to a point.

    Of real numbers it is correct to rounding. Every split is into two parts that are not empty, so
    it ends. A part keeps the means of those it was split from as bounds on its values (Theorem 3.1
    of Spouge, Wan and Wilbur), so that rounding cannot break the order: where a split was noise,
    both sides end at the bound.
    """
    cdef Py_ssize_t n = rank.shape[0], i, start, stop, middle
    arrays = room_to_climb(n, n_ranks)
    cdef Room room = point_to_room(arrays)
    cdef int32_t[::1] spare_rank = np.empty_like(rank)
    cdef number_t[::1] spare_labels = np.empty_like(labels), spare_weight = np.empty_like(weight)
    cdef int32_t[::1] spare_place = np.empty_like(place)
    cdef int64_t[::1] excess = np.empty(n, dtype=np.int64)
    heads = np.zeros(n, dtype=bool)
    cdef uint8_t[::1] head = heads
    cdef Part[STACK] parts
    cdef Part part
    cdef double mean
    cdef int64_t visits = 0
    cdef int depth = 1, lower
    with nogil:
        parts[0] = Part(0, n, -INFINITY, INFINITY)
        while depth > 0:
            depth -= 1
            part = parts[depth]
            start, stop = part.start, part.stop
            visits += stop - start
            mean = center(
                &labels[0], &weight[0], part.low, part.high, start, stop, &excess[0])
            middle = start
            if climb(&rank[0], &excess[0], start, stop, &room) > 0:
                middle = take(
                    &rank[0], &labels[0], &weight[0], &place[0], start, stop, &room,
                    &spare_rank[0], &spare_labels[0], &spare_weight[0], &spare_place[0])
            if middle == start or middle == stop:
                head[start] = True
                for i in range(start, stop):
                    out[place[i]] = mean
                continue
            lower = 0 if middle - start >= stop - middle else 1
            parts[depth + lower] = Part(start, middle, part.low, mean)
            parts[depth + 1 - lower] = Part(middle, stop, mean, part.high)
            depth += 2
    return heads, visits


def largest_excess(
    const int32_t[::1] rank, const double[::1] labels, const double[::1] weight,
    const Py_ssize_t[::1] starts, const double[::1] values, int64_t n_ranks,
):
    """Largest violation of optimality: the proof that blocks with increasing values are the fit.

    A block is right iff its labels balance its value and no upper set inside it has an excess
    over the value (then the excess can flow along the order, which is the KKT condition).
    """
    arrays = room_to_climb(rank.shape[0], n_ranks)
    cdef Room room = point_to_room(arrays)
    cdef int64_t[::1] excess = np.empty(rank.shape[0], dtype=np.int64)
    cdef double worst = 0.0, unit
    cdef int64_t balance, rise
    cdef Py_ssize_t block, start, stop, i
    with nogil:
        for block in range(values.shape[0]):
            start, stop = starts[block], starts[block + 1]
            unit = fixed_point(&labels[0], &weight[0], values[block], start, stop, &excess[0])
            balance = 0
            for i in range(start, stop):
                balance += excess[i]
            rise = climb(&rank[0], &excess[0], start, stop, &room)
            worst = max(worst, max(rise + balance, -balance) * unit)
    return worst
