"""Sums of regression trees."""

from libc.stdint cimport int64_t

from calibrant._kernels.lock cimport keep_lock


def add_trees(
    const double[:, ::1] inputs,
    const int64_t[::1] roots,
    const int64_t[::1] column,
    const double[::1] threshold,
    const int64_t[::1] left,
    const int64_t[::1] right,
    const int64_t[::1] missing,
    double[:, ::1] out,
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
