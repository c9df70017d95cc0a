"""The evidence against served probabilities: a mixture of bets, and a detector of the change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from calibrant._types import Floats
    from calibrant.monitor._bets import Bet, Block

LARGEST_POWER = 600.0
"""Largest logarithm of a sum of the detector."""

NO_BET = 0.5
"""Share of the wealth that is not bet at the start; the bets have equal parts of the rest."""

STEPS = np.array([20, 50, 100, 200, 500, 1000])
"""Bets learn at multiples of the last of these that is at most an eighth of the rows, or of 20."""


def next_step(n_rows: int) -> int:
    """Return the number of rows at which bets learn after these."""
    step = STEPS[max(int(np.searchsorted(8 * STEPS, n_rows, side="right")) - 1, 0)]
    return int((n_rows // step + 1) * step)


class Evidence:
    """The e-process of a stream of rows, valid at every stopping time, and the time of the change.

    A row multiplies the share of each bet by its q(y) / p(y); if p is right, that is 1 on average
    whatever was before, so the wealth is a nonnegative martingale that starts at 1. When bets learn
    for the j-th time, a share 1 / (j + 1) of the wealth is divided anew as at the start, so that
    bets that lost while nothing was wrong are there when something is. Rows, not batches, say when
    that is: batches change nothing.

    The change is found by Shiryaev-Roberts sums of the bets of short memory, which lose while
    nothing is wrong. R of a bet after a row is (R + 1) q(y) / p(y): R minus the number of rows is a
    martingale if p is right, so that the mean of these R takes ``run_length`` rows on average, at
    least, to reach ``run_length``. Only the first change is looked for: after it p is known to be
    wrong, and would be found wrong again and again.
    """

    KEPT: ClassVar[tuple[str, ...]] = (
        *("bets", "log_share", "log_wealth", "log_largest", "n_rows", "n_unlearned", "n_learned"),
        *("sums", "change_row"),
    )

    def __init__(
        self, bets: dict[str, Bet], run_length: float = math.inf, no_bet: float = NO_BET
    ) -> None:
        self.bets, self.run_length = bets, run_length
        self.log_prior = np.log([no_bet, *[(1.0 - no_bet) / len(bets)] * len(bets)])
        self.log_share = self.log_prior.copy()
        self.log_wealth = self.log_largest = 0.0
        self.n_rows = self.n_unlearned = self.n_learned = 0
        self.is_detecting = np.isfinite([math.inf, *(bet.half_life for bet in bets.values())])
        self.sums = np.zeros(int(self.is_detecting.sum()))
        self.change_row: int | None = None

    def count(self, block: Block) -> Floats:
        """Count rows; return the logarithm of the wealth after each of them."""
        paths, start = [], 0
        while start < len(block.label):
            n_missing = next_step(self.n_rows) - self.n_rows
            rows = block.take(slice(start, start + n_missing))
            ratios, growth = self._bet(rows)
            if self.change_row is None and len(self.sums):
                self._detect(ratios[self.is_detecting])
            self.n_rows += len(growth)
            self.n_unlearned += len(growth)
            paths.append(self.log_wealth + growth)
            self.log_wealth = float(paths[-1][-1])
            start += n_missing
            if len(growth) == n_missing:
                self._learn()
        path = np.concatenate(paths)
        self.log_largest = max(self.log_largest, float(path.max()))
        return path

    def _bet(self, block: Block) -> tuple[Floats, Floats]:
        """Return log q(y) / p(y) of every share and row, and the log of the growth after each."""
        ratios = np.zeros((len(self.log_share), len(block.label)))
        for ratio, bet in zip(ratios[1:], self.bets.values(), strict=True):
            ratio[:] = bet.log_ratio(block)
        parts = ratios.cumsum(axis=1) + self.log_share[:, None]
        growth: Floats = logsumexp(parts, axis=0)
        self.log_share = parts[:, -1] - growth[-1]
        return ratios, growth

    def _detect(self, steps: Floats) -> None:
        """Continue the Shiryaev-Roberts sums; note the first row at which their mean is large."""
        total = steps.cumsum(axis=1)
        with np.errstate(divide="ignore"):
            logs = np.hstack([np.log(self.sums)[:, None], steps - total])
        # R of the row n is the sum over its starts m of exp(steps of m to n), without overflow.
        logs = total + np.logaddexp.accumulate(logs, axis=1)[:, 1:]
        path = np.exp(np.minimum(logs, LARGEST_POWER))
        self.sums = path[:, -1]
        reached = path.mean(axis=0) >= self.run_length
        if reached.any():
            self.change_row = self.n_rows + int(np.argmax(reached)) + 1

    def _learn(self) -> None:
        """Let every bet learn, and divide some of the wealth anew."""
        for bet in self.bets.values():
            bet.learn(self.n_unlearned)
        self.n_unlearned = 0
        self.n_learned += 1
        anew = 1.0 / (self.n_learned + 1.0)
        self.log_share = np.logaddexp(
            math.log1p(-anew) + self.log_share, math.log(anew) + self.log_prior
        )
