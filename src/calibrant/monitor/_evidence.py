"""The evidence against served probabilities: a mixture of bets, and a detector of the change.

With it, means that are valid at all times, and sums by period.

Bets are recalibrations q that are fitted to rows already counted. Each returns log q(y) / p(y) of
new rows before it learns from them. Parameters are those of a normal approximation: a block of rows
adds its gradient and Hessian at what it was bet with.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp

from calibrant._kernels.rows import first_top_columns
from calibrant._result import Estimate

if TYPE_CHECKING:
    from calibrant._types import Bools, Floats, Wholes


HALF_LIVES = (math.inf, 500.0)
"""Number of rows after which a row counts half: infinite, and few."""

MOST_CLASSES_FULL, MOST_CLASSES_WITH_TERMS = 16, 2000
"""Number of classes up to which the Hessian of class terms is a matrix, and its diagonal; with more
classes nothing is bet on their frequencies."""

KNOTS = np.array([-6.0, -4.0, -2.5, -1.0, 0.0, 1.0, 2.5, 4.0, 6.0])
"""Log-odds between which the curve is linear."""

MIN_PROBABILITY = 1e-6
"""Smaller probabilities are replaced by this: a row multiplies the evidence by at most 1e6."""

SPREAD = 0.01
"""Share of equal probabilities in the bet on surprises."""


class Block(NamedTuple):
    """Rows as the bets see them; probabilities below the floor are the floor."""

    probability: Floats
    log_p: Floats
    label: Wholes
    of_label: Floats  # log p of the label, floored
    log_odds: Floats  # of the event of the curve
    hats: Floats  # of the knots at the log-odds: each row has two that sum to 1
    event: Bools
    of_event: Floats  # log p of what happened: the event or not, floored

    def take(self, rows: slice) -> Block:
        """Return some of the rows."""
        return Block(*(part[rows] for part in self))  # type: ignore[arg-type]


def make_block(p: Floats, label: Wholes, floor: float = MIN_PROBABILITY) -> Block:
    """Prepare checked rows; the event is the second of two classes, and of more the top one."""
    rows = np.arange(len(p))
    floored = np.maximum(p, floor)
    log_p = np.log(floored)
    top = np.ones(len(p), dtype=np.intp)
    if p.shape[1] > 2:
        first_top_columns(p, top)
    chance = p[rows, top]
    event = label == top
    log_yes = np.log(np.maximum(chance, floor))
    log_no = np.log(np.maximum(1.0 - chance, floor))
    log_odds = log_yes - log_no
    s = np.clip(log_odds, KNOTS[0], KNOTS[-1])
    left = np.minimum(np.searchsorted(KNOTS, s, side="right") - 1, len(KNOTS) - 2)
    share = (s - KNOTS[left]) / (KNOTS[left + 1] - KNOTS[left])
    hats = np.zeros((len(p), len(KNOTS)))
    hats[rows, left], hats[rows, left + 1] = 1.0 - share, share
    of_event = np.where(event, log_yes, log_no)
    of_label = log_p[rows, label]
    return Block(floored, log_p, label, of_label, log_odds, hats, event, of_event)


class Bet(ABC):
    """A family of recalibrations, fitted to past rows by sums of second-order models of their loss.

    The parameters x minimise x' precision x / 2 - linear' x + ridge x' x / 2; x = 0, where the sums
    begin and what the ridge pulls to, changes no probability. Older rows are discounted.
    """

    ridge: float
    limits: tuple[float, float]
    KEPT: ClassVar[tuple[str, ...]] = ("precision", "hessian", "linear", "gradient", "value")

    def __init__(self, size: int, half_life: float, *, is_diagonal: bool = False) -> None:
        self.half_life, self.is_diagonal = half_life, is_diagonal
        shape = (size,) if is_diagonal else (size, size)
        self.precision, self.hessian = np.zeros((2, *shape))
        self.linear, self.value, self.gradient = np.zeros((3, size))

    @abstractmethod
    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y), and add gradient and Hessian of the rows."""

    def learn(self, n_rows: float) -> None:
        """Move the parameters by the rows since the last time; later rows are bet with them."""
        kept, hessian = 0.5 ** (n_rows / self.half_life), self.hessian
        pulled = hessian * self.value if self.is_diagonal else hessian @ self.value
        self.precision = kept * self.precision + hessian
        self.linear = kept * self.linear + pulled - self.gradient
        if self.is_diagonal:
            value = self.linear / (self.precision + self.ridge)
        else:
            whole = self.precision + self.ridge * np.eye(len(self.linear))
            value = np.linalg.solve(whole, self.linear)
        self.value = np.clip(value, *self.limits)
        self.gradient, self.hessian = np.zeros_like(value), np.zeros_like(hessian)


