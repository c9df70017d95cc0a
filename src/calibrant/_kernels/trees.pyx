"""Regression trees: their sums, and one grown on histograms."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from calibrant._kernels.lock cimport keep_lock

cdef enum:
    MOST_LEAVES = 64

cdef double LEAST_CURVATURE = 1e-3  # of each side of a split


def add_trees(
    const double[:, ::1] inputs, const int64_t[::1] roots, const int64_t[::1] column,
    const double[::1] threshold, const int64_t[::1] left, const int64_t[::1] right,
    const int64_t[::1] missing, double[:, ::1] out,
):
    """Add to ``out[i, t mod m]``, with m its columns, the leaf of row i in tree t, for all t.

    Node v sends a row to ``left[v]`` if its input in ``column[v]`` is at most ``threshold[v]``, to
    ``missing[v]`` if it is NaN, else to ``right[v]``. A leaf has the column -1, and its value in
    ``threshold``. Nodes come after the one that they belong to, so that every walk ends.
    """
    cdef Py_ssize_t n_rows = inputs.shape[0], n_trees = roots.shape[0], m = out.shape[1], i, t
    cdef int64_t node
    cdef double x
    keep_lock(n_rows * n_trees)
    with nogil:
        for t in range(n_trees):  # outside: the nodes of one tree stay in the nearest cache
            for i in range(n_rows):
                node = roots[t]
                while column[node] >= 0:
                    x = inputs[i, column[node]]
                    if x <= threshold[node]:
                        node = left[node]
                    elif x != x:
                        node = missing[node]
                    else:
                        node = right[node]
                out[i, t % m] += threshold[node]


cdef struct Leaf:
    Py_ssize_t node, start, stop, sums  # place of its sums in the histograms
    double gradient, curvature
    # Its best split: the gain, the column, the last bin on the left, where missing values go.
    double gain
    Py_ssize_t column, bin
    bint missing_left
    double left_gradient, left_curvature


cdef inline double _score(double gradient, double curvature, double ridge) noexcept nogil:
    """Twice what a Newton step gains."""
    return gradient * gradient / (curvature + ridge)


cdef void _add_up(
    const uint8_t[:, ::1] bins, const int32_t[::1] rows, const double[::1] gradient,
    const double[::1] curvature, Leaf* leaf, double[:, :, ::1] sums,
) noexcept nogil:
    """Sum up gradients, curvatures and rows of a leaf, for every bin of every column."""
    cdef Py_ssize_t d = bins.shape[1], i, j, row
    cdef double g, h
    cdef double* bin
    memset(&sums[0, 0, 0], 0, d * sums.shape[1] * 3 * sizeof(double))
    leaf.gradient = leaf.curvature = 0.0
    for i in range(leaf.start, leaf.stop):
        row = rows[i]
        g, h = gradient[row], curvature[row]
        leaf.gradient += g
        leaf.curvature += h
        for j in range(d):
            bin = &sums[j, bins[row, j], 0]
            bin[0] += g
            bin[1] += h
            bin[2] += 1.0


cdef void _find_split(
    Leaf* leaf, const double[:, :, ::1] sums, const int64_t[::1] n_bins, double least_rows,
    double ridge,
) noexcept nogil:
    """Find the split of a leaf that gains most; the last bin of a column is of missing values."""
    cdef Py_ssize_t j, b
    cdef double total = leaf.stop - leaf.start, g, h, n, gain
    cdef double whole = _score(leaf.gradient, leaf.curvature, ridge)
    cdef bint missing_left
    leaf.gain = 0.0
    for j in range(n_bins.shape[0]):
        for missing_left in range(2):
            g = h = n = 0.0
            if missing_left:
                g, h, n = sums[j, n_bins[j], 0], sums[j, n_bins[j], 1], sums[j, n_bins[j], 2]
                if n == 0.0:
                    break
            # With all values on the left, missing ones alone are on the right.
            for b in range(n_bins[j] - missing_left):
                g += sums[j, b, 0]
                h += sums[j, b, 1]
                n += sums[j, b, 2]
                if n < least_rows or h < LEAST_CURVATURE:
                    continue
                if total - n < least_rows or leaf.curvature - h < LEAST_CURVATURE:
                    break
                gain = _score(g, h, ridge) - whole
                gain += _score(leaf.gradient - g, leaf.curvature - h, ridge)
                if gain > leaf.gain:
                    leaf.gain, leaf.column, leaf.bin = gain, j, b
                    leaf.missing_left = missing_left
                    leaf.left_gradient, leaf.left_curvature = g, h


cdef Py_ssize_t _divide(
    Leaf* leaf, const uint8_t[:, ::1] bins, Py_ssize_t missing, int32_t[::1] rows,
    int32_t[::1] spare,
) noexcept nogil:
    """Sort the rows of a leaf into both sides of its split, and return where the right begins."""
    cdef Py_ssize_t i, n_left = leaf.start, n_right = 0, b
    for i in range(leaf.start, leaf.stop):
        b = bins[rows[i], leaf.column]
        if (leaf.missing_left if b == missing else b <= leaf.bin):
            rows[n_left] = rows[i]
            n_left += 1
        else:
            spare[n_right] = rows[i]
            n_right += 1
    for i in range(n_right):
        rows[n_left + i] = spare[i]
    return n_left


def grow_tree(
    const uint8_t[:, ::1] bins, const int64_t[::1] n_bins, const double[::1] gradient,
    const double[::1] curvature, double learning_rate, double ridge, double least_rows,
    int32_t[:, ::1] rows, double[:, :, :, ::1] sums, int64_t[:, ::1] nodes, double[::1] values,
    double[::1] scores,
):
    """Grow a regression tree, the leaf that gains most first; add its values to ``scores``.

    Returns the number of nodes. A row of ``nodes`` has column (-1 for a leaf), last bin on the
    left, left, right, and where missing values go; ``values`` are those of leaves. ``sums`` has room
    for the histograms of n_leaves leaves, ``rows`` for two permutations of rows.
    """
    cdef Py_ssize_t n_rows = bins.shape[0], n_leaves = sums.shape[0], n_nodes = 1, i, k, best
    cdef Py_ssize_t n = 1, middle
    cdef Leaf[MOST_LEAVES] leaves
    cdef Leaf* old
    cdef Leaf* new
    cdef double value
    cdef bint left_is_small
    cdef Leaf left, right
    with nogil:
        for i in range(n_rows):
            rows[0, i] = <int32_t> i
        leaves[0].node = leaves[0].start = leaves[0].sums = 0
        leaves[0].stop = n_rows
        nodes[0, 0] = -1
        _add_up(bins, rows[0], gradient, curvature, &leaves[0], sums[0])
        _find_split(&leaves[0], sums[0], n_bins, least_rows, ridge)
        while n < n_leaves:
            best = 0
            for k in range(1, n):
                if leaves[k].gain > leaves[best].gain:
                    best = k
            old, new = &leaves[best], &leaves[n]
            if old.gain <= 0.0:
                break
            middle = _divide(old, bins, n_bins[old.column], rows[0], rows[1])
            if sums[old.sums, old.column, n_bins[old.column], 2] == 0.0:  # to the larger side
                old.missing_left = 2 * middle > old.start + old.stop
            nodes[old.node, 0], nodes[old.node, 1] = old.column, old.bin
            nodes[old.node, 2], nodes[old.node, 3] = n_nodes, n_nodes + 1
            nodes[old.node, 4] = n_nodes + 1 - old.missing_left
            left, right = old[0], old[0]
            left.node, left.stop = n_nodes, middle
            left.gradient, left.curvature = old.left_gradient, old.left_curvature
            right.node, right.start = n_nodes + 1, middle
            right.gradient = old.gradient - old.left_gradient
            right.curvature = old.curvature - old.left_curvature
            nodes[n_nodes, 0] = nodes[n_nodes + 1, 0] = -1
            n_nodes += 2
            n += 1
            if n < n_leaves:  # sums of the smaller side; the others are what is left
                left_is_small = middle - left.start <= right.stop - middle
                if left_is_small:
                    left.sums = n - 1
                    _add_up(bins, rows[0], gradient, curvature, &left, sums[left.sums])
                else:
                    right.sums = n - 1
                    _add_up(bins, rows[0], gradient, curvature, &right, sums[right.sums])
                _take_away(sums[old.sums], sums[n - 1])
            old[0], new[0] = left, right
            if n < n_leaves:
                _find_split(old, sums[old.sums], n_bins, least_rows, ridge)
                _find_split(new, sums[new.sums], n_bins, least_rows, ridge)
        for k in range(n):
            value = -learning_rate * leaves[k].gradient / (leaves[k].curvature + ridge)
            values[leaves[k].node] = value
            for i in range(leaves[k].start, leaves[k].stop):
                scores[rows[0, i]] += value
    return n_nodes


cdef void _take_away(double[:, :, ::1] sums, const double[:, :, ::1] part) noexcept nogil:
    cdef Py_ssize_t i, n = sums.shape[0] * sums.shape[1] * sums.shape[2]
    for i in range(n):
        (&sums[0, 0, 0])[i] -= (&part[0, 0, 0])[i]
