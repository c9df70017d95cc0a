"""A piecewise linear function of log p through the softmax: likelihood, gradient, Hessian.

theta(v) = sum_b s_b f_b(v) with f_0(v) = min(v - t_0, 0) below the first knot t_0 and, above it,
f_b(v) = min(max(v - t_{b-1}, 0), t_b - t_{b-1}) between two neighbouring knots (the last is
unbounded). A cell between two knots has f = length in every segment between it and the first knot,
its own offset in its own segment, and 0 beyond; so sums over the cells of a segment are enough for
all first and second moments, and a row costs O(k + segments^2).
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.kernels.exponential import exponentials
from calibrant.kernels.jit import kernel

BLOCK = 2048  # cells worked on at once


@kernel
def find_segments(values, knots, out):
    """Write the number of knots at or below each value."""
    n_rows, n_classes = values.shape
    n_knots = knots.shape[0]
    for i in range(n_rows):
        for j in range(n_classes):
            value = values[i, j]
            segment = 0
            for b in range(n_knots):
                segment += value >= knots[b]
            out[i, j] = segment


@kernel
def spline_table(knots, slopes, origin, base):
    """Write theta(v) = base[b] + slopes[b] * (v - origin[b]) in segment b."""
    n_knots = knots.shape[0]
    origin[0] = knots[0]
    base[0] = 0.0
    total = 0.0
    for b in range(1, n_knots + 1):
        origin[b] = knots[b - 1]
        base[b] = total
        if b < n_knots:
            total += slopes[b] * (knots[b] - knots[b - 1])


@kernel
def block_exponentials(values, segments, start, stop, origin, base, slopes, gaps, e, bits, powers):
    """exp(theta - largest of the row) of rows ``start`` to ``stop``; gaps are the exponents."""
    n_classes = values.shape[1]
    for i in range(start, stop):
        offset = (i - start) * n_classes
        top = -np.inf
        for j in range(n_classes):
            b = segments[i, j]
            theta = base[b] + slopes[b] * (values[i, j] - origin[b])
            gaps[offset + j] = theta
            top = max(top, theta)
        for j in range(n_classes):
            gaps[offset + j] -= top
    exponentials(gaps[: (stop - start) * n_classes], e, bits, powers)


@kernel
def spline_losses(values, segments, class_index, knots, slopes, loss):
    """Write the NLL of each row to ``loss``."""
    n_rows, n_classes = values.shape
    n_segments = slopes.shape[0]
    origin = np.empty(n_segments)
    base = np.empty(n_segments)
    spline_table(knots, slopes, origin, base)
    height = max(1, BLOCK // n_classes)
    gaps = np.empty(height * n_classes)
    e = np.empty(height * n_classes)
    bits = np.empty(height * n_classes, dtype=np.int64)
    powers = bits.view(np.float64)
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        block_exponentials(
            values, segments, start, stop, origin, base, slopes, gaps, e, bits, powers
        )
        for i in range(start, stop):
            offset = (i - start) * n_classes
            total = 0.0
            for c in range(offset, offset + n_classes):
                total += e[c]
            loss[i] = math.log(total) - gaps[offset + class_index[i]]


@kernel
def spline_likelihood(values, segments, class_index, share, knots, slopes, gradient, hessian):
    """NLL with its gradient and Hessian in the slopes; the label's part of the gradient is left out.

    The label's part, -sum_i share_i f(v_iy), does not depend on the slopes.
    """
    n_rows, n_classes = values.shape
    n_segments = slopes.shape[0]
    origin = np.empty(n_segments)
    base = np.empty(n_segments)
    spline_table(knots, slopes, origin, base)
    height = max(1, BLOCK // n_classes)
    gaps = np.empty(height * n_classes)
    e = np.empty(height * n_classes)
    bits = np.empty(height * n_classes, dtype=np.int64)
    powers = bits.view(np.float64)
    sums = np.empty((n_segments, 3))
    mean = np.empty(n_segments)
    squares = np.zeros(n_segments)
    loss = 0.0
    gradient[:] = 0.0
    hessian[:] = 0.0
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        block_exponentials(
            values, segments, start, stop, origin, base, slopes, gaps, e, bits, powers
        )
        for i in range(start, stop):
            offset = (i - start) * n_classes
            sums[:] = 0.0
            for j in range(n_classes):
                b = segments[i, j]
                gap = values[i, j] - origin[b]
                power = e[offset + j]
                sums[b, 0] += power
                sums[b, 1] += power * gap
                sums[b, 2] += power * gap * gap
            total = 0.0
            for b in range(n_segments):
                total += sums[b, 0]
            loss += share[i] * (math.log(total) - gaps[offset + class_index[i]])
            add_row(sums, total, share[i], knots, mean, squares, gradient, hessian)
    add_second_moments(knots, squares, gradient, hessian)
    return loss


@kernel
def add_row(sums, total, share, knots, mean, squares, gradient, hessian):
    """Add one row's mean features, their squares, and minus the products of the means."""
    n_segments = mean.shape[0]
    above = 0.0
    for b in range(n_segments - 1, -1, -1):
        length = knots[b] - knots[b - 1] if 0 < b < n_segments - 1 else 0.0
        mean[b] = (sums[b, 1] + length * above) / total
        squares[b] += share * (sums[b, 2] + length * length * above) / total
        gradient[b] += share * mean[b]
        above += sums[b, 0]
    for a in range(n_segments):
        factor = share * mean[a]
        for b in range(a + 1):
            hessian[a, b] -= factor * mean[b]


