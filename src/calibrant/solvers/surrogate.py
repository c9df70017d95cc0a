"""The next point of a fit to rows beyond memory, by the rows that were kept and gradients of all.

The kept rows with a linear term that corrects their gradient (the surrogate likelihood of Jordan,
Lee and Yang, 2019) stand for the Hessian of all rows. Where they are few, pairs of steps and
changes of the gradient so far correct that, too (the two loops of L-BFGS).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant.objectives.base import held_by_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from calibrant.objectives.base import Objective
    from calibrant.simplex import SimplexBatch

    Array = NDArray[np.float64]

SHORTER = 0.3
"""Factor on a step from a point that the last one did not better."""

ROUNDING = 1e-12
"""Part of a value that two points may differ by and be as good."""


class Evaluation(NamedTuple):
    """Mean loss and gradient of all rows at a point, without the penalty."""

    point: Array
    loss: float
    gradient: Array


def best_evaluation(objective: Objective, history: Sequence[Evaluation]) -> int:
    """Return which of some points has the least penalised loss; the last of equals."""
    values = np.array([one.loss + objective.penalty(one.point)[0] for one in history])
    least = values.min()
    return int(np.flatnonzero(values <= least + ROUNDING * abs(least))[-1])


def surrogate_step(
    objective: Objective,
    history: Sequence[Evaluation],
    kept: SimplexBatch,
    refit: Callable[[Array, Array], Array],
) -> Array:
    """Return a point that should be better than the best of the history.

    ``refit(linear_term, start)`` minimises mean_kept loss(t) + penalty(t) - <linear_term, t>.
    """
    best = best_evaluation(objective, history)
    point = history[best].point
    gradients = [one.gradient + objective.penalty(one.point)[1] for one in history]
    held = held_by_bounds(point, gradients[best], objective.bounds)
    pairs = _pairs([one.point for one in history], gradients, held)
    rest, factors = gradients[best].copy(), []
    for step, change in reversed(pairs):
        factors.append(float(step @ rest) / float(step @ change))
        rest -= factors[-1] * change
    own = objective.sums(kept, point)[1] / float(kept.weight.sum()) + objective.penalty(point)[1]
    downhill = point - refit(own - rest, point)
    for (step, change), factor in zip(pairs, reversed(factors), strict=True):
        downhill = downhill + (factor - float(change @ downhill) / float(step @ change)) * step
    found = point - SHORTER ** (len(history) - 1 - best) * downhill
    return np.clip(found, *objective.bounds)


def _pairs(
    points: Sequence[Array], gradients: Sequence[Array], held: NDArray[np.bool_]
) -> list[tuple[Array, Array]]:
    """Return steps with changes of the gradient, where these tell of curvature.

    Of steps in which a parameter moved that is ``held`` now, nothing is known for the others.
    """
    found = []
    for place in range(1, len(points)):
        step = points[place] - points[place - 1]
        change = np.where(held, 0.0, gradients[place] - gradients[place - 1])
        known = float(step @ change) > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change))
        if known and not step[held].any():
            found.append((step, change))
    return found
