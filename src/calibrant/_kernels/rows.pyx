"""One pass over rows of scores: find what is wrong, put rows on the simplex."""

import numpy as np

from libc.float cimport DBL_EPSILON, DBL_MIN
from libc.math cimport INFINITY, copysign, exp, floor, isfinite, log, log2, sqrt
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint64_t

from calibrant._kernels.elementary cimport exponentials, logarithm
from calibrant._kernels.lock cimport keep_lock


# Codes of ``scan_probabilities`` and ``scan_range``.
cpdef enum:
    FINE = 0
    NOT_FINITE = 1
    OUT_OF_RANGE = 2
    BAD_SUM = 3
    NO_MASS = 4

cdef enum:
    GAP_OF_ZERO = -1

GAP_OFFSET = 0.36787944
cdef double GAP_STEPS = 65_537.0
cdef double GAP_NOISE = 2.0**-40  # logarithms that differ by less of themselves are equal

ctypedef fused whole:
    int32_t
    int64_t


cdef inline double rounding_of(const double* row, Py_ssize_t n) noexcept nogil:
    """How far k numbers that were rounded to d decimals may be from a sum of one; 0 if none were.

    Not more than a hundredth: a row that misses more lost a class, or was never a distribution.
    """
    cdef Py_ssize_t j
    cdef int decimals
    cdef bint is_rounded
    cdef double scaled, unit = 100.0
    for decimals in range(2, 7):
        is_rounded = True
        for j in range(n):
            scaled = row[j] * unit
            if abs(scaled - floor(scaled + 0.5)) > 1e-3:  # float32 has a few digits only
                is_rounded = False
                break
        if is_rounded:
            return min(0.5 * n / unit, 0.01) + 1e-6
        unit *= 10.0
    return 0.0


def scan_probabilities(const double[:, ::1] rows, double clip_tolerance, double sum_tolerance):
    """Find the first bad cell, and how many rows are not yet exactly on the simplex.

    Returns (code, row, column, value, number of rows to repair).
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], n_repairs = 0, i, j
    cdef double rounding = 8 * DBL_EPSILON * sqrt(n_classes)
    cdef double value, total, gap
    cdef bint clipped, is_fine
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            clipped = False
            is_fine = is_positive(&rows[i, 0], n_classes, &total)
            total = total if is_fine else 0.0
            for j in range(0 if is_fine else n_classes):
                value = rows[i, j]
                if not isfinite(value):
                    with gil:
                        return NOT_FINITE, i, j, value, n_repairs
                if value < -clip_tolerance or value > 1.0 + clip_tolerance:
                    with gil:
                        return OUT_OF_RANGE, i, j, value, n_repairs
                if value < 0.0 or (value == 0.0 and copysign(1.0, value) < 0.0):
                    value = 0.0
                    clipped = True
                elif value > 1.0:
                    value = 1.0
                    clipped = True
                total += value
            if total == 0.0:
                with gil:
                    return NO_MASS, i, 0, total, n_repairs
            gap = abs(total - 1.0) - rounding
            if gap > sum_tolerance and gap > rounding_of(&rows[i, 0], n_classes):
                with gil:
                    return BAD_SUM, i, 0, total, n_repairs
            # Half the bound, so that the choice below never depends on the order of the columns.
            if clipped or abs(total - 1.0) > 0.5 * rounding:
                n_repairs += 1
    return FINE, 0, 0, 0.0, n_repairs


def scan_range(const double[:, ::1] rows, double low, double high, bint is_logits):
    """Find the first cell outside of a range, or row without any mass: (code, row, column, value).

    Of logits, -inf is probability zero; other rows have any positive sum, and will be normalised.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j
    cdef double value, total
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            total = 0.0
            for j in range(n_classes):
                value = rows[i, j]
                if is_logits and value == -INFINITY:
                    continue
                if not isfinite(value):
                    with gil:
                        return NOT_FINITE, i, j, value
                if value < low or value > high:
                    with gil:
                        return OUT_OF_RANGE, i, j, value
                total += 1.0 if is_logits else max(value, 0.0)
            if total == 0.0:
                with gil:
                    return NO_MASS, i, 0, -INFINITY if is_logits else 0.0
            if not isfinite(total):
                with gil:
                    return NOT_FINITE, i, 0, total
    return FINE, 0, 0, 0.0


