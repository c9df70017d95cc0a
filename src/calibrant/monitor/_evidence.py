"""The evidence against served probabilities: mixtures of bets, and a detector of changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import logsumexp

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.monitor._bets import Bet, Block, Floats

LARGEST_POWER = 600.0
"""Largest logarithm of a sum of the detector."""

MOST_CHANGES = 100
"""Number of changes that are kept, the last ones."""

ROWS_TO_SETTLE = 500
"""Rows after a change to which the new level is fitted before the next change is looked for."""

NO_BET = 0.5
"""Share of the wealth that is not bet at the start; the bets have equal parts of the rest."""

STEPS = np.array([20, 50, 100, 200, 500, 1000])
"""Bets learn at multiples of the last of these that is at most an eighth of the rows, or of 20."""


def next_step(n_rows: int) -> int:
    """Return the number of rows at which bets learn after these."""
    step = STEPS[max(int(np.searchsorted(8 * STEPS, n_rows, side="right")) - 1, 0)]
    return int((n_rows // step + 1) * step)


class BetMixture:
    """Bets on the rows of a stream, each with a share of the wealth; one share is not bet."""

    KEPT: ClassVar[tuple[str, ...]] = ("bets", "log_share", "n_rows", "weight_in_block")

    def __init__(self, bets: dict[str, Bet], no_bet: float) -> None:
        self.bets = bets
        self.log_share = np.log([no_bet, *[(1.0 - no_bet) / (len(bets) or 1)] * len(bets)])
        self.n_rows = 0
        self.weight_in_block = 0.0  # of rows since the bets last learned

    def rows_to_learn(self) -> int:
        """Return after how many more rows the bets learn."""
        return next_step(self.n_rows) - self.n_rows

    def bet(self, block: Block) -> tuple[Floats, Floats]:
        """Return log q(y) / p(y) of every share and row, and the log of the wealth after each."""
        ratios = np.zeros((len(self.log_share), len(block.label)))
        for ratio, bet in zip(ratios[1:], self.bets.values(), strict=True):
            ratio[:] = bet.log_ratio(block)
        ratios *= block.weight  # at most 1: the mean of such a power is at most 1, too
        parts = ratios.cumsum(axis=1) + self.log_share[:, None]
        growth: Floats = logsumexp(parts, axis=0)
        self.log_share = parts[:, -1] - growth[-1]
        self.n_rows += len(block.label)
        self.weight_in_block += float(block.weight.sum())
        return ratios, growth

    def learn(self) -> None:
        """Let every bet learn from the rows since the last time."""
        for bet in self.bets.values():
            bet.learn(self.weight_in_block)
        self.weight_in_block = 0.0


class Detector:
    """Find changes, each once, by Shiryaev-Roberts sums of bets of short memory.

    The bets are compared with the level since the last change, which is p, what was served, until
    the first one. R of a bet after a row is (R + 1) q(y) / p(y): R minus the number of rows is a
    martingale if p is right, so that the mean of some of them takes that many rows on average, at
    least, to reach ``run_length``.

    A change is then reported, and the sums begin anew against another level, since p would be found
    wrong again and again: that of recalibrations fitted to all rows after the change, mixed by
    their likelihood, with p among them. A shift that stays is not reported again, one that ends, or
    another one, is: bets that forget are then better than the level.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("sums", "changes", "level")

    def __init__(self, n_bets: int, run_length: float, bets: Callable[[], dict[str, Bet]]) -> None:
        self.run_length = run_length
        self.make_bets = bets
        self.n_bets = n_bets
        self.changes: list[int] = []
        self._restart()

    def _restart(self) -> None:
        """Begin to fit a level to the rows from here on."""
        bets = {name: bet for name, bet in self.make_bets().items() if math.isinf(bet.half_life)}
        self.level = BetMixture(bets, 1.0 / (len(bets) + 1.0))
        self.sums = np.zeros((self.n_bets, 1))

    def count(self, ratios: Floats, block: Block, n_before: int) -> None:
        """Go on with rows whose log q(y) / p(y), of every bet, are given."""
        start, n_rows = 0, ratios.shape[1]
        while start < n_rows and len(ratios):
            end, steps = n_rows, ratios[:, start:]
            is_settled = not self.changes or self.level.n_rows >= ROWS_TO_SETTLE
            if self.changes:
                end = min(n_rows, start + self.level.rows_to_learn())
                steps = ratios[:, start:end] - self._count_level(block.take(slice(start, end)))
            stop = self._find(steps) if is_settled else None
            start = end if stop is None else start + stop + 1
            if stop is not None:
                self.changes = [*self.changes, n_before + start][-MOST_CHANGES:]
                self._restart()

    def _count_level(self, block: Block) -> Floats:
        """Return log q(y) / p(y) of the level at each row, a mixture that follows the rows."""
        is_full = len(block.label) == self.level.rows_to_learn()
        growth = self.level.bet(block)[1]
        if is_full:
            self.level.learn()
        return np.diff(growth, prepend=0.0)

    def _find(self, steps: Floats) -> int | None:
        """Continue the sums; return the first row at which their mean reaches the run length."""
        sums = steps.cumsum(axis=1)
        with np.errstate(divide="ignore"):
            logs = np.hstack([np.log(self.sums), steps - sums])
        # R of the row n is the sum over its starts m of exp(steps of m to n), without overflow.
        logs = sums + np.logaddexp.accumulate(logs, axis=1)[:, 1:]
        path = np.exp(np.minimum(logs, LARGEST_POWER))
        reached = path.mean(axis=0) >= self.run_length
        self.sums = path[:, -1:]
        return int(np.argmax(reached)) if reached.any() else None


