"""Sums over rows that do not depend on their order, of terms of any size; and such terms."""

import numpy as np

from libc.math cimport INFINITY, exp, fabs, floor, log, rint
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from calibrant.kernels.exponential cimport block_height, exponentials
from calibrant.kernels.rows cimport exponentiate_row, row_top

cdef enum:
    EXPONENTS = 24  # that share a sum


cdef inline void add_term(double term, int64_t* high, int64_t* low) noexcept nogil:
    """Add a finite term to the sum of its exponent, in units of 2**-32 of the smallest there."""
    cdef uint64_t bits
    cdef double scale, scaled, whole
    if term == 0.0:
        return
    memcpy(&bits, &term, 8)
    cdef int64_t group = <int64_t> ((bits >> 52) & 0x7FF) // EXPONENTS
    bits = <uint64_t> (2046 - EXPONENTS * group) << 52  # 2**(1023 - 24 group)
    memcpy(&scale, &bits, 8)
    scaled = term * scale
    whole = floor(scaled)
    high[group] += <int64_t> whole
    low[group] += <int64_t> rint((scaled - whole) * 4294967296.0)


def add_columns(
    const double[:, ::1] terms,
    const double[::1] weight,
    int64_t[:, ::1] high,
    int64_t[:, ::1] low,
):
    """Add the weighted terms of each column to its sums; rows are fewer than 2**30."""
    cdef Py_ssize_t n_rows = terms.shape[0], n_columns = terms.shape[1], i, c
    with nogil:
        for i in range(n_rows):
            for c in range(n_columns):
                add_term(weight[i] * terms[i, c], &high[c, 0], &low[c, 0])


def sum_in_two_words(const double[::1] values, double first, double second, double unit):
    """Sums of values times ``first`` times ``second``, rounded, and of the rest in 1 / ``unit``."""
    cdef Py_ssize_t i
    cdef double scaled, whole
    cdef int64_t high = 0, low = 0
    with nogil:
        for i in range(values.shape[0]):
            scaled = values[i] * first * second
            whole = rint(scaled)
            high += <int64_t> whole
            low += <int64_t> rint((scaled - whole) * unit)
    return high, low


def largest_cells(const double[:, ::1] rows, double[::1] out):
    """Write the size of the largest cell of each row."""
    cdef Py_ssize_t n_rows = rows.shape[0], n_columns = rows.shape[1], i, j
    cdef double largest
    with nogil:
        for i in range(n_rows):
            largest = 0.0
            for j in range(n_columns):
                largest = max(largest, fabs(rows[i, j]))
            out[i] = largest


