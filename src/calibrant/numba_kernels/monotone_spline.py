"""A piecewise linear function of log p through the softmax: likelihood, gradient, Hessian.

theta(v) = sum_b s_b f_b(v), with f_0(v) = min(v - t_0, 0) below the first knot t_0 and, above it,
f_b(v) = min(max(v - t_{b-1}, 0), t_b - t_{b-1}) between two neighbouring knots (the last has no
end). A cell above t_0 has f = length in every segment between t_0 and its own, its offset in its
own, and 0 beyond; so three sums over the cells of each segment are enough for all first and second
moments, and a row costs O(k + segments^2).

Rows come sorted: the cells of segment b of row i are ``bounds[i, b]`` to ``bounds[i, b + 1]``, and
the last cell has the largest theta.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.numba_kernels.exponential import block_scratch, exponentials
from calibrant.numba_kernels.jit import kernel
from calibrant.numba_kernels.rows import exponentiate_row, invariant_sum, row_top


@kernel
def log_softmax_rows(logits, out):
    """Logarithm of each row's softmax; its sum does not depend on the order of the columns."""
    n_rows, n_classes = logits.shape
    powers = np.empty((1, n_classes))
    for i in range(n_rows):
        top = row_top(logits, i)
        total = exponentiate_row(logits[i : i + 1], 0, top, powers)
        log_total = math.log(invariant_sum(powers[0], total))
        for j in range(n_classes):
            out[i, j] = logits[i, j] - top - log_total


@kernel
def sort_rows(scores, class_index, out, place):
    """Sort each row; write where the score of its label then stands."""
    for i in range(scores.shape[0]):
        own = scores[i, class_index[i]]
        out[i] = np.sort(scores[i])
        place[i] = np.searchsorted(out[i], own)


@kernel
def find_bounds(values, knots, bounds):
    """Count the cells of each sorted row below each knot, between 0 and all of them."""
    n_rows, n_classes = values.shape
    for i in range(n_rows):
        j = 0
        bounds[i, 0] = 0
        for b in range(knots.shape[0]):
            while j < n_classes and values[i, j] < knots[b]:
                j += 1
            bounds[i, b + 1] = j
        bounds[i, knots.shape[0] + 1] = n_classes


@kernel
def add_information(values, share, low, width, out):
    """Add share * q (1 - q), q the row's softmax, to the bin of each value.

    Bin b starts at low + b * width; the first and the last take what lies outside.
    """
    n_rows, n_classes = values.shape
    last = out.shape[0] - 1
    e = np.empty(n_classes)
    for i in range(n_rows):
        top = values[i, n_classes - 1]
        total = 0.0
        for j in range(n_classes):
            e[j] = math.exp(values[i, j] - top)
            total += e[j]
        for j in range(n_classes):
            q = e[j] / total
            b = int(max((values[i, j] - low) / width, 0.0))
            out[min(b, last)] += share[i] * q * (1.0 - q)


@kernel
def spline_table(knots, slopes):
    """Return origin and base: theta(v) = base[b] + slopes[b] * (v - origin[b]) in segment b."""
    origin = np.empty_like(slopes)
    base = np.zeros_like(slopes)
    origin[0] = knots[0]
    for b in range(1, slopes.shape[0]):
        origin[b] = knots[b - 1]
        if b > 1:
            base[b] = base[b - 1] + slopes[b - 1] * (knots[b - 1] - knots[b - 2])
    return origin, base


@kernel
def block_gaps(values, bounds, start, stop, origin, base, slopes, gaps):
    """Write theta - largest theta of the row, for rows ``start`` to ``stop``."""
    n_classes = values.shape[1]
    last = slopes.shape[0] - 1
    for i in range(start, stop):
        offset = (i - start) * n_classes
        b = last
        while bounds[i, b] == n_classes:
            b -= 1
        top = base[b] + slopes[b] * (values[i, n_classes - 1] - origin[b])
        for b in range(last + 1):
            shift = base[b] - top
            for j in range(bounds[i, b], bounds[i, b + 1]):
                gaps[offset + j] = slopes[b] * (values[i, j] - origin[b]) + shift


@kernel
def spline_losses(values, bounds, place, knots, slopes, loss):
    """Write the NLL of each row to ``loss``."""
    n_rows, n_classes = values.shape
    origin, base = spline_table(knots, slopes)
    height, gaps, e, bits, powers = block_scratch(n_classes)
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        block_gaps(values, bounds, start, stop, origin, base, slopes, gaps)
        exponentials(gaps[: (stop - start) * n_classes], e, bits, powers)
        for i in range(start, stop):
            offset = (i - start) * n_classes
            total = 0.0
            for c in range(offset, offset + n_classes):
                total += e[c]
            loss[i] = math.log(total) - gaps[offset + place[i]]


@kernel
def spline_likelihood(values, bounds, place, share, knots, slopes, gradient, hessian):
    """NLL, its gradient and its Hessian in the slopes.

    The label's part of the gradient, -sum_i share_i f(v_iy), is left out: it is the same for all
    slopes.
    """
    n_rows, n_classes = values.shape
    n_segments = slopes.shape[0]
    origin, base = spline_table(knots, slopes)
    height, gaps, e, bits, powers = block_scratch(n_classes)
    sums = np.empty((n_segments, 3))
    mean = np.empty(n_segments)
    squares = np.zeros(n_segments)
    loss = 0.0
    gradient[:] = 0.0
    hessian[:] = 0.0
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        block_gaps(values, bounds, start, stop, origin, base, slopes, gaps)
        exponentials(gaps[: (stop - start) * n_classes], e, bits, powers)
        for i in range(start, stop):
            offset = (i - start) * n_classes
            total = 0.0
            for b in range(n_segments):
                s0 = 0.0
                s1 = 0.0
                s2 = 0.0
                for j in range(bounds[i, b], bounds[i, b + 1]):
                    gap = values[i, j] - origin[b]
                    power = e[offset + j]
                    s0 += power
                    s1 += power * gap
                    s2 += power * gap * gap
                sums[b, 0] = s0
                sums[b, 1] = s1
                sums[b, 2] = s2
                total += s0
            loss += share[i] * (math.log(total) - gaps[offset + place[i]])
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
    for a in range(squares.shape[0]):
        hessian[a, a] += squares[a]
        for b in range(1, a):  # f_b is full wherever f_a is not 0, and f_0 is 0 there
            hessian[a, b] += (knots[b] - knots[b - 1]) * gradient[a]
        for b in range(a):
            hessian[b, a] = hessian[a, b]


@kernel
def spline_softmax(values, knots, slopes, out):
    """Write softmax(theta(values)) of each row, in any order, to ``out`` (or ``values`` itself)."""
    n_rows, n_classes = values.shape
    n_knots = knots.shape[0]
    origin, base = spline_table(knots, slopes)
    for i in range(n_rows):
        top = -np.inf
        for j in range(n_classes):
            value = values[i, j]
            b = 0
            for c in range(n_knots):
                b += value >= knots[c]
            theta = base[b] + slopes[b] * (value - origin[b])
            if b < n_knots:  # rounding must not pass the start of the next segment
                theta = min(theta, base[b + 1])
            out[i, j] = theta
            top = max(top, theta)
        total = exponentiate_row(out, i, top, out)
        total = invariant_sum(out[i], total)
        for j in range(n_classes):
            out[i, j] /= total
