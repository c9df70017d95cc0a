"""Counts of cells by their score, in bins that are narrow in the odds.

The key of a score up to 1/2 is the bits of the double, so an interval of keys is as narrow as the
score is small; above 1/2 it is the complement of the key of 1 - p, which is exact there. A bin
holds the keys of an octave that agree but for their last bits. All that is counted are whole
numbers and extremes, so neither order nor chunks matter, and bins can be made wider later.
"""

import numpy as np

from libc.math cimport floor, log, rint
from libc.stdint cimport int32_t, int64_t, uint64_t

from calibrant.kernels.exponential cimport exponentials
from calibrant.kernels.lookup cimport find_block
from calibrant.kernels.rows cimport invariant_sum, row_top

cdef enum:
    EXPONENT = 52  # where it starts, among the bits of a double
    LOWEST = 1023 - 64  # exponent of the first octave that is told from those below
    HALF = 64  # octaves from there up to 1/2
    BELOW = 2 * HALF  # what stands for all octaves below

N_OCTAVES = BELOW + 1
"""Octaves of p up to 1/2, from 2**-64 on; as many of 1 - p; and the others."""

# Columns of a record: its key, sums in two words each, and scores as bits.
cdef enum:
    KEY = 0
    CELLS = 1
    LABELS = 3
    MASS = 5
    TOPS = 7
    SMALLEST = 9
    LARGEST = 10  # negated, so that all three are minima
    SMALLEST_LABEL = 11
    N_COLUMNS = 12

cdef int64_t NONE_CAME = 0x7FFFFFFFFFFFFFFF
cdef double UNIT = 2.0**32
cdef double FLOOR = 2.0**-40  # of the prior, relative to the largest of a row


cdef union Double:
    double value
    int64_t bits


cdef inline int64_t half_key(double p) noexcept nogil:
    """Key of a score up to 1/2: 0 shares no octave with any other."""
    cdef Double cell
    cell.value = p
    return 0 if cell.bits == 0 else cell.bits + (<int64_t> 1 << EXPONENT)


cdef inline int64_t find_key(double p) noexcept nogil:
    """Key of a score; keys above 1/2 are negative."""
    return half_key(p) if p <= 0.5 else ~half_key(1.0 - p)


cdef inline Py_ssize_t octave_of(int64_t key) noexcept nogil:
    """Octave of a key."""
    cdef Py_ssize_t octave = ((key if key >= 0 else ~key) >> EXPONENT) - LOWEST - 1
    if octave < 0:
        return BELOW
    return octave if key >= 0 else HALF + octave


cdef inline int64_t first_of_bin(int64_t key, int64_t shift) noexcept nogil:
    """Smallest key of the bin: its last bits are 0. No shift of what is negative."""
    return key & ~<int64_t> ((<uint64_t> 1 << shift) - 1)


cdef inline double in_range(double p) noexcept nogil:
    """Return a score without the sign of -0.0, and not above one by rounding."""
    return min(p, 1.0) if p > 0.0 else 0.0


def find_keys(const double[::1] scores, const int64_t[::1] shifts, int64_t[::1] out):
    """Key of the bin of each score: that of the score without its last bits."""
    cdef Py_ssize_t i, octave
    cdef int64_t key
    with nogil:
        for i in range(scores.shape[0]):
            key = find_key(in_range(scores[i]))
            octave = octave_of(key)
            out[i] = first_of_bin(key, shifts[octave])


def count_merges(
    const int64_t[::1] keys, const int64_t[:, ::1] level_of, int64_t[::1] n_merges
):
    """Count at which level of widening each of these keys, sorted, shares a bin with the next.

    ``level_of[octave, bit]`` is the first at which this bit is dropped; keys of several octaves
    never share a bin.
    """
    cdef Py_ssize_t i, bit
    cdef uint64_t differing
    with nogil:
        for i in range(keys.shape[0] - 1):
            differing = <uint64_t> (keys[i] ^ keys[i + 1])
            if differing >> EXPONENT == 0:
                bit = -1
                while differing:  # the highest
                    differing >>= 1
                    bit += 1
                n_merges[level_of[octave_of(keys[i]), bit] if bit >= 0 else 0] += 1


cdef inline Py_ssize_t find_record(
    int64_t key,
    const int64_t[::1] shifts,
    int32_t[::1] table,
    int64_t[:, ::1] records,
    Py_ssize_t* n_records,
) noexcept nogil:
    """Record of the bin of a key, made if there is none: ``table`` and ``records`` have room."""
    cdef Py_ssize_t mask = table.shape[0] - 1, octave = octave_of(key), place, record
    key = first_of_bin(key, shifts[octave])
    cdef uint64_t mixed = (<uint64_t> key ^ (<uint64_t> key >> 29)) * <uint64_t> 0x9E3779B97F4A7C15
    place = <Py_ssize_t> ((mixed ^ (mixed >> 32)) & <uint64_t> mask)
    while True:
        record = table[place]
        if record < 0:
            break
        if records[record, KEY] == key:
            return record
        place = (place + 1) & mask
    record = n_records[0]
    n_records[0] += 1
    table[place] = <int32_t> record
    records[record, KEY] = key
    for place in range(CELLS, SMALLEST):
        records[record, place] = 0
    for place in range(SMALLEST, N_COLUMNS):
        records[record, place] = NONE_CAME
    return record


