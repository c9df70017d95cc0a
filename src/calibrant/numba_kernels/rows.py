"""One pass over rows of scores: find what is wrong, put rows on the simplex."""

from __future__ import annotations

import math

import numpy as np

from calibrant.numba_kernels.jit import kernel

# Codes of ``scan_probabilities`` and ``scan_logits``.
FINE = 0
NOT_FINITE = 1
OUT_OF_RANGE = 2
BAD_SUM = 3
NO_MASS = 4

GAP_STEPS = 65_537.0
GAP_OFFSET = 0.36787944
GAP_OF_ZERO = -1
GAP_NOISE = 2.0**-40
"""Logarithms that differ by less than this part of themselves are equal up to rounding."""

SMALLEST_NORMAL = 2.2250738585072014e-308


@kernel
def rounding_of(row):
    """How far k numbers that were rounded to d decimals may be from a sum of one; 0 if none were.

    Not more than a hundredth: a row that misses more lost a class, or was never a distribution.
    """
    unit = 100.0
    for _ in range(2, 7):
        is_rounded = True
        for j in range(row.shape[0]):
            scaled = row[j] * unit
            if abs(scaled - math.floor(scaled + 0.5)) > 1e-3:  # float32 has a few digits only
                is_rounded = False
                break
        if is_rounded:
            return min(0.5 * row.shape[0] / unit, 0.01) + 1e-6
        unit *= 10.0
    return 0.0


@kernel
def scan_probabilities(rows, clip_tolerance, sum_tolerance):
    """Find the first bad cell, and how many rows are not yet exactly on the simplex.

    Returns (code, row, column, value, number of rows to repair).
    """
    n_rows, n_classes = rows.shape
    rounding = 8 * 2.220446049250313e-16 * math.sqrt(n_classes)
    n_repairs = 0
    for i in range(n_rows):
        total = 0.0
        clipped = False
        for j in range(n_classes):
            value = rows[i, j]
            if not math.isfinite(value):
                return NOT_FINITE, i, j, value, n_repairs
            if value < -clip_tolerance or value > 1.0 + clip_tolerance:
                return OUT_OF_RANGE, i, j, value, n_repairs
            if value < 0.0 or (value == 0.0 and math.copysign(1.0, value) < 0.0):
                value = 0.0
                clipped = True
            elif value > 1.0:
                value = 1.0
                clipped = True
            total += value
        if total == 0.0:
            return NO_MASS, i, 0, total, n_repairs
        gap = abs(total - 1.0) - rounding
        if gap > sum_tolerance and gap > rounding_of(rows[i]):
            return BAD_SUM, i, 0, total, n_repairs
        # Half the bound, so that the choice below never depends on the order of the columns.
        if clipped or abs(total - 1.0) > 0.5 * rounding:
            n_repairs += 1
    return FINE, 0, 0, 0.0, n_repairs


@kernel
def scan_masses(rows, clip_tolerance):
    """As ``scan_probabilities``, for rows of any positive sum that will be normalised."""
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        total = 0.0
        for j in range(n_classes):
            value = rows[i, j]
            if not math.isfinite(value):
                return NOT_FINITE, i, j, value
            if value < -clip_tolerance:
                return OUT_OF_RANGE, i, j, value
            total += max(value, 0.0)
        if total == 0.0:
            return NO_MASS, i, 0, total
        if not math.isfinite(total):
            return NOT_FINITE, i, 0, total
    return FINE, 0, 0, 0.0


@kernel
def scan_logits(rows, largest):
    """Find the first bad cell: -inf is probability zero, if something in the row is finite."""
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        any_finite = False
        for j in range(n_classes):
            value = rows[i, j]
            if math.isnan(value) or value == np.inf:
                return NOT_FINITE, i, j, value
            if abs(value) > largest and value != -np.inf:
                return OUT_OF_RANGE, i, j, value
            if value != -np.inf:
                any_finite = True
        if not any_finite:
            return NO_MASS, i, 0, -np.inf
    return FINE, 0, 0, 0.0


