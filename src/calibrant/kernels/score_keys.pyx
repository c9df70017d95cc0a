"""Cells of predictions by keys: whole numbers in the order of the probabilities."""

from libc.math cimport floor, rint
from libc.stdint cimport int32_t, int64_t, uint64_t

from calibrant.kernels.metrics cimport HIT, VALUE, WEIGHT


cpdef enum:
    FRACTION = 52

cdef uint64_t HALF = 0x3FE0000000000000  # bits of 1/2


cdef inline uint64_t score_key(double value) noexcept nogil:
    """Whole number that increases with a probability: its bits up to 1/2, those of 1 - p mirrored.

    1 - p is exact there, so the key tells the value; keys without their last bits are intervals
    that are short where the odds are extreme, on both sides.
    """
    cdef double part = value + 0.0 if value <= 0.5 else max(1.0 - value, 0.0)  # no sign of a zero
    cdef uint64_t bits = (<uint64_t*> &part)[0]
    return bits if value <= 0.5 else 2 * HALF - bits


cdef inline double key_score(uint64_t key) noexcept nogil:
    """Probability of a key."""
    cdef uint64_t bits = key if key <= HALF else 2 * HALF - key
    cdef double part = (<double*> &bits)[0]
    return part if key <= HALF else 1.0 - part


def key_scores(const uint64_t[::1] keys, double[::1] values):
    """Write the probability of each key; beyond the largest it is 1."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(keys.shape[0]):
            values[i] = key_score(min(keys[i], 2 * HALF))


def count_keys(
    const double[:, ::1] rows, const int64_t[::1] group, double threshold, int64_t[:, ::1] counts
):
    """Count the cells at or above ``threshold`` of each (group, class)."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(rows.shape[1]):
                counts[group[i], j] += rows[i, j] >= threshold


def take_keys(
    const double[:, ::1] rows,
    const int64_t[::1] class_index,
    const int64_t[::1] group,
    double threshold,
    int64_t[:, ::1] place,
    uint64_t[::1] keys,
    int32_t[::1] row_of,
):
    """Collect keys and rows of the cells at or above ``threshold``; a key ends in label or not.

    ``place[g, j]`` is where the next cell of group g and class j goes; it moves on.
    """
    cdef Py_ssize_t i, j
    cdef int64_t at
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(rows.shape[1]):
                if rows[i, j] >= threshold:
                    at = place[group[i], j]
                    place[group[i], j] = at + 1
                    keys[at] = 2 * score_key(rows[i, j]) + (j == class_index[i])
                    row_of[at] = <int32_t> i


def sort_few(
    uint64_t[::1] keys, int32_t[::1] row_of, const int64_t[::1] starts, Py_ssize_t most
):
    """Sort keys and rows of the problems that have ``most`` cells or fewer."""
    cdef Py_ssize_t c, t, place
    cdef uint64_t own
    cdef int32_t row
    with nogil:
        for c in range(starts.shape[0] - 1):
            if starts[c + 1] - starts[c] > most:
                continue
            for t in range(starts[c] + 1, starts[c + 1]):
                own = keys[t]
                row = row_of[t]
                place = t
                while place > starts[c] and keys[place - 1] > own:
                    keys[place] = keys[place - 1]
                    row_of[place] = row_of[place - 1]
                    place -= 1
                keys[place] = own
                row_of[place] = row


cdef inline void add_exact(int64_t* high, int64_t* low, double term) noexcept nogil:
    """Add a term, to the nearest 2**-52, to ``high + low / 2**52``."""
    cdef double whole = floor(term)
    low[0] += <int64_t> rint((term - whole) * <double> (<int64_t> 1 << FRACTION))
    high[0] += <int64_t> whole + (low[0] >> FRACTION)
    low[0] &= (<int64_t> 1 << FRACTION) - 1