class TemperatureBet(Bet):
    """q is p to the power of 1 + value, normalised."""

    ridge, limits = 10.0, (-0.95, 9.0)

    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y), and add gradient and Hessian of the rows."""
        z = block.log_p
        power = 1.0 + self.value[0]
        e, ones = np.exp(power * z), np.ones(z.shape[1])
        total = e @ ones
        e *= z
        mean = e @ ones / total
        spread = np.einsum("ij,ij->i", e, z) / total - mean * mean
        slope = mean - block.of_label
        self.gradient[0] += slope.sum()
        self.hessian[0] += spread.sum()
        out: Floats = (power - 1.0) * block.of_label - np.log(total)
        return out


class ClassBet(Bet):
    """q is p times a factor for each class, normalised."""

    ridge, limits = 4.0, (-6.0, 6.0)

    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y), and add gradient and Hessian of the rows."""
        b = self.value
        factor = np.exp(b)
        total = block.probability @ factor
        scale = 1.0 / total
        expected = factor * (scale @ block.probability)
        self.gradient += expected - np.bincount(block.label, minlength=len(b))
        if self.is_diagonal:
            self.hessian += expected  # at least the Hessian, which is this minus the sum of q q'
        else:
            products = (block.probability * (scale / total)[:, None]).T @ block.probability
            self.hessian += np.diag(expected) - factor[:, None] * products * factor
        out: Floats = b[block.label] - np.log(total)
        return out


class CurveBet(Bet):
    """Log-odds of the top class, or of the second of two, plus a piecewise linear curve of them.

    The other classes share what is left in the ratio in which they were served.
    """

    ridge, limits = 4.0, (-6.0, 6.0)

    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y), and add gradient and Hessian of the rows."""
        x = block.log_odds + block.hats @ self.value
        odds_against = np.exp(-x)
        q = 1.0 / (1.0 + odds_against)
        slope, curvature = q - block.event, q * (1.0 - q)
        self.gradient += slope @ block.hats
        self.hessian += block.hats.T @ (block.hats * curvature[:, None])
        out: Floats = -np.log1p(odds_against) - np.where(block.event, 0.0, x) - block.of_event
        return out


class SpreadBet(Bet):
    """q is p mixed with equal probabilities: nothing is impossible. It learns nothing."""

    ridge, limits = 1.0, (0.0, 0.0)

    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y)."""
        n_classes = block.probability.shape[1]
        out: Floats = np.log1p(SPREAD * (np.exp(-block.of_label) / n_classes - 1.0))
        return out

    def learn(self, n_rows: float) -> None:
        """Stay as it is."""


def make_bets(n_classes: int) -> dict[str, Bet]:
    """Return all bets by name; those that learn, once for each half-life."""
    bets: dict[str, Bet] = {}
    for half_life, memory in zip(HALF_LIVES, ("all", "recent"), strict=True):
        bets[f"temperature, {memory}"] = TemperatureBet(1, half_life, is_diagonal=True)
        if n_classes <= MOST_CLASSES_WITH_TERMS:
            is_diagonal = n_classes > MOST_CLASSES_FULL
            bets[f"classes, {memory}"] = ClassBet(n_classes, half_life, is_diagonal=is_diagonal)
        bets[f"curve, {memory}"] = CurveBet(len(KNOTS), half_life)
    return bets | {"surprises": SpreadBet(1, HALF_LIVES[-1])}


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


