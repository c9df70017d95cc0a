"""The paper's own searches for NA-FIR, each a calibrator.

They search the values of the blocks that PAVA finds; ``NormalizationAwareIsotonic`` chooses the
blocks as well, and proves that it has the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.optimize import LinearConstraint, isotonic_regression, minimize
from scipy.sparse import diags_array
from sklearn.utils import check_random_state

from calibrant import NormalizationAwareIsotonic
from calibrant._calibrators.parameters import choice, number
from calibrant._kernels.annealing import anneal
from calibrant._kernels.isotonic import pool_adjacent_violators
from calibrant._objectives.normalization_aware import (
    Found,
    RowCounts,
    block_of_segment,
    count_cells,
)
from calibrant._progress import progress
from calibrant.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scipy.optimize import OptimizeResult

    from calibrant._gate import SimplexBatch
    from calibrant._objectives.normalization_aware import NormalizedLikelihood
    from calibrant._types import Floats, Wholes

    Searched = tuple[Floats, int, tuple[str, ...]]
    """Values of the blocks, the number of rounds, and notes."""

STEPS_AT_ONCE = 2000
"""Steps of annealing between two looks at the progress; T is then summed afresh."""

solve: Callable[..., OptimizeResult] = minimize  # which methods take which options is scipy's

PENALTIES = tuple(10.0**n for n in range(-2, 5))


@dataclass(frozen=True, slots=True)
class PooledBlocks:
    """NA-FIR's objective on fixed blocks.

    ``first`` is the first segment of each block; a lowest block without labels is left out: its
    value is 0, where PAVA puts it and where it is best. ``counts`` and ``target`` are C and b, and
    ``start`` the values of PAVA, positive and non-decreasing.
    """

    likelihood: NormalizedLikelihood
    first: Wholes
    counts: RowCounts
    target: Floats
    start: Floats

    def loss_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the objective per unit of weight at theta = log g, and its gradient."""
        weight, total = self.likelihood.weight, self.likelihood.total
        relative = theta - np.max(theta)
        values = np.exp(relative)
        totals = self.counts.totals(values)
        gradient, _, _ = self.counts.derivatives(weight, values, totals)
        loss = float(weight @ np.log(totals) - self.target @ relative) / total
        return loss, (gradient - self.target) / total

    def on_segments(self, values: Floats) -> Floats:
        """Return the values of all segments from those of the blocks."""
        block_of = block_of_segment(self.first, self.likelihood.rows.n_segments)
        return np.where(block_of >= 0, values[block_of], 0.0)


def pool_blocks(
    likelihood: NormalizedLikelihood, min_blocks: int | None = None, split_size_threshold: int = 1
) -> PooledBlocks:
    """Take the blocks of FIR (of labels and pseudo-labels), split if there are too few."""
    rows, target = likelihood.rows, likelihood.target
    cells = rows.exposures(likelihood.weight)
    first, tops, bottoms = pool_adjacent_violators(target, cells)
    start = tops / bottoms
    if min_blocks is not None:
        pooled = first
        first = split_blocks(first, rows.exposures(rows.weight), min_blocks, split_size_threshold)
        tops = np.add.reduceat(target, first)
        start = start[np.searchsorted(pooled, first, side="right") - 1]
    alive = start > 0.0
    first, tops, start = first[alive], tops[alive], start[alive]
    counts = count_cells(rows.index, block_of_segment(first, len(target)), len(first))
    return PooledBlocks(likelihood, first, counts, tops, start)


def split_blocks(
    first: Wholes, sizes: Floats, min_blocks: int, split_size_threshold: int
) -> Wholes:
    """Split blocks into parts of equal size until there are ``min_blocks`` (the paper's appendix).

    ``sizes`` are the weights of the cells of each segment. Every block is cut into as many parts
    as the size asked for fits into it; that size is the largest that gives enough blocks, but not
    below ``split_size_threshold``. Parts end where segments do.
    """
    ends = np.cumsum(sizes)
    edges = np.concatenate([[0.0], ends])
    bounds = np.append(first, len(sizes))
    masses = edges[bounds[1:]] - edges[bounds[:-1]]
    # Sizes at which one more part fits into some block, the largest first.
    options = np.unique(masses[:, None] / np.arange(1, min_blocks + 1))[::-1]
    options = options[options >= split_size_threshold]
    parts = np.ones(len(first), dtype=np.int64)
    for size in options:
        parts = np.maximum(np.floor(masses / size * (1.0 + 1e-12)), 1.0).astype(np.int64)
        if np.sum(parts) >= min_blocks:
            break
    starts = [
        np.searchsorted(ends, edges[low] + mass * np.arange(n) / n, side="right")
        for low, mass, n in zip(first, masses, parts, strict=True)
    ]
    return np.unique(np.concatenate(starts))