def temperature_terms(
    const double[:, ::1] logits,
    const int64_t[::1] class_index,
    bint is_relative,
    double beta,
    double zero,
    double[:, ::1] terms,
):
    """Write what each row adds to the sums of temperature scaling at 1/T = beta.

    A cell of -inf is an exact zero, which is mapped to ``zero`` (to nothing, if that is -inf):
    relative to the largest logit of its row where ``is_relative``. With gaps d of the others to
    the largest logit t, and the derivative -t (or 0) of a zero's gap, the terms are: log of the
    sum, mean and variance of the derivatives of the gaps; share s of the zeros, s (1 - s) and its
    derivative; d of the label, or else 1 and the derivative; the variance of all gaps of the row
    as a polynomial in the logit that zeros are read as; the sum of d; the number of zeros, and if
    there are any 1, the derivative and the mean.
    """
    cdef Py_ssize_t n_rows = logits.shape[0], k = logits.shape[1]
    cdef Py_ssize_t height = block_height(k), block, start, stop, i, j, offset
    cdef double[::1] gaps = np.empty(height * k)
    cdef double[::1] e = np.empty(height * k)
    cdef double top, base, gap, term, s0, s1, s2, a1, a2, mass, total, share, mean, n, c1, c2
    with nogil:
        for block in range((n_rows + height - 1) // height):
            start = block * height
            stop = min(start + height, n_rows)
            for i in range(start, stop):
                top = row_top(&logits[i, 0], k)
                offset = (i - start) * k
                for j in range(k):
                    gap = logits[i, j] - top
                    gaps[offset + j] = beta * gap if gap > -INFINITY else 0.0
            exponentials(&gaps[0], &e[0], (stop - start) * k)
            for i in range(start, stop):
                offset = (i - start) * k
                top = row_top(&logits[i, 0], k)
                base = 0.0 if is_relative else -top
                s0 = s1 = s2 = a1 = a2 = 0.0
                n = 0.0
                for j in range(k):
                    gap = logits[i, j] - top
                    if gap == -INFINITY:
                        n += 1.0
                        continue
                    term = e[offset + j]
                    s0 += term
                    term *= gap
                    s1 += term
                    s2 += term * gap
                    a1 += gap
                    a2 += gap * gap
                mass = n * exp(zero + beta * base) if n > 0 else 0.0
                total = s0 + mass
                share = mass / total
                mean = (s1 + mass * base) / total
                terms[i, 0] = log(total)
                terms[i, 1] = mean
                terms[i, 2] = max((s2 + mass * base * base) / total - mean * mean, 0.0)
                terms[i, 3] = share
                terms[i, 4] = share * (1.0 - share)
                terms[i, 5] = share * (mean - base)
                gap = logits[i, class_index[i]] - top
                terms[i, 6] = gap if gap > -INFINITY else 0.0
                terms[i, 7] = 0.0 if gap > -INFINITY else 1.0
                terms[i, 8] = 0.0 if gap > -INFINITY else base
                a1 /= k
                a2 /= k
                n /= k
                c1 = -2.0 * a1 * n
                c2 = n * (1.0 - n)
                terms[i, 9] = max(a2 - a1 * a1, 0.0) + base * (c1 + c2 * base)
                terms[i, 10] = c1 + 2.0 * c2 * base
                terms[i, 11] = c2
                terms[i, 12] = a1
                terms[i, 13] = n
                terms[i, 14] = 1.0 if n > 0.0 else 0.0
                terms[i, 15] = base if n > 0.0 else 0.0
                terms[i, 16] = mean if n > 0.0 else 0.0


def class_terms(
    const double[:, ::1] logits, const int64_t[::1] class_index, double[:, :, ::1] terms
):
    """Write what each row tells of each class, with q its softmax, to ``terms``, class by class.

    That is q, q z, q (1 - q), q (1 - q) z^2 and z of its logit z, whether it is -inf, an exact
    zero, instead; and of the label alone z, or whether it is a zero.
    """
    cdef Py_ssize_t n_rows = logits.shape[0], k = logits.shape[1], i, j
    cdef double[::1] e = np.empty(k)
    cdef double z, q, total
    cdef bint is_zero
    with nogil:
        for i in range(n_rows):
            total = exponentiate_row(&logits[i, 0], k, row_top(&logits[i, 0], k), &e[0])
            for j in range(k):
                z = logits[i, j]
                q = e[j] / total
                is_zero = z == -INFINITY
                z = 0.0 if is_zero else z
                terms[i, j, 0] = q
                terms[i, j, 1] = q * z
                terms[i, j, 2] = q * (1.0 - q)
                terms[i, j, 3] = q * (1.0 - q) * z * z
                terms[i, j, 4] = z
                terms[i, j, 5] = 1.0 if is_zero else 0.0
                terms[i, j, 6] = 0.0
                terms[i, j, 7] = 0.0
            j = class_index[i]
            terms[i, j, 6] = terms[i, j, 4]
            terms[i, j, 7] = terms[i, j, 5]


def affine_terms(
    const double[:, ::1] logits,
    const int64_t[::1] class_index,
    const double[::1] slope,
    const double[::1] intercept,
    double[:, ::1] terms,
    double[:, ::1] q,
):
    """Write the NLL of softmax(slope * z + intercept), its gradient and the softmax of each row."""
    cdef Py_ssize_t n_rows = logits.shape[0], k = logits.shape[1]
    cdef Py_ssize_t height = block_height(k), block, start, stop, i, j, offset, label
    cdef double[::1] gaps = np.empty(height * k)
    cdef double[::1] e = np.empty(height * k)
    cdef double top, total, residual
    with nogil:
        for block in range((n_rows + height - 1) // height):
            start = block * height
            stop = min(start + height, n_rows)
            for i in range(start, stop):
                offset = (i - start) * k
                for j in range(k):
                    gaps[offset + j] = slope[j] * logits[i, j] + intercept[j]
                top = row_top(&gaps[offset], k)
                for j in range(k):
                    gaps[offset + j] -= top
            exponentials(&gaps[0], &e[0], (stop - start) * k)
            for i in range(start, stop):
                offset = (i - start) * k
                label = class_index[i]
                total = 0.0
                for j in range(k):
                    total += e[offset + j]
                terms[i, 0] = log(total) - gaps[offset + label]
                for j in range(k):
                    q[i, j] = e[offset + j] / total
                    residual = q[i, j] - (1.0 if j == label else 0.0)
                    terms[i, 1 + j] = residual * logits[i, j]
                    terms[i, 1 + k + j] = residual


def structured_terms(
    const double[:, ::1] mapped,
    const double[:, ::1] logits,
    const double[:, ::1] features,
    const int64_t[::1] class_index,
    double[:, ::1] terms,
    double[:, ::1] q,
):
    """Write the softmax q of each row of ``mapped``, and what it says of the common parameters.

    That is the NLL; the gradient in the factor of the logits z; and under q the variance of z, the
    covariance of z and the features x, and the variance of x.
    """
    cdef Py_ssize_t n_rows = mapped.shape[0], k = mapped.shape[1], i, j
    cdef double top, total, own, p, z, x, mz, mx, zz, zx, xx
    with nogil:
        for i in range(n_rows):
            top = row_top(&mapped[i, 0], k)
            own = mapped[i, class_index[i]] - top
            total = exponentiate_row(&mapped[i, 0], k, top, &q[i, 0])
            mz = mx = zz = zx = xx = 0.0
            for j in range(k):
                p = q[i, j] / total
                q[i, j] = p
                z = logits[i, j]
                x = features[i, j]
                mz += p * z
                mx += p * x
                zz += p * z * z
                zx += p * z * x
                xx += p * x * x
            terms[i, 0] = log(total) - own
            terms[i, 1] = mz - logits[i, class_index[i]]
            terms[i, 2] = max(zz - mz * mz, 0.0)
            terms[i, 3] = zx - mz * mx
            terms[i, 4] = max(xx - mx * mx, 0.0)
