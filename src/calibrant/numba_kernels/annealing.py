"""The paper's Algorithm 1, annealing of block values; random numbers come from outside."""

from __future__ import annotations

import math

from calibrant.numba_kernels.jit import kernel


@kernel
def anneal(
    pointers,
    rows,
    counts,
    weight,
    target,
    beta,
    patience,
    proposals,
    changes,
    uniforms,
    values,
    totals,
    best_values,
    state,
):
    """Run lines 5 to 16 of Algorithm 1 once for each proposal; returns how many were run.

    Block j has the entries ``pointers[j]`` to ``pointers[j + 1]`` of ``rows`` and ``counts``: the
    column C_j, by which T changes with g_j. ``state`` holds the current log-likelihood relative
    to the start, the best one, and the number of iterations since it was found.

    ERROR CORRECTED: the listing takes a proposal as the best when it beats the *current*
    likelihood; having accepted worse ones before, that may be far below the best. Here it has to
    beat the best.
    """
    n_blocks = values.shape[0]
    for t in range(proposals.shape[0]):
        j = proposals[t]
        old = values[j]
        new = old + changes[t]
        state[2] += 1.0
        isotonic = (
            new > 0.0
            and (j == 0 or new >= values[j - 1])
            and (j == n_blocks - 1 or new <= values[j + 1])
        )
        if isotonic:
            gain = target[j] * math.log(new / old)
            for e in range(pointers[j], pointers[j + 1]):
                i = rows[e]
                gain -= weight[i] * math.log1p(counts[e] * (new - old) / totals[i])
            if gain > 0.0 or uniforms[t] < math.exp(beta * gain):
                values[j] = new
                for e in range(pointers[j], pointers[j + 1]):
                    totals[rows[e]] += counts[e] * (new - old)
                state[0] += gain
                if state[0] > state[1]:
                    state[1] = state[0]
                    state[2] = 0.0
                    best_values[:] = values
        if state[2] >= patience:
            return t + 1
    return proposals.shape[0]
