"""NA-FIR by the paper's Algorithm 1: one pass over proposals."""

from libc.math cimport exp, log, log1p
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

ctypedef fused Index:  # of scipy's sparse matrices
    int32_t
    int64_t


def anneal(
    const Index[::1] pointers, const Index[::1] rows, const float[::1] counts,
    const double[::1] weight, const double[::1] target, double beta, double patience,
    const int64_t[::1] proposals, const double[::1] changes, const double[::1] uniforms,
    double[::1] values, double[::1] totals, double[::1] best_values, double[::1] state,
):
    """Run lines 5 to 16 of Algorithm 1 once for each proposal; returns how many were run.

    Block j has the entries ``pointers[j]`` to ``pointers[j + 1]`` of ``rows`` and ``counts``: the
    column C_j, by which T changes with g_j. ``state`` holds the current log-likelihood relative
    to the start, the best one, and the number of iterations since it was found. Random numbers
    come from outside.

    ERROR CORRECTED: the listing takes a proposal as the best when it beats the *current*
    likelihood; having accepted worse ones before, that may be far below the best. Here it has to
    beat the best.
    """
    cdef Py_ssize_t n_blocks = values.shape[0], n_run = 0, t, j, e
    cdef double old, new, gain
    with nogil:
        for t in range(proposals.shape[0]):
            j = proposals[t]
            old = values[j]
            new = old + changes[t]
            n_run += 1
            state[2] += 1.0
            if (
                new > 0.0
                and (j == 0 or new >= values[j - 1])
                and (j == n_blocks - 1 or new <= values[j + 1])
            ):
                gain = target[j] * log(new / old)
                for e in range(pointers[j], pointers[j + 1]):
                    gain -= weight[rows[e]] * log1p(counts[e] * (new - old) / totals[rows[e]])
                if gain > 0.0 or uniforms[t] < exp(beta * gain):
                    values[j] = new
                    for e in range(pointers[j], pointers[j + 1]):
                        totals[rows[e]] += counts[e] * (new - old)
                    state[0] += gain
                    if state[0] > state[1]:
                        state[1] = state[0]
                        state[2] = 0.0
                        memcpy(&best_values[0], &values[0], n_blocks * sizeof(double))
            if state[2] >= patience:
                break
    return n_run
