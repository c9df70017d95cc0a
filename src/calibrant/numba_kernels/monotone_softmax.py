"""NA-FIR's likelihood on blocks: rows of cells, mapped through one non-decreasing function.

The paper's C_ij, how many cells of row i lie in block j, is kept sparse: ``pointers[i]`` to
``pointers[i + 1]`` are the entries of row i in ``blocks`` (increasing) and ``counts``. A row has
the total T_i = sum_j C_ij g_j. Sums over a row run over its blocks and not over its columns, so
they do not depend on the order of the classes.
"""

from __future__ import annotations

import numpy as np

from calibrant.numba_kernels.jit import kernel


@kernel
def collapse_rows(index, block_of, n_blocks, pointers, blocks, counts):
    """Count the cells of every row by block; returns the number of entries.

    Cells of segments with a negative block are left out.
    """
    n_rows, n_classes = index.shape
    tally = np.zeros(n_blocks, dtype=np.int32)
    entry = 0
    pointers[0] = 0
    for r in range(n_rows):
        low = n_blocks
        high = -1
        for j in range(n_classes):
            block = block_of[index[r, j]]
            if block >= 0:
                tally[block] += 1
                low = min(low, block)
                high = max(high, block)
        for block in range(low, high + 1):
            if tally[block] > 0:
                blocks[entry] = block
                counts[entry] = tally[block]
                tally[block] = 0
                entry += 1
        pointers[r + 1] = entry
    return entry


@kernel
def merge_entries(pointers, blocks, counts, group_of):
    """Replace blocks by groups of neighbouring blocks, in place; returns the number of entries."""
    entry = 0
    first = 0
    for i in range(pointers.shape[0] - 1):
        last = -1
        for e in range(first, pointers[i + 1]):
            group = group_of[blocks[e]]
            if group == last:
                counts[entry - 1] += counts[e]
            else:
                blocks[entry] = group
                counts[entry] = counts[e]
                entry += 1
                last = group
        first = pointers[i + 1]
        pointers[i + 1] = entry
    return entry


@kernel
def row_totals(pointers, blocks, counts, values, out):
    """T = C g; 1 for rows without entries."""
    for i in range(out.shape[0]):
        total = 0.0
        for e in range(pointers[i], pointers[i + 1]):
            total += counts[e] * values[blocks[e]]
        out[i] = total if total > 0.0 else 1.0


@kernel
def add_gradient(pointers, blocks, counts, weight, values, totals, shares, gradient, diagonal):
    """Gradient of sum_i w_i log T_i in log g, and the diagonal of its Hessian.

    ``shares`` gets S_ij = C_ij g_j / T_i, the share of block j in row i. Gradient: sum_i w_i S_ij;
    diagonal: sum_i w_i S_ij (1 - S_ij).
    """
    for i in range(totals.shape[0]):
        w = weight[i]
        if w > 0.0:
            inverse = 1.0 / totals[i]
            for e in range(pointers[i], pointers[i + 1]):
                block = blocks[e]
                share = counts[e] * values[block] * inverse
                shares[e] = share
                gradient[block] += w * share
                diagonal[block] += w * share * (1.0 - share)


@kernel
def multiply_laplacian(pointers, blocks, shares, weight, vector, out):
    """Hessian of sum_i w_i log T_i in log g, times a vector.

    sum_i w_i (diag(S_i) - S_i S_i') is the Laplacian of a graph in which every row joins its
    blocks; the constant vector is its null space, since the scale of g is free.
    """
    out[:] = 0.0
    for i in range(weight.shape[0]):
        w = weight[i]
        if w > 0.0:
            mean = 0.0
            for e in range(pointers[i], pointers[i + 1]):
                mean += shares[e] * vector[blocks[e]]
            for e in range(pointers[i], pointers[i + 1]):
                out[blocks[e]] += w * shares[e] * (vector[blocks[e]] - mean)


@kernel
def newton_direction(
    pointers, blocks, shares, weight, residual, diagonal, ridge, accuracy, max_products
):
    """Solve (H + diag(ridge)) x = -residual by conjugate gradients, scaled by the diagonal of H.

    Every row joins its large cell with its small ones, so the graph is well connected: scaled by
    its own diagonal, the Laplacian has its other eigenvalues between about 0.3 and 1.9 on real
    data, and ten products do what a factorisation would, at any number of blocks.
    """
    n = residual.shape[0]
    x = np.zeros(n)
    r = -residual
    z = r / diagonal
    p = z.copy()
    product = np.empty(n)
    rz = np.sum(r * z)
    goal = rz * accuracy * accuracy
    for _ in range(max_products):
        if rz <= goal:
            break
        multiply_laplacian(pointers, blocks, shares, weight, p, product)
        product += ridge * p
        alpha = rz / np.sum(p * product)
        x += alpha * p
        r -= alpha * product
        z = r / diagonal
        previous = rz
        rz = np.sum(r * z)
        p = z + (rz / previous) * p
    return x