def divide_by_sums(double[:, ::1] mapped, const double[:, ::1] rows):
    """Divide each mapped row by its sum; one of zeros becomes the row that it came from."""
    cdef Py_ssize_t n_rows = mapped.shape[0], n_classes = mapped.shape[1], i
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            divide_by_sum(&mapped[i, 0], &rows[i, 0], n_classes)


def normalise_rows(const double[:, ::1] rows, double[:, ::1] out):
    """Clip each row to [0, inf) and divide it by its sum, unless it is on the simplex."""
    cdef Py_ssize_t n_rows = rows.shape[0], n_classes = rows.shape[1], i, j
    cdef double rounding = 8 * DBL_EPSILON * sqrt(n_classes)
    cdef double value, total
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            total = 0.0
            for j in range(n_classes):
                value = rows[i, j]
                if not value > 0.0:  # also -0.0
                    value = 0.0
                out[i, j] = value
                total += value
            total = invariant_sum(&out[i, 0], n_classes, total)
            if abs(total - 1.0) > rounding:
                for j in range(n_classes):
                    out[i, j] /= total


def softmax_rows(const double[:, ::1] logits, double[:, ::1] out):
    """Softmax of each row, by a sum that does not depend on the order of the columns."""
    cdef Py_ssize_t n_rows = logits.shape[0], n_classes = logits.shape[1], i, j
    cdef double top, total
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            top = row_top(&logits[i, 0], n_classes)
            total = exponentiate_row(&logits[i, 0], n_classes, top, &out[i, 0])
            total = invariant_sum(&out[i, 0], n_classes, total)
            for j in range(n_classes):
                out[i, j] /= total


def first_top_columns(const double[:, ::1] scores, Py_ssize_t[::1] out):
    """Write the column of each row's largest score to ``out``, the first of equal ones."""
    cdef Py_ssize_t n_rows = scores.shape[0], i
    keep_lock(n_rows * scores.shape[1])
    with nogil:
        for i in range(n_rows):
            out[i] = top_column(&scores[i, 0], scores.shape[1])


def top_columns(
    const double[:, ::1] probabilities, const double[:, ::1] scores, Py_ssize_t[::1] out
):
    """Write the column of each row's largest probability to ``out``.

    Of those that are equal up to rounding it is the one of the largest score, then the first.
    """
    cdef Py_ssize_t n_rows = probabilities.shape[0], n_classes = probabilities.shape[1], i, j, best
    cdef double top
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            top = row_top(&probabilities[i, 0], n_classes) * (1.0 - 16 * DBL_EPSILON)
            best = -1
            for j in range(n_classes):
                if probabilities[i, j] >= top and (best < 0 or scores[i, j] > scores[i, best]):
                    best = j
            out[i] = best


def log_rows(const double[:, ::1] probabilities, double zero_logit, double[:, ::1] out):
    """Logarithm of probabilities, bounded below by ``zero_logit``."""
    cdef Py_ssize_t n_rows = probabilities.shape[0], n_classes = probabilities.shape[1], i, j
    cdef double found, smallest = exp(zero_logit)
    cdef const double* row
    cdef double* logs
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            row = &probabilities[i, 0]
            logs = &out[i, 0]
            for j in range(n_classes):
                found = logarithm(row[j] if row[j] > smallest else 1.0)
                logs[j] = found if row[j] > smallest else zero_logit


def bound_logits(const double[:, ::1] logits, double zero_logit, double[:, ::1] out):
    """Logits bounded below by their row's largest plus ``zero_logit``."""
    cdef Py_ssize_t n_rows = logits.shape[0], n_classes = logits.shape[1], i, j
    cdef double lowest
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            lowest = row_top(&logits[i, 0], n_classes) + zero_logit
            for j in range(n_classes):
                out[i, j] = max(logits[i, j], lowest)


def bounded_logs(const double[:, ::1] logits, double bound, double[:, ::1] out):
    """Write log(softmax + bound) of each row, less its mean, to ``out``."""
    cdef Py_ssize_t n_rows = logits.shape[0], n_classes = logits.shape[1], i, j
    cdef double top, total, mean
    cdef const double* row
    cdef double* logs
    keep_lock(n_rows * n_classes)
    with nogil:
        for i in range(n_rows):
            row = &logits[i, 0]
            logs = &out[i, 0]
            top = row_top(row, n_classes)
            for j in range(n_classes):
                logs[j] = row[j] - top
            if bound > 0.0:
                exponentials(logs, logs, n_classes)
                total = reproducible_sum(logs, n_classes)
                for j in range(n_classes):
                    logs[j] = logarithm(logs[j] / total + bound)
            total = 0.0
            for j in range(n_classes):
                total += logs[j]
            mean = total / n_classes
            for j in range(n_classes):
                logs[j] -= mean


