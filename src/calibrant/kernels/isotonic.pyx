"""Isotonic regression on a line, by pooling adjacent violators."""

import numpy as np

from libc.stdint cimport int64_t


def pool_adjacent_violators(const double[::1] numerator, const double[::1] weight):
    """Isotonic regression of ``numerator / weight`` with weights ``weight`` (all positive).

    Returns the start of each block and its two sums; the fitted value is their ratio, strictly
    increasing from block to block. scipy's ``isotonic_regression`` keeps running means, which
    round; sums of whole numbers do not, and cross-multiplied they compare exactly. Each step
    back removes a block for good, so the pass is linear.
    """
    cdef Py_ssize_t n = numerator.shape[0], i, last = -1
    starts, tops, bottoms = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    cdef int64_t[::1] start = starts
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
