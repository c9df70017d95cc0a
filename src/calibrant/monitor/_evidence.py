"""``Evidence``: the e-process of one stream of rows, and the change detector that is made of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from calibrant.monitor._bets import Bet, Block, Floats

NO_BET = 0.5
"""Share of the wealth that is not bet at the start; the bets have equal parts of the rest."""

STEPS = np.array([20, 50, 100, 200, 500, 1000])
"""Bets learn at multiples of the last of these that is at most an eighth of the rows, or of 20."""


LARGEST_POWER = 600.0
MOST_CHANGES = 100
"""Alarms of the change detector that are kept, the last ones."""


def log_sum(logs: Floats, axis: int | None = None) -> Any:
    """Logarithm of the sum of exponentials, of which one at least is not zero."""
    top = logs.max(axis=axis, keepdims=True)
    total: Any = np.log(np.exp(logs - top).sum(axis=axis)) + top.squeeze(axis)
    return float(total) if axis is None else total


class Evidence:
    """A mixture of bets against the probabilities of a stream, valid at every stopping time.

    The wealth is divided among the bets, and some of it is not bet. A row multiplies each part by
    the bet's q(y) / p(y); if p is right, that is 1 on average whatever was before, so wealth is a
    nonnegative martingale that starts at 1. When bets learn for the j-th time, a share 1 / (j + 1)
    of the wealth is divided anew as at the start, so that bets that lost while nothing was wrong
    are there when something is. Rows, not batches, say when that is: batches change nothing.
    The change detector takes the bets of short memory, which lose while nothing is wrong.
    """

    KEPT: tuple[str, ...] = ("log_share", "log_wealth", "log_largest", "detector", "changes")
    KEPT += ("n_rows", "n_learned", "learns_at", "weight_in_block")

    def __init__(
        self, bets: dict[str, Bet], run_length: float = math.inf, no_bet: float = NO_BET
    ) -> None:
        self.bets = bets
        self.run_length = run_length
        memories = [bet.half_life for bet in bets.values()]
        self.is_detecting = np.isfinite([math.inf, *memories])
        self.detector = np.zeros((int(self.is_detecting.sum()), 1))
        parts = [no_bet, *[(1.0 - no_bet) / len(bets)] * len(bets)]
        self.log_prior = np.log(parts)
        self.log_share = self.log_prior.copy()
        self.log_wealth = 0.0
        self.log_largest = 0.0
        self.changes: list[int] = []
        self.n_rows = 0
        self.n_learned = 0
        self.learns_at = int(STEPS[0])
        self.weight_in_block = 0.0

    def count(self, block: Block) -> Floats:
        """Count rows; return the logarithm of the wealth after each of them."""
        paths, start = [], 0
        while start < len(block.label):
            stop = min(len(block.label), start + self.learns_at - self.n_rows)
            paths.append(self._bet(block.take(slice(start, stop))))
            if self.n_rows == self.learns_at:
                self._learn()
            start = stop
        path = np.concatenate(paths)
        self.log_largest = max(self.log_largest, float(path.max()))
        return path

    def _bet(self, block: Block) -> Floats:
        parts = np.zeros((len(self.log_share), len(block.label)))
        for part, bet in zip(parts[1:], self.bets.values(), strict=True):
            part[:] = bet.log_ratio(block)
        parts *= block.weight  # at most 1: the mean of such a power is at most 1, too
        self._detect(parts[self.is_detecting])
        np.cumsum(parts, axis=1, out=parts)
        parts += self.log_share[:, None]
        growth: Floats = log_sum(parts, axis=0)
        self.log_share = parts[:, -1] - growth[-1]
        path = self.log_wealth + growth
        self.log_wealth = float(path[-1])
        self.n_rows += len(path)
        self.weight_in_block += float(block.weight.sum())
        return path

    def _detect(self, ratios: Floats) -> None:
        """Go on with the Shiryaev-Roberts sums: R of a bet after a row is (R + 1) q(y) / p(y).

        R minus the number of rows is a martingale if p is right, so that the mean of some of them
        takes that many rows on average, at least, to reach a number. There it begins anew.
        """
        start, n_rows = 0, ratios.shape[1]
        while start < n_rows and len(ratios):
            steps = ratios[:, start:]
            sums = steps.cumsum(axis=1)
            if np.abs(sums).max() < LARGEST_POWER:
                path = np.exp(sums) * (self.detector + np.exp(steps - sums).cumsum(axis=1))
            else:  # the same without overflow
                with np.errstate(divide="ignore"):
                    logs = np.hstack([np.log(self.detector), steps - sums])
                logs = sums + np.logaddexp.accumulate(logs, axis=1)[:, 1:]
                path = np.exp(np.minimum(logs, LARGEST_POWER))
            reached = path.mean(axis=0) >= self.run_length
            found = bool(reached.any())
            stop = int(np.argmax(reached)) if found else n_rows - start - 1
            self.detector = np.zeros_like(self.detector) if found else path[:, stop:]
            start += stop + 1
            if found:
                self.changes = [*self.changes, self.n_rows + start][-MOST_CHANGES:]

    def _learn(self) -> None:
        for bet in self.bets.values():
            bet.learn(self.weight_in_block)
        self.weight_in_block = 0.0
        self.n_learned += 1
        anew = 1.0 / (self.n_learned + 1.0)
        self.log_share = np.logaddexp(
            math.log1p(-anew) + self.log_share, math.log(anew) + self.log_prior
        )
        step = STEPS[max(int(np.searchsorted(8 * STEPS, self.n_rows, side="right")) - 1, 0)]
        self.learns_at = int((self.n_rows // step + 1) * step)
