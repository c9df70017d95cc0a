"""``Evidence``: the e-process of one stream of rows, and the change detector that is made of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from calibrant.monitor._detector import MOST_ROWS, Detector, log_sum, next_step
from calibrant.monitor._state import LARGEST_LOG, Bounds, require

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.monitor._bets import Bet, Block, Floats

NO_BET = 0.5
"""Share of the wealth that is not bet at the start; the bets have equal parts of the rest."""


class Evidence:
    """A mixture of bets against the probabilities of a stream, valid at every stopping time.

    The wealth is divided among the bets, and some of it is not bet. A row multiplies each part by
    the bet's q(y) / p(y); if p is right, that is 1 on average whatever was before, so wealth is a
    nonnegative martingale that starts at 1. When bets learn for the j-th time, a share 1 / (j + 1)
    of the wealth is divided anew as at the start, so that bets that lost while nothing was wrong
    are there when something is. Rows, not batches, say when that is: batches change nothing.
    The change detector takes the bets of short memory, which lose while nothing is wrong.
    """

    KEPT: ClassVar[Bounds] = dict.fromkeys(
        ("log_wealth", "log_largest"), (-LARGEST_LOG, LARGEST_LOG)
    )
    KEPT |= dict.fromkeys(("n_rows", "n_learned", "learns_at"), (0, MOST_ROWS))
    KEPT |= {"log_share": (-LARGEST_LOG, 1e-6), "weight_in_block": (0.0, 1e6)}

    def __init__(
        self,
        bets: dict[str, Bet],
        run_length: float = math.inf,
        no_bet: float = NO_BET,
        level: Callable[[], dict[str, Bet]] = dict,
    ) -> None:
        self.bets = bets
        memories = [bet.half_life for bet in bets.values()]
        self.is_detecting = np.isfinite([math.inf, *memories])
        n_detecting = int(self.is_detecting.sum()) if math.isfinite(run_length) else 0
        self.detector = Detector(n_detecting, run_length, level)
        parts = [no_bet, *[(1.0 - no_bet) / len(bets)] * len(bets)]
        self.log_prior = np.log(parts)
        self.log_share = self.log_prior.copy()
        self.log_wealth = 0.0
        self.log_largest = 0.0
        self.n_rows = 0
        self.n_learned = 0
        self.learns_at = next_step(0)
        self.weight_in_block = 0.0

    def check_state(self) -> None:
        """Refuse what rows cannot have made."""
        require(abs(log_sum(self.log_share)) < 1e-6, "log_share is no distribution")
        is_next = self.learns_at == next_step(self.n_rows)
        require(is_next, f"learns_at does not follow {self.n_rows} rows")
        require(self.n_learned <= self.n_rows, "n_learned is more than there are rows")
        require(self.log_largest >= self.log_wealth - 1e-6, "log_largest is not the largest")

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
        if len(self.detector.sums):
            self.detector.count(parts[self.is_detecting], block, self.n_rows)
        np.cumsum(parts, axis=1, out=parts)
        parts += self.log_share[:, None]
        growth: Floats = log_sum(parts, axis=0)
        self.log_share = parts[:, -1] - growth[-1]
        path = self.log_wealth + growth
        self.log_wealth = float(path[-1])
        self.n_rows += len(path)
        self.weight_in_block += float(block.weight.sum())
        return path

    def _learn(self) -> None:
        for bet in self.bets.values():
            bet.learn(self.weight_in_block)
        self.weight_in_block = 0.0
        self.n_learned += 1
        anew = 1.0 / (self.n_learned + 1.0)
        self.log_share = np.logaddexp(
            math.log1p(-anew) + self.log_share, math.log(anew) + self.log_prior
        )
        self.learns_at = next_step(self.n_rows)