cdef inline void add_term(double term, int64_t* high, int64_t* low) noexcept nogil:
    """Add a number, to the nearest 2**-32, to its whole part and the rest."""
    cdef double whole = floor(term)
    high[0] += <int64_t> whole
    low[0] += <int64_t> rint((term - whole) * UNIT)


def add_scores(
    const double[:, ::1] rows,
    const int64_t[::1] class_index,
    const double[::1] weight,
    Py_ssize_t first_row,
    const int64_t[::1] shifts,
    int32_t[::1] table,
    int64_t[:, ::1] records,
    Py_ssize_t n_records,
):
    """Count each cell, and each label, in its bin, until a row may not find room.

    A record has the weight of the cells, that of the labels, the mass, which is weight times
    score, and the weight of the rows whose largest cell it holds: each a whole part and units of
    2**-32, which are not carried (fewer than 2**30 cells at once). And the smallest score, the
    largest one, negated, and the smallest one of a label.
    Bins lack the last ``shifts[octave]`` bits. Returns the row to go on with, and the number of
    records.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], n = n_records
    cdef Py_ssize_t last = records.shape[0] - n_classes, i = first_row, j, r
    cdef int64_t high, low
    cdef double w, top
    cdef Double cell
    with nogil:
        while i < n_rows and n <= last:
            w = weight[i]
            high = low = 0
            add_term(w, &high, &low)
            top = 0.0
            for j in range(n_classes):
                cell.value = in_range(rows[i, j])
                top = max(top, cell.value)
                r = find_record(find_key(cell.value), shifts, table, records, &n)
                records[r, CELLS] += high
                records[r, CELLS + 1] += low
                add_term(w * cell.value, &records[r, MASS], &records[r, MASS + 1])
                records[r, SMALLEST] = min(records[r, SMALLEST], cell.bits)
                records[r, LARGEST] = min(records[r, LARGEST], -cell.bits)
            cell.value = in_range(rows[i, class_index[i]])
            r = find_record(find_key(cell.value), shifts, table, records, &n)
            records[r, LABELS] += high
            records[r, LABELS + 1] += low
            records[r, SMALLEST_LABEL] = min(records[r, SMALLEST_LABEL], cell.bits)
            r = find_record(find_key(top), shifts, table, records, &n)
            records[r, TOPS] += high
            records[r, TOPS + 1] += low
            i += 1
    return i, n


def add_records(
    const int64_t[:, ::1] more,
    const int64_t[::1] shifts,
    int32_t[::1] table,
    int64_t[:, ::1] records,
    Py_ssize_t n_records,
):
    """Add records of bins that are not wider; there is room for all. Returns how many there are."""
    cdef Py_ssize_t n = n_records, i, j, r
    with nogil:
        for i in range(more.shape[0]):
            r = find_record(more[i, KEY], shifts, table, records, &n)
            for j in range(CELLS, SMALLEST):
                records[r, j] += more[i, j]
            for j in range(SMALLEST, N_COLUMNS):
                records[r, j] = min(records[r, j], more[i, j])
    return n


def add_shares(
    const double[:, ::1] rows,
    const int64_t[:, ::1] bits,
    const double[::1] weight,
    const int64_t[::1] edges, const int32_t[::1] table, int shift, int64_t base,
    const double[::1] values,
    double scale,
    int64_t[:, ::1] sums,
    int64_t[::1] logs,
):
    """Add w g / T, the share of a cell in its row, to its segment, and w log T of each row.

    ``sums`` are in whole numbers and units of 2**-32 of ``scale`` times that.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    cdef Py_ssize_t[::1] segment = np.empty(n_classes, dtype=np.intp)
    cdef double[::1] mapped = np.empty(n_classes)
    cdef double total, factor
    with nogil:
        for i in range(n_rows):
            total = 0.0
            for j in range(n_classes):
                segment[j] = find_block(bits[i, j], &edges[0], &table[0], n_buckets, shift, base)
                mapped[j] = values[segment[j]]
                total += mapped[j]
            total = invariant_sum(&mapped[0], n_classes, total)
            add_term(weight[i] * log(total), &logs[0], &logs[1])
            factor = scale * weight[i] / total
            for j in range(n_classes):
                add_term(factor * mapped[j], &sums[segment[j], 0], &sums[segment[j], 1])


def add_prior_shares(
    const double[:, ::1] logits,
    const int64_t[:, ::1] bits,
    const double[::1] weight,
    const int64_t[::1] edges, const int32_t[::1] table, int shift, int64_t base,
    double beta,
    double scale,
    int64_t[:, ::1] sums,
):
    """Add w times the prior probability of a cell, that of ``add_prior``, to its segment."""
    cdef Py_ssize_t n_rows = logits.shape[0], n_classes = logits.shape[1], i, j, segment
    cdef Py_ssize_t n_buckets = table.shape[0] - 1
    cdef double[::1] gaps = np.empty(n_classes), powers = np.empty(n_classes)
    cdef double top, total, factor
    with nogil:
        for i in range(n_rows):
            top = row_top(&logits[i, 0], n_classes)
            for j in range(n_classes):
                gaps[j] = beta * (logits[i, j] - top)
            exponentials(&gaps[0], &powers[0], n_classes)
            total = 0.0
            for j in range(n_classes):
                powers[j] += FLOOR
                total += powers[j]
            total = invariant_sum(&powers[0], n_classes, total)
            factor = scale * weight[i] / total
            for j in range(n_classes):
                segment = find_block(bits[i, j], &edges[0], &table[0], n_buckets, shift, base)
                add_term(factor * powers[j], &sums[segment, 0], &sums[segment, 1])
