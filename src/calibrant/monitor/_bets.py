"""Bets against served probabilities: recalibrations q that are fitted to rows already counted.

Each returns log q(y) / p(y) of new rows before it learns from them. Parameters are those of a
normal approximation: a block of rows adds its gradient and Hessian at what it was bet with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._kernels.rows import first_top_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HALF_LIVES = (math.inf, 500.0)
"""Rows after which a row counts half: never, and soon."""

MOST_CLASSES_FULL = 16
"""Up to so many classes the curvature of class terms is a matrix; above, its diagonal."""

KNOTS = np.array([-6.0, -4.0, -2.5, -1.0, 0.0, 1.0, 2.5, 4.0, 6.0])
"""Log-odds between which the curve is linear."""

SPREAD = 0.01
"""Share of the bet on surprises that is the same for all classes."""


class Block(NamedTuple):
    """Rows as the bets see them; probabilities below the floor are the floor."""

    probability: Floats
    log_p: Floats
    label: NDArray[np.int64]
    weight: Floats | None
    of_label: Floats  # log p of the label, floored
    log_odds: Floats  # of the event of the curve
    hats: Floats  # of the knots at the log-odds: each row has two that sum to 1
    event: NDArray[np.bool_]
    of_event: Floats  # log p of what happened: the event or not, floored

    def take(self, rows: slice) -> Block:
        """Return some of the rows."""
        return Block(*(None if part is None else part[rows] for part in self))


def make_block(p: Floats, label: NDArray[np.int64], weight: Floats | None, floor: float) -> Block:
    """Prepare checked rows: the event is the second of two classes, of more the top one."""
    rows = np.arange(len(p))
    floored = np.maximum(p, floor)
    log_p = np.log(floored)
    top = np.ones(len(p), dtype=np.int64)
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
    return Block(floored, log_p, label, weight, of_label, log_odds, hats, event, of_event)


@dataclass
class Quadratic:
    """Sum of second-order models of the loss, older rows discounted: precision and linear term.

    The parameters minimise x' precision x / 2 - linear' x; at the start, and in the limit of the
    discount, that is a ridge towards zero, which is no change of the probabilities.
    """

    size: int
    ridge: float
    half_life: float
    is_diagonal: bool = False
    precision: Floats = field(init=False)
    linear: Floats = field(init=False)
    value: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.size,) if self.is_diagonal else (self.size, self.size)
        self.precision = np.zeros(shape)
        self.linear = np.zeros(self.size)
        self.value = np.zeros(self.size)

    def add(
        self, gradient: Floats, hessian: Floats, n_rows: float, limits: tuple[float, float]
    ) -> None:
        """Add a block's gradient and Hessian at the value, and move to the new minimum."""
        kept = 0.5 ** (n_rows / self.half_life)
        pulled = hessian * self.value if self.is_diagonal else hessian @ self.value
        self.precision = kept * self.precision + hessian
        self.linear = kept * self.linear + pulled - gradient
        if self.is_diagonal:
            found = self.linear / (self.precision + self.ridge)
        else:
            whole = self.precision.copy()
            whole.flat[:: self.size + 1] += self.ridge
            found = np.linalg.solve(whole, self.linear)
        self.value = np.minimum(np.maximum(found, limits[0]), limits[1])


class Bet:
    """A family of recalibrations, its parameters, and the sums of the block that is not full."""

    ridge: float
    limits: tuple[float, float]

    def __init__(self, size: int, half_life: float, *, is_diagonal: bool = False) -> None:
        self.fit = Quadratic(size, self.ridge, half_life, is_diagonal)
        self.gradient = np.zeros(size)
        self.hessian = np.zeros_like(self.fit.precision)

    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y), and add gradient and Hessian of the rows."""
        raise NotImplementedError

    def learn(self, n_rows: float) -> None:
        """Move the parameters: the block is full, and later rows are bet with what it taught."""
        self.fit.add(self.gradient, self.hessian, n_rows, self.limits)
        self.gradient[...] = 0.0
        self.hessian[...] = 0.0

    def state(self) -> dict[str, Floats]:
        """Arrays that say all about it."""
        fit = self.fit
        names = {"precision": fit.precision, "linear": fit.linear, "value": fit.value}
        return names | {"gradient": self.gradient, "hessian": self.hessian}

    def restore(self, state: dict[str, Floats]) -> None:
        """Take arrays of ``state`` back; their shapes must be its own."""
        for name, own in self.state().items():
            own[...] = state[name].reshape(own.shape)


class TemperatureBet(Bet):
    """q is p to the power of 1 + value, normalised."""

    ridge, limits = 10.0, (-0.95, 9.0)

    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y), and add gradient and Hessian of the rows."""
        z = block.log_p
        power = 1.0 + self.fit.value[0]
        e, ones = np.exp(power * z), np.ones(z.shape[1])
        total = e @ ones
        e *= z
        mean = e @ ones / total
        spread = np.einsum("ij,ij->i", e, z) / total - mean * mean
        slope = mean - block.of_label
        w = block.weight
        self.gradient[0] += slope.sum() if w is None else slope @ w
        self.hessian[0] += spread.sum() if w is None else spread @ w
        out: Floats = (power - 1.0) * block.of_label - np.log(total)
        return out


class ClassBet(Bet):
    """q is p times a factor for each class, normalised."""

    ridge, limits = 4.0, (-6.0, 6.0)

    def log_ratio(self, block: Block) -> Floats:
        """Return log q(y) / p(y), and add gradient and Hessian of the rows."""
        b, w = self.fit.value, block.weight
        factor = np.exp(b)
        total = block.probability @ factor
        scale = 1.0 / total if w is None else w / total
        expected = factor * (scale @ block.probability)
        self.gradient += expected - np.bincount(block.label, w, minlength=len(b))
        if self.fit.is_diagonal:
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
        x = block.log_odds + block.hats @ self.fit.value
        odds_against = np.exp(-x)
        q = 1.0 / (1.0 + odds_against)
        slope, curvature = q - block.event, q * (1.0 - q)
        if block.weight is not None:
            slope, curvature = slope * block.weight, curvature * block.weight
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


def make_bets(n_classes: int, *, has_class_terms: bool = True) -> dict[str, Bet]:
    """All bets, by name; those that learn once for each half-life."""
    bets: dict[str, Bet] = {}
    for half_life, memory in zip(HALF_LIVES, ("all", "recent"), strict=True):
        bets[f"temperature, {memory}"] = TemperatureBet(1, half_life, is_diagonal=True)
        if has_class_terms:
            is_diagonal = n_classes > MOST_CLASSES_FULL
            bets[f"classes, {memory}"] = ClassBet(n_classes, half_life, is_diagonal=is_diagonal)
        bets[f"curve, {memory}"] = CurveBet(len(KNOTS), half_life)
    return bets | {"surprises": SpreadBet(1, HALF_LIVES[-1])}
