"""``Detector``: finds changes, each once, by Shiryaev-Roberts sums of bets of short memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calibrant.monitor._state import LARGEST_LOG, Bounds, require

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant.monitor._bets import Bet, Block, Floats

LARGEST_POWER = 600.0

MOST_ROWS = 2**53
"""Of a stream, so that their number is exact as a float, too."""

MOST_CHANGES = 100
"""Changes that are kept, the last ones."""

ROWS_TO_SETTLE = 500
"""Rows after a change to which the new level is fitted before the next change is looked for."""


STEPS = np.array([20, 50, 100, 200, 500, 1000])
"""Bets learn at multiples of the last of these that is at most an eighth of the rows, or of 20."""


def next_step(n_rows: int) -> int:
    """Return the number of rows at which bets learn after these."""
    step = STEPS[max(int(np.searchsorted(8 * STEPS, n_rows, side="right")) - 1, 0)]
    return int((n_rows // step + 1) * step)


def log_sum(logs: Floats, axis: int | None = None) -> Any:
    """Logarithm of the sum of exponentials, of which one at least is not zero."""
    top = logs.max(axis=axis, keepdims=True)
    total: Any = np.log(np.exp(logs - top).sum(axis=axis)) + top.squeeze(axis)
    return float(total) if axis is None else total


class Detector:
    """Compare bets of short memory with the level since the last change.

    Until the first change the level is p, what was served. R of a bet after a row is
    (R + 1) q(y) / p(y): R minus the number of rows is a martingale if p is right, so that the mean
    of some of them takes that many rows on average, at least, to reach ``run_length``.

    There a change is told, and the sums begin anew against another level, since p would be found
    wrong again and again: that of recalibrations fitted to all rows after the change, mixed by
    their likelihood, with p among them. A shift that stays is not told again, one that ends, or
    another one, is: bets that forget are then better than the level.
    """

    KEPT: ClassVar[Bounds] = {
        "sums": (0.0, 1e270),
        "changes": None,
        "log_share": (-LARGEST_LOG, 1e-6),
    }
    KEPT |= {"n_since": (0, MOST_ROWS), "learns_at": (0, MOST_ROWS), "weight_in_block": (0.0, 1e6)}

    def __init__(self, n_bets: int, run_length: float, level: Callable[[], dict[str, Bet]]) -> None:
        self.run_length = run_length
        self.begin_level = level
        self.sums = np.zeros((n_bets, 1))
        self.changes: list[int] = []
        self._restart()

    def _restart(self) -> None:
        """Fit another level from here on."""
        bets = self.begin_level().items()
        self.level = {name: bet for name, bet in bets if math.isinf(bet.half_life)}
        self.log_share = np.full(len(self.level) + 1, -math.log(len(self.level) + 1.0))
        self.sums = np.zeros_like(self.sums)
        self.n_since, self.learns_at, self.weight_in_block = 0, next_step(0), 0.0

    def check_state(self) -> None:
        """Refuse what rows cannot have made."""
        rows = self.changes
        is_list = isinstance(rows, list) and len(rows) <= MOST_CHANGES
        is_list = is_list and all(type(row) is int and 0 < row < MOST_ROWS for row in rows)
        require(is_list, "changes are not numbers of rows")
        require(rows == sorted(set(rows)), "changes are not in order")
        require(abs(log_sum(self.log_share)) < 1e-6, "log_share is no distribution")
        is_next = self.learns_at == next_step(self.n_since)
        require(is_next, f"learns_at does not follow {self.n_since} rows")

    def count(self, ratios: Floats, block: Block, n_before: int) -> None:
        """Go on with rows whose log q(y) / p(y), of every bet, are given."""
        start, n_rows = 0, ratios.shape[1]
        while start < n_rows and len(ratios):
            end, steps = n_rows, ratios[:, start:]
            is_settled = not self.changes or self.n_since >= ROWS_TO_SETTLE
            if self.changes:
                end = min(n_rows, start + self.learns_at - self.n_since)
                steps = ratios[:, start:end] - self._count_level(block.take(slice(start, end)))
            stop = self._find(steps) if is_settled else None
            start = end if stop is None else start + stop + 1
            if stop is None:
                continue
            self.changes = [*self.changes, n_before + start][-MOST_CHANGES:]
            self._restart()

    def _count_level(self, block: Block) -> Floats:
        """Return log q(y) / p(y) of the level at each row, a mixture that follows the rows."""
        parts = np.zeros((len(self.log_share), len(block.label)))
        for part, bet in zip(parts[1:], self.level.values(), strict=True):
            part[:] = bet.log_ratio(block)
        parts *= block.weight
        parts = parts.cumsum(axis=1) + self.log_share[:, None]
        growth: Floats = log_sum(parts, axis=0)
        self.log_share = parts[:, -1] - growth[-1]
        self.weight_in_block += float(block.weight.sum())
        self.n_since += len(block.label)
        if self.n_since == self.learns_at:
            for bet in self.level.values():
                bet.learn(self.weight_in_block)
            self.learns_at, self.weight_in_block = next_step(self.n_since), 0.0
        return np.diff(growth, prepend=0.0)

    def _find(self, steps: Floats) -> int | None:
        """Continue the sums; return the first row at which their mean reaches the run length."""
        sums = steps.cumsum(axis=1)
        if np.abs(sums).max() < LARGEST_POWER:
            path = np.exp(sums) * (self.sums + np.exp(steps - sums).cumsum(axis=1))
        else:  # the same without overflow
            with np.errstate(divide="ignore"):
                logs = np.hstack([np.log(self.sums), steps - sums])
            logs = sums + np.logaddexp.accumulate(logs, axis=1)[:, 1:]
            path = np.exp(np.minimum(logs, LARGEST_POWER))
        reached = path.mean(axis=0) >= self.run_length
        self.sums = path[:, -1:]
        return int(np.argmax(reached)) if reached.any() else None