class PaperSearch(NormalizationAwareIsotonic):
    """One of the paper's searches for NA-FIR, which keeps the blocks of PAVA.

    A subclass names the limit of its ``rounds``, and implements ``_search``.

    Parameters
    ----------
    prior_strength : "cv" or float, default=0
        Number of pseudo-observations; the paper has none.
    max_rounds : int, optional
        Largest number of iterations; by default that of the search.

    Attributes
    ----------
    solver_report_ : SolverReport
        Its violation is that of all segments, so that ``converged`` is seldom True: it tells
        whether the search found the optimum of NA-FIR, not whether it came to an end.

    See Also
    --------
    calibrant.NormalizationAwareIsotonic : Reaches the optimum and proves it.

    References
    ----------
    .. [1] A. Arad and S. Rosset, "Improving Multi-Class Calibration through Normalization-Aware
       Isotonic Techniques", ICML 2025.
    """

    rounds: ClassVar[int]
    """Limit of rounds if ``max_rounds`` does not say another."""

    in_paper = False
    good_for = "comparison"

    prior_strength: str | float = number(default=0.0, high=1e12, words=("cv",))

    @property
    def search(self) -> str:
        """Name in reports of solvers."""
        return str(self.method).removeprefix("na-fir-")

    def _options(self) -> dict[str, object]:
        """Return the options of the solver of NA-FIR, which calls the search."""
        known = {field.name for field in fields(NormalizationAwareIsotonic)}
        own = {name: value for name, value in super()._options().items() if name in known}
        return own | {"minimise": self._minimise, "name": self.search}

    def _complaints(self, batch: SimplexBatch) -> Iterator[Warning]:  # noqa: ARG002
        # A search on the blocks of PAVA seldom reaches the optimum; its report says so.
        return iter(())

    def _minimise(
        self, likelihood: NormalizedLikelihood, tol: float, max_rounds: int | None
    ) -> Found:
        """Minimise NA-FIR's objective on blocks."""
        blocks = self._pool(likelihood)
        values, rounds, notes = self._search(blocks, tol, max_rounds or self.rounds)
        notes = (*notes, f"on {len(values)} blocks of PAVA")
        return Found(blocks.on_segments(values), rounds, notes)

    def _pool(self, likelihood: NormalizedLikelihood) -> PooledBlocks:
        return pool_blocks(likelihood)

    def _search(self, blocks: PooledBlocks, tol: float, max_rounds: int) -> Searched:
        """Search the values of the blocks."""
        raise NotImplementedError