def lowest_score(const double[:, ::1] scores, bint is_logits):
    """Return the smallest cell above zero, at most 1; of logits, relative to the row's largest."""
    cdef Py_ssize_t n_rows = scores.shape[0], n_classes = scores.shape[1], i, j
    cdef double value, top = 0.0, lowest = 0.0 if is_logits else 1.0
    cdef double nothing = -INFINITY if is_logits else 0.0
    with nogil:
        for i in range(n_rows):
            if is_logits:
                top = row_top(&scores[i, 0], n_classes)
            for j in range(n_classes):
                value = scores[i, j]
                lowest = min(lowest, value - top if value > nothing else lowest)
    return lowest


cdef inline uint64_t mix(uint64_t state) noexcept nogil:
    """Scramble 64 bits (the finaliser of splitmix64)."""
    state += <uint64_t> 0x9E3779B97F4A7C15
    state = (state ^ (state >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    state = (state ^ (state >> 27)) * <uint64_t> 0x94D049BB133111EB
    return state ^ (state >> 31)


cdef inline uint64_t plain_zero(int64_t bits) noexcept nogil:
    """Bits of a double, with those of -0.0 replaced by those of 0.0."""
    return 0 if bits == INT64_MIN else <uint64_t> bits


def row_hashes(const int64_t[:, ::1] scores_bits, const Py_ssize_t[::1] class_index):
    """Hash of each row and its label, to put rows in an order of their own."""
    cdef Py_ssize_t n_rows = scores_bits.shape[0], n_classes = scores_bits.shape[1], i, j
    cdef uint64_t[::1] hashes = np.empty(n_rows, dtype=np.uint64)
    cdef uint64_t state
    with nogil:
        for i in range(n_rows):
            state = mix(<uint64_t> class_index[i])
            for j in range(n_classes):
                state = mix(state ^ plain_zero(scores_bits[i, j]))
            hashes[i] = state
    return np.asarray(hashes)


def symmetric_hashes(const whole[:, ::1] bits, const Py_ssize_t[::1] class_index):
    """Hash of each row and its label that does not depend on the order of the columns."""
    cdef Py_ssize_t n_rows = bits.shape[0], n_columns = bits.shape[1], i, j
    cdef uint64_t[::1] hashes = np.empty(n_rows, dtype=np.uint64)
    cdef uint64_t state, own
    with nogil:
        for i in range(n_rows):
            state = 0
            for j in range(n_columns):
                state += mix(plain_zero(bits[i, j]))
            own = mix(plain_zero(bits[i, class_index[i]]))
            hashes[i] = mix(state ^ mix(own))
    return np.asarray(hashes)


def round_gaps(const double[:, ::1] scores, bint is_logits, int32_t[:, ::1] codes):
    """Write each cell's gap to the largest of its row, in logarithms, as a rounded number.

    Gaps are measured by the deepest of the row, whose own size is rounded in the last column; so
    the scale of logits does not matter. Zeros, and what is too small to have all its digits, are
    ``GAP_OF_ZERO``. The offset keeps gaps that are simple fractions away from where rounding
    jumps.
    """
    cdef Py_ssize_t n_rows = scores.shape[0], n_classes = scores.shape[1], i, j
    cdef double[::1] logs = np.empty(n_classes)
    cdef double value, top, low, deepest, offset = GAP_OFFSET
    with nogil:
        for i in range(n_rows):
            top = -INFINITY
            low = INFINITY
            for j in range(n_classes):
                value = scores[i, j]
                if not is_logits:
                    value = log(value) if value >= DBL_MIN else -INFINITY
                logs[j] = value
                top = max(top, value)
                low = min(low, value if value > -INFINITY else INFINITY)
            deepest = top - low
            if deepest <= max(abs(top), abs(low)) * GAP_NOISE:  # rounding: all are equal
                deepest = 0.0
            for j in range(n_classes):
                if logs[j] == -INFINITY:
                    codes[i, j] = GAP_OF_ZERO
                elif deepest == 0.0:
                    codes[i, j] = 0
                else:
                    codes[i, j] = <int32_t> ((top - logs[j]) / deepest * GAP_STEPS + offset)
            codes[i, n_classes] = 0
            if deepest > 0.0:
                codes[i, n_classes] = <int32_t> floor(log2(deepest) * 1024.0 + offset)
