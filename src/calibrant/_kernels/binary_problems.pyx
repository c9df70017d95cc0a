"""Binary problems: cells sorted and merged by their value, cut into bins, pooled into a line."""

import numpy as np

from libc.math cimport floor
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memcpy

from calibrant._kernels.point_sort cimport DIGIT, scatter

cdef enum:
    FEW = 24  # cells that are sorted faster by insertion


def take_columns(const double[:, ::1] rows, Py_ssize_t first, double[:, ::1] out):
    """Write the columns from ``first`` on to the rows of ``out``, as many as it has.

    A few at a time: what is read for one column holds its neighbours as well.
    """
    cdef Py_ssize_t i, j, width = out.shape[0]
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(width):
                out[j, i] = rows[i, first + j]


def merge_cells(
    const double[::1] values, const double[::1] positives, const double[::1] cells
):
    """Distinct values in increasing order, with the sums of ``positives`` and ``cells`` of each.

    Values are not negative. Sums add what is equal in the order in which it was given.
    """
    cdef Py_ssize_t n = values.shape[0], i, place, last = -1
    cdef double value = -1.0
    places = sort_places(values)
    cdef const int64_t[::1] order = places
    out = np.empty((3, n))
    cdef double[:, ::1] sums = out
    with nogil:
        for i in range(n):
            place = order[i]
            if values[place] > value:
                value = values[place]
                last += 1
                sums[0, last] = value + 0.0  # not -0.0
                sums[1, last] = positives[place]
                sums[2, last] = cells[place]
            else:
                sums[1, last] += positives[place]
                sums[2, last] += cells[place]
    return out[0, : last + 1], out[1, : last + 1], out[2, : last + 1]


cdef sort_places(const double[::1] values):
    """Place of each value in increasing order; equal ones keep the order they have.

    Sorted are numbers: as many leading bits of a value as the bits of its place leave room for.
    """
    cdef Py_ssize_t n = values.shape[0], i
    keys = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] key = keys
    cdef int64_t low = INT64_MAX, high = 0, mask
    cdef int n_bits = 0, shift = 0
    if n == 0:
        return keys
    with nogil:
        while n >> n_bits:
            n_bits += 1
        for i in range(n):
            low = min(low, bits_of(values[i]))
            high = max(high, bits_of(values[i]))
        while (high - low) >> shift >> (63 - n_bits):
            shift += 1
        for i in range(n):
            key[i] = (bits_of(values[i]) - low) >> shift << n_bits | i
    keys.sort()  # by numpy, on vectors
    mask = (<int64_t> 1 << n_bits) - 1
    if shift > 0:
        sort_runs(values, key, np.empty((4, n), dtype=np.int64), low, shift, n_bits)
    with nogil:
        for i in range(n):
            key[i] &= mask
    return keys


cdef inline int64_t bits_of(double value) noexcept nogil:
    """Bits of a double, which have the order of doubles that are not negative."""
    cdef int64_t bits
    memcpy(&bits, &value, sizeof(bits))
    return max(bits, 0)  # -0.0


cdef sort_runs(
    const double[::1] values,
    int64_t[::1] key,
    int64_t[:, ::1] room,
    int64_t low,
    int shift,
    int n_bits,
):
    """Sort runs whose leading bits are equal by the ``shift`` other bits of their values."""
    cdef Py_ssize_t n = key.shape[0], i, start = 0
    with nogil:
        for i in range(1, n + 1):
            if i == n or key[i] >> n_bits != key[start] >> n_bits:
                if i - start > 1:
                    sort_run(values, &key[start], i - start, &room[0, 0], low, shift, n_bits)
                start = i


cdef void sort_run(
    const double[::1] values,
    int64_t* key,
    Py_ssize_t n,
    int64_t* room,
    int64_t low,
    int shift,
    int n_bits,
) noexcept nogil:
    """Sort one run: a few by insertion, many digit by digit; ``room`` is for four of them."""
    cdef int64_t mask = (<int64_t> 1 << n_bits) - 1, own
    cdef int64_t* bits = room
    cdef int64_t* other_bits = room + n
    cdef int64_t* spare = room + 2 * n
    cdef Py_ssize_t i, j
    cdef bint is_sorted = True
    cdef int done = 0
    for i in range(n):
        bits[i] = bits_of(values[key[i] & mask])
        is_sorted = is_sorted and (i == 0 or bits[i] >= bits[i - 1])
    if is_sorted:  # as many equal ones are
        return
    if n > FEW:
        while done < shift:  # two digits, so that they end where they began
            scatter(bits, key, n, low, done, other_bits, spare)
            scatter(other_bits, spare, n, low, done + DIGIT, bits, key)
            done += 2 * DIGIT
        return
    for i in range(1, n):
        own = key[i]
        j = i
        while j > 0 and bits_of(values[key[j - 1] & mask]) > bits_of(values[own & mask]):
            key[j] = key[j - 1]
            j -= 1
        key[j] = own