MOST_PERIODS = 64  # periods that are kept: of more, neighbours become one
LARGEST_PART = 1000  # rows of a batch that are one period at most, while there are few
FIELDS = ("rows", "hits", "confidence", "log_e")
"""Columns of a period: sums over its rows, and the evidence at its end."""

_GROWTH, _POWER, _ZETA = 2.0, 1.4, 3.105  # of the epochs, of their prior, and zeta(1.4)
_K1, _K2 = (_GROWTH**0.25 + _GROWTH**-0.25) / math.sqrt(2.0), (math.sqrt(_GROWTH) + 1.0) / 2.0


@dataclass
class MeanSequence:
    """Mean of numbers in [low, high].

    The interval covers the mean of the conditional expectations of the rows counted, at all times
    at once, whatever they are and however they change: the empirical Bernstein confidence sequence
    with the stitched boundary of Howard, Ramdas, McAuliffe and Sekhon (2021, Theorem 4, eq. 10).
    """

    low: float
    high: float
    n_rows: int = 0
    total: float = 0.0
    variance: float = 0.0
    KEPT: ClassVar[tuple[str, ...]] = ("n_rows", "total", "variance")

    def count(self, values: Floats) -> None:
        """Add rows; each is compared with the mean of those before it."""
        totals = np.cumsum(values)
        middle = 0.5 * (self.low + self.high)
        n_before = self.n_rows + 1.0 + np.arange(len(values))  # and one row at the middle
        deviation = values - (self.total + middle + totals - values) / n_before
        self.variance += float(deviation @ deviation)
        self.n_rows += len(values)
        self.total += float(totals[-1])

    def estimate(self, alpha: float) -> Estimate:
        """Return the mean and its interval, which misses at some time with probability alpha."""
        if self.n_rows == 0:
            return Estimate(math.nan, self.low, self.high)
        # The variance is in epochs, each _GROWTH times as long as the one before; the epoch k has
        # the part k^-_POWER / _ZETA of alpha, so that the bound holds in all of them at once.
        v, scale = max(self.variance, 1.0), self.high - self.low
        epochs = _POWER * math.log(math.log(_GROWTH * v) / math.log(_GROWTH))
        level = epochs + math.log(2.0 * _ZETA / alpha)
        bound = math.sqrt(_K1**2 * v * level + (_K2 * scale * level) ** 2) + _K2 * scale * level
        mean, half = self.total / self.n_rows, bound / self.n_rows
        return Estimate(mean, max(mean - half, self.low), min(mean + half, self.high))


class Periods:
    """Sums over stretches of rows; when there are too many, neighbours become one."""

    KEPT: ClassVar[tuple[str, ...]] = ("table", "fewest_rows")

    def __init__(self) -> None:
        self.table = np.zeros((0, len(FIELDS)))
        self.fewest_rows = 1

    def column(self, name: str) -> Floats:
        """One field of all periods."""
        return self.table[:, FIELDS.index(name)]

    def add(self, confidence: Floats, hit: Floats, log_e: Floats) -> None:
        """Add rows, in several parts if they are many: a large batch has a course as well."""
        step = max(self.fewest_rows, LARGEST_PART)
        for start in range(0, len(hit), step):
            part = slice(start, start + step)
            sums = len(hit[part]), hit[part].sum(), confidence[part].sum(), log_e[part][-1]
            self._add(np.array(sums, dtype=np.float64))

    def _add(self, new: Floats) -> None:
        """Add sums, to the last period if that is not full."""
        if len(self.table) and self.column("rows")[-1] < self.fewest_rows:
            self.table[-1] = _join(self.table[-1], new)
        else:
            self.table = np.concatenate([self.table, new[None]])
        if len(self.table) > MOST_PERIODS:
            odd = self.table[len(self.table) // 2 * 2 :]
            self.table = np.concatenate([_join(self.table[:-1:2], self.table[1::2]), odd])
            self.fewest_rows = int(self.column("rows")[:-1].min())


def _join(first: Floats, second: Floats) -> Floats:
    """Add up periods that follow each other; the evidence is that at the end."""
    joined = first + second
    joined[..., -1] = second[..., -1]
    return joined
