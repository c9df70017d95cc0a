"""Rows -> sorted cumulative points (q, rank) -> slots that share a value -> fronts of each rank.

Only the constraints "a point with the label inside <= a point with it outside, if below it" bind:
given the values of the points outside, a point inside wants the least value of those above it, and
the function that gives it so is isotonic. Two consequences make the problem small. A point with
nothing of label 0 above it has value 1, and one with nothing of label 1 below it has value 0. And
two points of one rank and label act as one if no point of the other label tells them apart.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from calibrant._kernels.bit_set cimport BitSet, insert, next_member, point_to_set, remove

cdef enum:
    DIGIT = 8  # bits a pass of the radix sort looks at
    N_DIGITS = 1 << DIGIT

ctypedef fused origin_t:  # rank and row of a point, packed
    uint32_t
    int64_t

NEVER = 2.0
"""Threshold that no cumulative probability reaches."""


def accumulate_rows(
    double[:, ::1] rows, const double[::1] own, double part, int64_t[::1] first, int64_t[::1] last
):
    """Turn rows in increasing order into sums of their r largest entries, in place.

    ``first`` and ``last`` get the ranks that the label may have: more than one if it is tied, which
    an entry is with the one before it from this ``part`` of it on.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j
    cdef int64_t ahead, behind
    cdef double total, value, label, before
    cdef double* row
    with nogil:
        for i in range(n_rows):
            row = &rows[i, 0]
            for j in range(n_classes // 2):
                row[j], row[n_classes - 1 - j] = row[n_classes - 1 - j], row[j]
            label = own[i]
            ahead = 0  # entries before the group of ties that has the label
            behind = n_classes  # and up to its end
            # The paper's cu_sorted(p, y): ((q, r), 1 if the label is among the r largest).
            total = 0.0
            before = INFINITY
            for j in range(n_classes):
                value = row[j]
                if value < part * before:
                    if value >= label:
                        ahead = j
                    elif behind == n_classes:
                        behind = j
                before = value
                total += value
                row[j] = min(total, 1.0)
            first[i] = ahead + 1
            last[i] = behind


def trim_rows(
    const double[:, ::1] cumulative, const double[::1] largest_zero, const double[::1] least_one,
    int64_t n_ranks, int64_t[::1] begin, int64_t[::1] end,
):
    """Find the ranks ``begin .. end - 1`` of each row whose value is neither surely 0 nor 1.

    Returns where the value is surely 1, per rank, and the number of points left and of zeros.
    """
    cdef Py_ssize_t n_rows = cumulative.shape[0], n_classes = cumulative.shape[1], i, r
    cdef int64_t n_points = 0, n_zeros = 0, low, high
    sure = np.full(n_ranks + 1, NEVER)
    cdef double[::1] surely_one = sure
    cdef const double* row
    with nogil:
        for i in range(n_rows):
            row = &cumulative[i, 0]
            low = 1
            while low < n_classes and row[low - 1] < least_one[min(low, n_ranks)]:
                low += 1
            high = n_classes
            while high > low and row[high - 2] > largest_zero[min(high - 1, n_ranks)]:
                high -= 1
            if high < n_classes:
                r = min(high, n_ranks)
                surely_one[r] = min(surely_one[r], row[high - 1])
            begin[i] = low
            end[i] = high
            n_points += high - low
            n_zeros += low - 1
    return sure, n_points, n_zeros


def list_points(
    const int64_t[:, ::1] bits, const int64_t[::1] begin, const int64_t[::1] end, int row_bits,
    int64_t[::1] keys, origin_t[::1] origin,
):
    """Write the bits of q of every point, and its rank and row packed into one number."""
    cdef Py_ssize_t n = 0, i
    cdef int64_t r
    with nogil:
        for i in range(bits.shape[0]):
            for r in range(begin[i], end[i]):
                keys[n] = bits[i, r - 1]
                origin[n] = <origin_t> (r << row_bits | i)
                n += 1


cdef inline void scatter(
    const int64_t* keys, const origin_t* origin, Py_ssize_t n, int64_t low, int shift,
    int64_t* new_keys, origin_t* new_origin,
) noexcept nogil:
    """Sort by one digit of ``keys - low``, keeping the order where it is equal."""
    cdef int64_t[N_DIGITS] begins
    cdef int64_t total = 0, count, place
    cdef Py_ssize_t i, digit
    for digit in range(N_DIGITS):
        begins[digit] = 0
    for i in range(n):
        begins[((keys[i] - low) >> shift) & (N_DIGITS - 1)] += 1
    for digit in range(N_DIGITS):
        count = begins[digit]
        begins[digit] = total
        total += count
    for i in range(n):
        digit = ((keys[i] - low) >> shift) & (N_DIGITS - 1)
        place = begins[digit]
        new_keys[place] = keys[i]
        new_origin[place] = origin[i]
        begins[digit] = place + 1


cdef inline void sort_run(
    origin_t* origin, origin_t* spare, Py_ssize_t start, Py_ssize_t stop, int row_bits,
    int64_t* counts, Py_ssize_t n_classes,
) noexcept nogil:
    """Sort points of equal q by rank: a few by insertion, many by counting."""
    cdef Py_ssize_t n = stop - start, i, j, r
    cdef int64_t total = start, count
    cdef origin_t value
    if n * n < 8 * (n + n_classes):
        for i in range(start + 1, stop):
            value = origin[i]
            j = i
            while j > start and origin[j - 1] > value:
                origin[j] = origin[j - 1]
                j -= 1
            origin[j] = value
        return
    for r in range(n_classes):
        counts[r] = 0
    for i in range(start, stop):
        counts[origin[i] >> row_bits] += 1
    for r in range(n_classes):
        count = counts[r]
        counts[r] = total
        total += count
    for i in range(start, stop):
        r = origin[i] >> row_bits
        spare[counts[r]] = origin[i]
        counts[r] += 1
    for i in range(start, stop):
        origin[i] = spare[i]


cdef inline int64_t bits_beyond(int64_t bits, double part, double least) noexcept nogil:
    """The bits of the largest sum that may differ by rounding only from the one with these bits."""
    cdef double q
    memcpy(&q, &bits, 8)
    q += part * q * (1.0 - q) + least
    memcpy(&bits, &q, 8)
    return bits


def sort_points(
    int64_t[:, ::1] keys, origin_t[:, ::1] origin, int row_bits, Py_ssize_t n_classes, double part,
    double least,
):
    """Sort by q, then rank: radix sort of the bits of q, which have the order of the doubles.

    Sums q that exceed another by no more than this ``part`` of q (1 - q), and the ``least``, are
    taken for it. The points are in the first row of ``keys`` and of ``origin``; returns the rows
    they end in.
    """
    cdef Py_ssize_t n = keys.shape[1], i, start = 0
    cdef int64_t low, high, beyond
    cdef int shift = 0, side = 0
    cdef int64_t[::1] counts = np.empty(n_classes, dtype=np.int64)
    if n == 0:
        return keys.base[0], origin.base[0]
    with nogil:
        low = keys[0, 0]
        high = keys[0, 0]
        for i in range(n):
            low = min(low, keys[0, i])
            high = max(high, keys[0, i])
        while shift < 64 and (high - low) >> shift:
            scatter(&keys[side, 0], &origin[side, 0], n, low, shift,
                    &keys[1 - side, 0], &origin[1 - side, 0])
            side = 1 - side
            shift += DIGIT
        beyond = bits_beyond(keys[side, 0], part, least)
        for i in range(1, n + 1):
            if i < n and keys[side, i] <= beyond:
                keys[side, i] = keys[side, start]
                continue
            if i - start > 1:
                sort_run(&origin[side, 0], &origin[1 - side, 0], start, i, row_bits,
                         &counts[0], n_classes)
            start = i
            if i < n:
                beyond = bits_beyond(keys[side, i], part, least)
    return keys.base[side], origin.base[side]


def merge_points(
    const int64_t[::1] keys, const origin_t[::1] origin, int row_bits, const int64_t[::1] first,
    const int64_t[::1] last, const int64_t[::1] units, int64_t n_ranks,
):
    """Merge equal points, and those of one rank that nothing tells apart.

    Returns rank, labels, weight and the bits of q of each slot, which stands where its leftmost
    point is; ``units`` are the weights of the rows. A label tied with others is shared among them:
    it is inside in equal steps.
    """
    cdef Py_ssize_t n = keys.shape[0], n_slots = 0, i = 0
    slots = np.empty(n, dtype=np.int32), *np.empty((3, n), dtype=np.int64)
    cdef int32_t[::1] rank = slots[0]
    cdef int64_t[::1] labels = slots[1], weight = slots[2], where = slots[3]
    # Per label and rank: the slot that further points may join, or -1, and its weight so far.
    cdef int64_t[:, ::1] opened = np.full((2, n_ranks + 1), -1, dtype=np.int64)
    cdef int64_t[:, ::1] gathered = np.zeros((2, n_ranks + 1), dtype=np.int64)
    cdef uint64_t[:, ::1] set_of_zeros = np.zeros((3, (n_ranks >> 6) + 1), dtype=np.uint64)
    cdef uint64_t[:, ::1] set_of_ones = np.zeros_like(set_of_zeros)
    cdef BitSet zeros = point_to_set(set_of_zeros), ones = point_to_set(set_of_ones)
    cdef int64_t row_mask = (<int64_t> 1 << row_bits) - 1
    cdef int64_t key, r, own, row, inside, mass, j
    cdef int label
    cdef bint pure
    with nogil:
        while i < n:
            key = keys[i]
            r = min(<int64_t> origin[i] >> row_bits, n_ranks)
            inside = 0
            mass = 0
            while i < n and keys[i] == key:
                own = <int64_t> origin[i] >> row_bits
                if min(own, n_ranks) != r:
                    break
                row = <int64_t> origin[i] & row_mask
                mass += units[row]
                if own >= last[row]:
                    inside += units[row]
                elif own >= first[row]:
                    inside += units[row] * (own - first[row] + 1) // (last[row] - first[row] + 1)
                i += 1
            if inside < mass:  # tells apart points of label 1 to its left, up to its rank
                j = next_member(&ones, 0)
                while 0 <= j <= r:
                    close_slot(1, j, labels, weight, opened, gathered)
                    remove(&ones, j)
                    j = next_member(&ones, j + 1)
            if inside > 0:  # and this one points of label 0, from its rank on
                j = next_member(&zeros, r)
                while j >= 0:
                    close_slot(0, j, labels, weight, opened, gathered)
                    remove(&zeros, j)
                    j = next_member(&zeros, j + 1)
            label = inside == mass
            pure = inside == 0 or inside == mass
            if pure and opened[label, r] >= 0:
                gathered[label, r] += mass
                continue
            rank[n_slots] = <int32_t> r
            labels[n_slots] = inside
            weight[n_slots] = mass
            where[n_slots] = key
            if pure:
                opened[label, r] = n_slots
                gathered[label, r] = mass
                insert(&ones if label else &zeros, r)
            n_slots += 1
        for label in range(2):
            for r in range(n_ranks + 1):
                if opened[label, r] >= 0:
                    close_slot(label, r, labels, weight, opened, gathered)
    return tuple(array[:n_slots].copy() for array in slots)


cdef inline void close_slot(
    int label, Py_ssize_t r, int64_t[::1] labels, int64_t[::1] weight, int64_t[:, ::1] opened,
    int64_t[:, ::1] gathered,
) noexcept nogil:
    """Write the weight that an open slot has gathered; it stays as it is from now on."""
    cdef int64_t slot = opened[label, r]
    weight[slot] = gathered[label, r]
    labels[slot] = label * gathered[label, r]
    opened[label, r] = -1


cdef double[::1] enlarged(double[::1] array, Py_ssize_t n, Py_ssize_t room):
    """Copy the first ``n`` entries to a longer array."""
    cdef double[::1] new = np.empty(room)
    new[:n] = array[:n]
    return new


def rank_fronts(
    const double[::1] slot_q, const double[::1] slot_v, const Py_ssize_t[::1] starts,
    const double[::1] sure, double lowest, int64_t n_ranks,
):
    """Per rank, the jumps of the maximum over dominated slots; ``lowest`` where there is none.

    Rank r has the slots ``starts[r]`` to ``starts[r + 1]``, sorted by q. Sweeps the ranks upwards:
    the front of a rank is that of the rank below it, merged with the slots of the rank by q,
    keeping what exceeds all before it. Value 1 starts at ``sure``.
    """
    cdef Py_ssize_t room = n_ranks + slot_q.shape[0] + 1
    cdef double[::1] thresholds = np.zeros(room), values = np.full(room, lowest)
    offsets = np.zeros(n_ranks + 1, dtype=np.int64)
    cdef int64_t[::1] ends = offsets
    # The front below is old .. old_end - 1: at first the lowest value from 0 on.
    cdef Py_ssize_t n = 1, old = 0, old_end = 1, new, new_end, begin, needed, r
    cdef double q, v, never = NEVER
    with nogil:
        for r in range(1, n_ranks + 1):
            new, new_end = starts[r], starts[r + 1]
            needed = n + (old_end - old) + (new_end - new) + 1
            if needed > room:
                room = 2 * needed
                with gil:
                    thresholds = enlarged(thresholds, n, room)
                    values = enlarged(values, n, room)
            begin = n
            while old < old_end or new < new_end:
                if new == new_end or (old < old_end and thresholds[old] <= slot_q[new]):
                    q, v = thresholds[old], values[old]
                    old += 1
                else:
                    q, v = slot_q[new], slot_v[new]
                    new += 1
                if n > begin and v <= values[n - 1]:
                    continue
                if n == begin or q > thresholds[n - 1]:
                    n += 1
                thresholds[n - 1] = q
                values[n - 1] = v
            while n > begin and thresholds[n - 1] >= sure[r]:
                n -= 1
            if sure[r] < never and (n == begin or values[n - 1] < 1.0):
                thresholds[n] = sure[r]
                values[n] = 1.0
                n += 1
            ends[r] = n - 1
            old, old_end = begin, n
    return np.array(thresholds[1:n]), np.array(values[1:n]), offsets
