"""Pool adjacent violators, on sums instead of means."""

from __future__ import annotations

import numpy as np

from calibrant.numba_kernels.jit import kernel


@kernel
def pool_adjacent_violators(numerator, weight):
    """Isotonic regression of ``numerator / weight`` with weights ``weight`` (all positive).

    Returns the start of each block and its two sums; the fitted value is their ratio, strictly
    increasing from block to block. scipy's ``isotonic_regression`` keeps running means, which
    round; sums of whole numbers do not, and cross-multiplied they compare exactly. Each step
    back removes a block for good, so the pass is linear.
    """
    n = numerator.shape[0]
    start = np.empty(n, dtype=np.int64)
    top = np.empty(n, dtype=np.float64)
    bottom = np.empty(n, dtype=np.float64)
    last = -1
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
    return start[: last + 1].copy(), top[: last + 1].copy(), bottom[: last + 1].copy()