@kernel
def invariant_sum(row, total):
    """Sum of non-negative numbers that does not depend on their order.

    Integer addition is associative: the terms are added as 61-bit fixed-point numbers, scaled by
    ``total``, any estimate of the sum. The error is below ``len(row) * 2**-60`` of it.
    """
    shift = 61 - math.frexp(1.5 * total)[1]
    scale = math.ldexp(1.0, min(shift, 1000))
    rest = math.ldexp(1.0, shift - min(shift, 1000))  # for sums of subnormals
    fixed = np.int64(0)
    for j in range(row.shape[0]):
        fixed += np.int64(row[j] * scale * rest)
    return fixed / scale / rest


@kernel
def divide_by_sums(mapped, rows):
    """Divide each mapped row by its sum; one of zeros becomes the row that it came from.

    All of a row lies below what was ever seen then, so nothing is known of it.
    """
    n_rows, n_classes = mapped.shape
    for i in range(n_rows):
        total = 0.0
        for j in range(n_classes):
            total += mapped[i, j]
        if total > 0.0:
            total = invariant_sum(mapped[i], total)
            for j in range(n_classes):
                mapped[i, j] /= total
        else:
            for j in range(n_classes):
                mapped[i, j] = rows[i, j]


@kernel
def normalise_rows(rows, out):
    """Clip each row to [0, inf) and divide it by its sum, unless it is on the simplex."""
    n_rows, n_classes = rows.shape
    rounding = 8 * 2.220446049250313e-16 * math.sqrt(n_classes)
    for i in range(n_rows):
        total = 0.0
        for j in range(n_classes):
            value = rows[i, j]
            if not value > 0.0:  # also -0.0
                value = 0.0
            out[i, j] = value
            total += value
        total = invariant_sum(out[i], total)
        if abs(total - 1.0) > rounding:
            for j in range(n_classes):
                out[i, j] /= total


@kernel
def row_top(rows, i):
    """Largest cell of row ``i``."""
    top = rows[i, 0]
    for j in range(1, rows.shape[1]):
        top = max(top, rows[i, j])
    return top


@kernel
def exponentiate_row(rows, i, top, out):
    """Write exp(cell - ``top``) of row ``i`` to ``out``, maybe ``rows``; return their sum."""
    total = 0.0
    for j in range(rows.shape[1]):
        value = math.exp(rows[i, j] - top)
        out[i, j] = value
        total += value
    return total


@kernel
def softmax_rows(logits, out):
    """Softmax of each row, by a sum that does not depend on the order of the columns."""
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        total = exponentiate_row(logits, i, row_top(logits, i), out)
        total = invariant_sum(out[i], total)
        for j in range(n_classes):
            out[i, j] /= total


@kernel
def floor_rows(out, floor):
    """Lift rows with a value below ``floor``: mix in the uniform row, which keeps the order."""
    n_rows, n_classes = out.shape
    slope = 1.0 - n_classes * floor
    for i in range(n_rows):
        low = out[i, 0]
        for j in range(1, n_classes):
            low = min(low, out[i, j])
        if low < floor:
            for j in range(n_classes):
                out[i, j] = floor + slope * out[i, j]


@kernel
def top_columns(probabilities, scores, out):
    """Write the column of each row's largest probability to ``out``.

    Of those that are equal up to rounding it is the one of the largest score, then the first.
    """
    n_rows, n_classes = probabilities.shape
    for i in range(n_rows):
        top = row_top(probabilities, i) * (1.0 - 16 * 2.220446049250313e-16)
        best = -1
        for j in range(n_classes):
            if probabilities[i, j] >= top and (best < 0 or scores[i, j] > scores[i, best]):
                best = j
        out[i] = best