@kernel
def add_second_moments(knots, squares, gradient, hessian):
    """Add E[f f'] to the lower triangle of the Hessian, and fill the upper one."""
    n_segments = squares.shape[0]
    for a in range(n_segments):
        hessian[a, a] += squares[a]
        for b in range(1, a):  # f_b is full wherever f_a is not 0; f_0 is 0 there
            hessian[a, b] += (knots[b] - knots[b - 1]) * gradient[a]
        for b in range(a):
            hessian[b, a] = hessian[a, b]


@kernel
def spline_softmax(values, knots, slopes, out):
    """Write softmax(theta(values)) of each row to ``out``, which may be ``values`` itself."""
    n_rows, n_classes = values.shape
    n_knots = knots.shape[0]
    origin = np.empty(n_knots + 1)
    base = np.empty(n_knots + 1)
    spline_table(knots, slopes, origin, base)
    for i in range(n_rows):
        top = -np.inf
        for j in range(n_classes):
            value = values[i, j]
            b = 0
            for c in range(n_knots):
                b += value >= knots[c]
            theta = base[b] + slopes[b] * (value - origin[b])
            if b < n_knots:  # rounding must not cross the next segment's start
                theta = min(theta, base[b + 1])
            out[i, j] = theta
            top = max(top, theta)
        total = 0.0
        for j in range(n_classes):
            e = math.exp(out[i, j] - top)
            out[i, j] = e
            total += e
        for j in range(n_classes):
            out[i, j] /= total


@kernel
def add_information(values, share, low, width, out):
    """Add share * q (1 - q), q the row's softmax, to the bin of each value.

    Bin b starts at low + b * width; the first and the last take what lies outside.
    """
    n_rows, n_classes = values.shape
    last = out.shape[0] - 1
    e = np.empty(n_classes)
    for i in range(n_rows):
        top = values[i, 0]
        for j in range(1, n_classes):
            top = max(top, values[i, j])
        total = 0.0
        for j in range(n_classes):
            e[j] = math.exp(values[i, j] - top)
            total += e[j]
        for j in range(n_classes):
            q = e[j] / total
            b = int((values[i, j] - low) / width)
            out[min(max(b, 0), last)] += share[i] * q * (1.0 - q)