class Annealing(PaperSearch):
    """NA-FIR by the paper's Algorithm 1, simulated annealing.

    One block at a time is changed by +-``epsilon_change``, and the best fit seen is kept. A change
    that lowers the log-likelihood L is accepted with probability exp(``beta`` * change of L).

    Parameters
    ----------
    beta : float, default=200
        Inverse temperature: larger values accept fewer steps that lower the likelihood.
    n_iterations : int, default=100_000
        Number of steps.
    n_iterations_no_change : int, default=10_000
        Stop after this many steps without an improvement.
    epsilon_change : float, default=1e-3
        Change of a block's value in one step.
    min_blocks : int, optional
        Split the blocks of PAVA until there are at least this many.
    split_size_threshold : int, default=100
        Smallest weight of cells in a block after a split.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random numbers.
    verbose : bool, default=False
        Whether to print the progress on standard error.
    max_rounds : None
        Has to be None: ``n_iterations`` is the limit.
    """

    method = "na-fir-annealing"
    title = "NA-FIR by annealing"
    summary = "one isotonic step function, by the paper's Algorithm 1"
    place = 20
    rounds: ClassVar[int] = 1

    beta: float = number(default=200.0)
    n_iterations: int = number(default=100_000, low=1, whole=True)
    n_iterations_no_change: int = number(default=10_000, low=1, whole=True)
    epsilon_change: float = number(default=1e-3, low=1e-15, high=1.0)
    min_blocks: int | None = number(default=None, low=1, whole=True)
    split_size_threshold: int = number(default=100, low=1, whole=True)
    random_state: int | np.random.RandomState | np.random.Generator | None = None
    verbose: bool = choice(default=False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.max_rounds is not None:
            message = f"max_rounds={self.max_rounds} is no limit of annealing; use n_iterations"
            raise ParameterError(message, argument="max_rounds", value=self.max_rounds)

    def _pool(self, likelihood: NormalizedLikelihood) -> PooledBlocks:
        return pool_blocks(likelihood, self.min_blocks, self.split_size_threshold)

    def _search(self, blocks: PooledBlocks, *_: float) -> Searched:
        random = self.random_state
        if not isinstance(random, np.random.Generator):
            random = np.random.default_rng(check_random_state(random).randint(2**31))
        n_blocks = len(blocks.start)
        columns = blocks.counts.matrix(n_blocks).tocsc()
        values, best = blocks.start.copy(), blocks.start.copy()
        state = np.zeros(3)
        done = 0
        chunks = -(-self.n_iterations // STEPS_AT_ONCE)
        with progress(self.search, chunks, verbose=self.verbose) as start:
            while done < self.n_iterations and state[2] < self.n_iterations_no_change:
                start(f"from step {done + 1}")
                n = min(STEPS_AT_ONCE, self.n_iterations - done)
                done += anneal(
                    columns.indptr,
                    columns.indices,
                    columns.data,
                    blocks.likelihood.weight,
                    blocks.target,
                    self.beta,
                    self.n_iterations_no_change,
                    random.integers(n_blocks, size=n),
                    self.epsilon_change * random.choice([-1.0, 1.0], size=n),
                    random.random(n),
                    values,
                    blocks.counts.totals(values),
                    best,
                    state,
                )
        return best, done, ()


class ProjectedGradient(PaperSearch):
    """NA-FIR by gradient descent in the values g, projected by PAVA.

    Steps go against dF/dg = a - b / g; their length doubles after every success. It stops when
    the loss per unit of weight falls by less than 1e-3 ``tol`` in ten rounds (of at most 2,000).
    """

    method = "na-fir-projected-gradient"
    title = "NA-FIR by projected gradient"
    summary = "one isotonic step function, by projected gradient descent"
    place = 21
    rounds: ClassVar[int] = 2000

    def _search(self, blocks: PooledBlocks, tol: float, max_rounds: int) -> Searched:
        values = blocks.start / blocks.start[-1]
        lowest = 1e-3 * values[0]  # the logarithm of g has to stay finite
        loss, gradient = blocks.loss_and_gradient(np.log(values))
        length, losses, rounds = 1.0, [loss], 0
        while rounds < max_rounds and length > 1e-30:
            rounds += 1
            trial = isotonic_regression(values - length * gradient / values).x
            trial = np.maximum(trial, lowest)
            trial_loss, trial_gradient = blocks.loss_and_gradient(np.log(trial))
            if trial_loss >= loss:
                length *= 0.25
                continue
            values, loss, gradient = trial, trial_loss, trial_gradient
            length *= 2.0
            losses.append(loss)
            if len(losses) > 10 and losses[-11] - loss < 1e-3 * tol:
                break
        return values, rounds, ()


class ConstrainedSearch(PaperSearch):
    """A solver of scipy over theta = log g, in which the problem is convex, with constraints."""

    rounds: ClassVar[int] = 500
    _fine: ClassVar[set[int]]

    def _search(self, blocks: PooledBlocks, tol: float, max_rounds: int) -> Searched:
        theta = np.log(blocks.start / blocks.start[-1])
        if len(theta) == 1:
            return np.ones(1), 0, ()
        result = self._run(blocks, theta, tol, max_rounds)
        theta = np.maximum.accumulate(result.x)  # the constraints hold up to rounding only
        notes = () if result.status in self._fine else (str(result.message),)
        return np.exp(theta - theta[-1]), int(result.nit), notes

    def _run(self, blocks: PooledBlocks, theta: Floats, tol: float, limit: int) -> OptimizeResult:
        """Minimise over non-decreasing values."""
        raise NotImplementedError


class SLSQP(ConstrainedSearch):
    """NA-FIR by SLSQP of scipy, in at most 500 rounds."""

    method = "na-fir-slsqp"
    title = "NA-FIR by SLSQP"
    summary = "one isotonic step function, by SLSQP"
    place = 22
    _fine: ClassVar[set[int]] = {0}

    def _run(self, blocks: PooledBlocks, theta: Floats, tol: float, limit: int) -> OptimizeResult:
        differences = np.diff(np.eye(len(theta)), axis=0)
        return solve(
            blocks.loss_and_gradient,
            theta,
            jac=True,
            method="SLSQP",
            bounds=[(-100.0, 100.0)] * len(theta),
            constraints={"type": "ineq", "fun": np.diff, "jac": lambda _: differences},
            options={"ftol": 1e-4 * tol, "maxiter": limit},
        )


class TrustConstr(ConstrainedSearch):
    """NA-FIR by trust-constr of scipy with the exact Hessian, in at most 500 rounds."""

    method = "na-fir-trust-constr"
    title = "NA-FIR by trust-constr"
    summary = "one isotonic step function, by trust-constr"
    place = 23
    _fine: ClassVar[set[int]] = {1, 2}

    def _run(self, blocks: PooledBlocks, theta: Floats, tol: float, limit: int) -> OptimizeResult:
        n = len(theta)
        dense, weight = blocks.counts.matrix(n).toarray(), blocks.likelihood.weight

        def hessian(x: Floats) -> Floats:
            shares = dense * np.exp(x - np.max(x))
            shares /= np.sum(shares, axis=1, keepdims=True)
            weighted = shares * weight[:, None]
            result = np.diag(np.sum(weighted, axis=0)) - weighted.T @ shares
            return np.asarray(result / blocks.likelihood.total)

        sides = [[-1.0] * (n - 1), [1.0] * (n - 1)]
        differences: Any = diags_array(sides, offsets=[0, 1], shape=(n - 1, n)).tocsr()
        return solve(
            blocks.loss_and_gradient,
            theta,
            jac=True,
            method="trust-constr",
            hess=hessian,
            constraints=LinearConstraint(differences, 0.0, np.inf),
            options={"gtol": tol, "xtol": 1e-10, "barrier_tol": tol, "maxiter": limit},
        )


class Penalty(PaperSearch):
    """NA-FIR by the penalty method: L-BFGS in at most 2,000 rounds for each penalty.

    The loss plus a growing penalty on the squares of decreases of theta = log g is minimised, each
    time from the minimum before; isotonic regression removes what is left of the decreases.
    """

    method = "na-fir-penalty"
    title = "NA-FIR by penalty"
    summary = "one isotonic step function, by the penalty method"
    place = 24
    rounds: ClassVar[int] = 2000

    def _search(self, blocks: PooledBlocks, tol: float, max_rounds: int) -> Searched:
        def penalised(x: Floats, strength: float) -> tuple[float, Floats]:
            loss, gradient = blocks.loss_and_gradient(x)
            decrease = np.maximum(-np.diff(x), 0.0)
            slope = 2.0 * strength * decrease
            gradient[:-1] += slope
            gradient[1:] -= slope
            return loss + strength * float(decrease @ decrease), gradient

        theta = np.log(blocks.start / blocks.start[-1])
        rounds = 0
        for strength in PENALTIES:
            result = minimize(
                penalised,
                theta,
                args=(strength,),
                jac=True,
                method="L-BFGS-B",
                bounds=[(-100.0, 100.0)] * len(theta),
                options={"maxiter": max_rounds, "ftol": 1e-4 * tol, "gtol": 1e-2 * tol},
            )
            theta = result.x
            rounds += int(result.nit)
        theta = isotonic_regression(theta).x
        return np.exp(theta - theta[-1]), rounds, ()