@kernel
def log_rows(probabilities, zero_logit, out):
    """Logarithm of probabilities, bounded below by ``zero_logit``."""
    n_rows, n_classes = probabilities.shape
    smallest = math.exp(zero_logit)
    for i in range(n_rows):
        for j in range(n_classes):
            value = probabilities[i, j]
            out[i, j] = math.log(value) if value > smallest else zero_logit


@kernel
def bound_logits(logits, zero_logit, out):
    """Logits bounded below by their row's largest plus ``zero_logit``."""
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        top = row_top(logits, i)
        for j in range(n_classes):
            out[i, j] = max(logits[i, j], top + zero_logit)


@kernel
def smallest_positive(probabilities):
    """Return the smallest cell above zero, or 1 if there is none."""
    smallest = 1.0
    n_rows, n_classes = probabilities.shape
    for i in range(n_rows):
        for j in range(n_classes):
            value = probabilities[i, j]
            if 0.0 < value < smallest:
                smallest = value
    return smallest


@kernel
def deepest_logit(logits):
    """Return the lowest finite logit relative to the largest of its row (at most 0)."""
    deepest = 0.0
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        top = row_top(logits, i)
        for j in range(n_classes):
            if logits[i, j] != -np.inf and logits[i, j] - top < deepest:
                deepest = logits[i, j] - top
    return deepest


@kernel
def mix(state):
    """Scramble 64 bits (the finaliser of splitmix64)."""
    state += np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@kernel
def plain_zero(bits):
    """Bits of a double, with those of -0.0 replaced by those of 0.0."""
    return np.uint64(0) if bits == -9223372036854775808 else np.uint64(bits)


@kernel
def row_hashes(scores_bits, class_index):
    """Hash of each row and its label, to put rows in an order of their own."""
    n_rows, n_classes = scores_bits.shape
    out = np.empty(n_rows, dtype=np.uint64)
    for i in range(n_rows):
        state = mix(np.uint64(class_index[i]))
        for j in range(n_classes):
            state = mix(state ^ plain_zero(scores_bits[i, j]))
        out[i] = state
    return out


@kernel
def symmetric_hashes(bits, class_index):
    """Hash of each row and its label that does not depend on the order of the columns."""
    n_rows, n_columns = bits.shape
    out = np.empty(n_rows, dtype=np.uint64)
    for i in range(n_rows):
        state = np.uint64(0)
        for j in range(n_columns):
            state += mix(plain_zero(bits[i, j]))
        own = mix(plain_zero(bits[i, class_index[i]]))
        out[i] = mix(state ^ mix(own))
    return out


@kernel
def round_gaps(scores, is_logits, codes):
    """Write each cell's gap to the largest of its row, in logarithms, as a rounded number.

    Gaps are measured by the deepest of the row, whose own size is rounded in the last column; so
    the scale of logits does not matter. Zeros, and what is too small to have all its digits, are
    ``GAP_OF_ZERO``. The offset keeps gaps that are simple fractions away from where rounding
    jumps.
    """
    n_rows, n_classes = scores.shape
    logs = np.empty(n_classes)
    for i in range(n_rows):
        top = -np.inf
        low = np.inf
        for j in range(n_classes):
            value = scores[i, j]
            if not is_logits:
                value = math.log(value) if value >= SMALLEST_NORMAL else -np.inf
            logs[j] = value
            top = max(top, value)
            if value > -np.inf:
                low = min(low, value)
        deepest = top - low
        if deepest <= max(abs(top), abs(low)) * GAP_NOISE:  # rounding: all are equal
            deepest = 0.0
        for j in range(n_classes):
            if logs[j] == -np.inf:
                codes[i, j] = GAP_OF_ZERO
            elif deepest == 0.0:
                codes[i, j] = 0
            else:
                codes[i, j] = math.floor((top - logs[j]) / deepest * GAP_STEPS + GAP_OFFSET)
        size = math.floor(math.log2(deepest) * 1024.0 + GAP_OFFSET) if deepest > 0.0 else 0
        codes[i, n_classes] = size
