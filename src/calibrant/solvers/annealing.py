"""The paper's Algorithm 1: simulated annealing on the blocks of PAVA."""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.kernels.annealing import anneal
from calibrant.solvers.pooled_blocks import pool_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from calibrant.solvers.normalized_likelihood import NormalizedLikelihood
    from calibrant.solvers.report import SolverReport
    from calibrant.solvers.row_counts import RowCounts
    from calibrant.step_function import StepFunction

CHUNK = 2000
"""Iterations between two looks at the progress; T is then summed afresh."""


def solve_annealing(
    likelihood: NormalizedLikelihood,
    *,
    random_state: np.random.Generator,
    min_blocks: int | None = None,
    split_size_threshold: int = 100,
    epsilon_change: float = 1e-3,
    beta: float = 200.0,
    n_iterations: int = 100_000,
    n_iterations_no_change: int = 10_000,
    verbose: bool = False,
) -> tuple[StepFunction, SolverReport]:
    """Change one block at a time by +-``epsilon_change``, and keep the best fit seen.

    A change that lowers the log-likelihood L is accepted with probability
    exp(``beta`` * change of L). Stops after ``n_iterations``, or earlier when the best has not
    improved for ``n_iterations_no_change``.
    """
    started = perf_counter()
    blocks = pool_blocks(
        likelihood, min_blocks=min_blocks, split_size_threshold=split_size_threshold
    )
    n_blocks = len(blocks.start)
    columns = _columns(blocks.counts, n_blocks)
    values, best = blocks.start.copy(), blocks.start.copy()
    state = np.zeros(3)
    done = 0
    with _progress(n_iterations, verbose) as advance:
        while done < n_iterations and state[2] < n_iterations_no_change:
            n = min(CHUNK, n_iterations - done)
            ran = anneal(
                *columns,
                likelihood.weight,
                blocks.target,
                beta,
                n_iterations_no_change,
                random_state.integers(n_blocks, size=n),
                epsilon_change * random_state.choice([-1.0, 1.0], size=n),
                random_state.random(n),
                values,
                blocks.counts.totals(values),
                best,
                state,
            )
            done += ran
            advance(ran)
    return blocks.finish("annealing", best, done, started)


def _columns(counts: RowCounts, n_blocks: int) -> tuple[Any, Any, Any]:
    """C by columns: pointers, rows and counts of each block."""
    row = np.repeat(np.arange(len(counts.pointers) - 1), np.diff(counts.pointers))
    order = np.argsort(counts.blocks, kind="stable")
    sizes = np.bincount(counts.blocks, minlength=n_blocks)
    pointers = np.concatenate([[0], np.cumsum(sizes)])
    return pointers, row[order], counts.counts[order]


@contextmanager
def _progress(n_iterations: int, verbose: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar, if asked for and if rich is there."""
    bar: Any = None
    if verbose:
        try:
            from rich.progress import Progress
        except ImportError:
            verbose = False
        else:
            bar = Progress()
    if bar is None:
        yield lambda _: None
        return
    with bar:
        task = bar.add_task("annealing", total=n_iterations)
        yield lambda n: bar.advance(task, n)