class Evidence(BetMixture):
    """The e-process of one stream of rows, valid at every stopping time.

    A row multiplies the share of each bet by its q(y) / p(y); if p is right, that is 1 on average
    whatever was before, so the wealth is a nonnegative martingale that starts at 1. When bets learn
    for the j-th time, a share 1 / (j + 1) of the wealth is divided anew as at the start, so that
    bets that lost while nothing was wrong are there when something is. Rows, not batches, say when
    that is: batches change nothing. The change detector takes the bets of short memory, which lose
    while nothing is wrong.
    """

    KEPT: ClassVar[tuple[str, ...]] = (
        *BetMixture.KEPT,
        "log_wealth",
        "log_largest",
        "n_learned",
        "detector",
    )

    def __init__(
        self,
        bets: dict[str, Bet],
        run_length: float = math.inf,
        no_bet: float = NO_BET,
        level: Callable[[], dict[str, Bet]] = dict,
    ) -> None:
        super().__init__(bets, no_bet)
        self.log_prior = self.log_share.copy()
        self.is_detecting = np.isfinite([math.inf, *(bet.half_life for bet in bets.values())])
        n_detecting = int(self.is_detecting.sum()) if math.isfinite(run_length) else 0
        self.detector = Detector(n_detecting, run_length, level)
        self.log_wealth = 0.0
        self.log_largest = 0.0
        self.n_learned = 0

    def count(self, block: Block) -> Floats:
        """Count rows; return the logarithm of the wealth after each of them."""
        paths, start = [], 0
        while start < len(block.label):
            n_before, n_missing = self.n_rows, self.rows_to_learn()
            rows = block.take(slice(start, start + n_missing))
            ratios, growth = self.bet(rows)
            if self.detector.n_bets:
                self.detector.count(ratios[self.is_detecting], rows, n_before)
            paths.append(self.log_wealth + growth)
            self.log_wealth = float(paths[-1][-1])
            start += n_missing
            if len(growth) == n_missing:
                self.learn()
        path = np.concatenate(paths)
        self.log_largest = max(self.log_largest, float(path.max()))
        return path

    def learn(self) -> None:
        """Let every bet learn, and divide some of the wealth anew."""
        super().learn()
        self.n_learned += 1
        anew = 1.0 / (self.n_learned + 1.0)
        self.log_share = np.logaddexp(
            math.log1p(-anew) + self.log_share, math.log(anew) + self.log_prior
        )
