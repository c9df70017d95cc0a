"""What a mixture gains over a baseline, and how much that would vary if the baseline were true."""

import math

from calibrant.numba_kernels.jit import kernel

FLOOR = 1e-12


@kernel
def add_gains(baseline, mixture, class_index, weight, shares, gains, variances):
    """Add each share's log-likelihood gain in its rows, and its variance under the baseline."""
    n_rows, n_classes = baseline.shape
    for s in range(len(shares)):
        share = shares[s]
        for i in range(n_rows):
            mean, square = 0.0, 0.0
            for j in range(n_classes):
                p = max(baseline[i, j], FLOOR)
                gain = math.log1p(share * (max(mixture[i, j], FLOOR) / p - 1.0))
                mean += p * gain
                square += p * gain * gain
                if j == class_index[i]:
                    gains[s] += weight[i] * gain
            variances[s] += weight[i] * (square - mean * mean)