def sums_below(const double[::1] positives, const double[::1] cells):
    """Sums of both below each value and, at the end, of all; and twice the middles of cells.

    A middle is the weight below a value and half of its own.
    """
    cdef Py_ssize_t n = cells.shape[0], i
    below, middles = np.empty((2, n + 1)), np.empty(n)
    cdef double[:, ::1] sums = below
    cdef double[::1] middle = middles
    with nogil:
        sums[0, 0] = 0.0
        sums[1, 0] = 0.0
        for i in range(n):
            sums[0, i + 1] = sums[0, i] + positives[i]
            sums[1, i + 1] = sums[1, i] + cells[i]
            middle[i] = sums[1, i] + sums[1, i + 1]
    return below[0], below[1], middles


def cut_mass_bins(
    const double[::1] values,
    const double[::1] middles,
    const double[::1] positives_below,
    const double[::1] cells_below,
    Py_ssize_t n_bins,
):
    """Thresholds, positives and cells of the bins of equal mass that are not empty.

    The sums are those of ``sums_below``; a value is in bin floor(n_bins * middle / (2 * total)).
    A threshold lies halfway between the values it parts.
    """
    cdef Py_ssize_t n = values.shape[0], most = min(n_bins, n), b, i, last = 0
    cdef double twice = 2.0 * cells_below[n], target, own, before, halfway
    firsts = np.empty(most + 1, dtype=np.int64)
    out = np.empty((3, most))
    cdef int64_t[::1] first = firsts
    cdef double[:, ::1] sums = out
    with nogil:
        first[0] = 0
        if n_bins <= n:
            for b in range(1, n_bins):
                i = first_at_or_above(middles, <double> b * twice / <double> n_bins)
                if first[last] < i < n:
                    last += 1
                    first[last] = i
        else:  # no more work than there are values
            before = floor(<double> n_bins * middles[0] / twice)
            for i in range(1, n):
                own = floor(<double> n_bins * middles[i] / twice)
                if own > before:
                    last += 1
                    first[last] = i
                before = own
        first[last + 1] = n
        for b in range(last + 1):
            i = first[b]
            sums[0, b] = 0.0
            if b > 0:
                halfway = values[i - 1] + (values[i] - values[i - 1]) / 2
                sums[0, b] = halfway if halfway > values[i - 1] else values[i]
            sums[1, b] = positives_below[first[b + 1]] - positives_below[i]
            sums[2, b] = cells_below[first[b + 1]] - cells_below[i]
    return out[0, : last + 1], out[1, : last + 1], out[2, : last + 1]


cdef Py_ssize_t first_at_or_above(const double[::1] increasing, double target) noexcept nogil:
    """Index of the first number that is not below ``target``; their number if there is none."""
    cdef Py_ssize_t low = 0, high = increasing.shape[0], middle
    while low < high:
        middle = (low + high) >> 1
        if increasing[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low


def pool_into_line(
    const double[::1] values,
    const double[::1] positives,
    const double[::1] cells,
    double resolution,
):
    """Isotonic regression as a line through the first and the last value of each block.

    Values less than ``resolution`` above another are taken for it: a line between them could be
    too steep. Returns both coordinates, the sum of squared errors, and the number of blocks.
    Labels are 0 or 1, so the squared error of a block is positives (1 - 2 v) + cells v^2.
    """
    cdef Py_ssize_t n = values.shape[0], i, last = -1, n_points = 0, n_blocks = 0
    cdef double[:, ::1] block = np.empty((4, n))  # first value, last value, two sums
    cdef double at, value, before = -1.0, loss = 0.0
    out = np.empty((2, 2 * n))
    cdef double[:, ::1] line = out
    with nogil:
        i = 0
        while i < n:
            last += 1
            at = values[i]
            block[0, last] = at
            block[1, last] = at
            block[2, last] = positives[i]
            block[3, last] = cells[i]
            i += 1
            while i < n and values[i] - at < resolution:
                block[2, last] += positives[i]
                block[3, last] += cells[i]
                i += 1
            while last > 0 and block[2, last - 1] * block[3, last] >= (
                    block[2, last] * block[3, last - 1]):
                block[1, last - 1] = block[1, last]
                block[2, last - 1] += block[2, last]
                block[3, last - 1] += block[3, last]
                last -= 1
        for i in range(last + 1):
            # Means that differ by rounding only may round to the wrong side of each other.
            value = max(min(block[2, i] / block[3, i], 1.0), before)
            n_blocks += value > before
            before = value
            loss += block[2, i] * (1.0 - 2.0 * value) + block[3, i] * value * value
            line[0, n_points] = block[0, i]
            line[1, n_points] = value
            n_points += 1
            if block[1, i] > block[0, i]:
                line[0, n_points] = block[1, i]
                line[1, n_points] = value
                n_points += 1
    return out[0, :n_points], out[1, :n_points], loss, n_blocks