cdef inline void add_sums(
    int64_t* high, int64_t* low, const int64_t* more, const int64_t* rest
) noexcept nogil:
    """Add three sums."""
    cdef Py_ssize_t c
    for c in range(3):
        low[c] += rest[c]
        high[c] += more[c] + (low[c] >> FRACTION)
        low[c] &= (<int64_t> 1 << FRACTION) - 1


def sum_keys(
    const uint64_t[::1] keys,
    const int64_t[::1] starts,
    const int32_t[::1] row_of,
    const double[::1] weight,
    int shift,
    int64_t[::1] problem,
    uint64_t[::1] cell,
    int64_t[:, ::1] high,
    int64_t[:, ::1] low,
):
    """Add up weight, labels and values of sorted keys that agree but for their last bits.

    The keys of problem c are ``starts[c]`` to ``starts[c + 1]``. Writes the problem and the key of
    each cell, and its sums, which were zero; returns how many cells there are.
    """
    cdef Py_ssize_t n = -1, c, t
    cdef uint64_t own
    cdef double w
    with nogil:
        for c in range(starts.shape[0] - 1):
            for t in range(starts[c], starts[c + 1]):
                own = keys[t] >> (shift + 1)
                if t == starts[c] or own != cell[n]:
                    n += 1
                    problem[n] = c
                    cell[n] = own
                w = weight[row_of[t]]
                add_exact(&high[n, WEIGHT], &low[n, WEIGHT], w)
                if keys[t] & 1:
                    add_exact(&high[n, HIT], &low[n, HIT], w)
                add_exact(&high[n, VALUE], &low[n, VALUE], w * key_score(keys[t] >> 1))
    return n + 1


def merge_cells(
    const int64_t[::1] problem_a,
    const uint64_t[::1] key_a,
    const int64_t[:, ::1] high_a,
    const int64_t[:, ::1] low_a,
    int shift_a,
    const int64_t[::1] problem_b,
    const uint64_t[::1] key_b,
    const int64_t[:, ::1] high_b,
    const int64_t[:, ::1] low_b,
    int shift_b,
    int64_t[::1] problem,
    uint64_t[::1] key,
    int64_t[:, ::1] high,
    int64_t[:, ::1] low,
):
    """Merge two tables in the order of (problem, key), whose keys lose some more bits.

    Cells that agree are added up; returns how many are left. What is written to was zero.
    """
    cdef Py_ssize_t a = 0, b = 0, n = -1
    cdef int64_t p
    cdef uint64_t own
    cdef bint is_a
    with nogil:
        while a < key_a.shape[0] or b < key_b.shape[0]:
            if b == key_b.shape[0]:
                is_a = True
            elif a == key_a.shape[0]:
                is_a = False
            elif problem_a[a] != problem_b[b]:
                is_a = problem_a[a] < problem_b[b]
            else:
                is_a = key_a[a] >> shift_a <= key_b[b] >> shift_b
            p = problem_a[a] if is_a else problem_b[b]
            own = key_a[a] >> shift_a if is_a else key_b[b] >> shift_b
            if n < 0 or p != problem[n] or own != key[n]:
                n += 1
                problem[n] = p
                key[n] = own
            if is_a:
                add_sums(&high[n, 0], &low[n, 0], &high_a[a, 0], &low_a[a, 0])
                a += 1
            else:
                add_sums(&high[n, 0], &low[n, 0], &high_b[b, 0], &low_b[b, 0])
                b += 1
    return n + 1


def count_lengths(const uint64_t[::1] keys, const int64_t[::1] problem, int64_t[::1] counts):
    """Count after how many bits less each key equals the one before; 64 in a new problem."""
    cdef Py_ssize_t t, length
    cdef uint64_t differ
    with nogil:
        for t in range(keys.shape[0]):
            if t == 0 or problem[t] != problem[t - 1]:
                length = 64
            else:
                differ = keys[t] ^ keys[t - 1]
                length = 0
                while differ > 0xFFFF:
                    differ >>= 16
                    length += 16
                while differ > 0:
                    differ >>= 1
                    length += 1
            counts[length] += 1
