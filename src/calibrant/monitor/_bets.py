"""Bets against served probabilities: recalibrations q that are fitted to rows already counted.

Each returns log q(y) / p(y) of new rows before it learns from them. Parameters are those of a
normal approximation: a block of rows adds its gradient and Hessian at what it was bet with.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from calibrant._kernels.rows import first_top_columns

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
