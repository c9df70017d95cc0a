"""Weights of a mixture by maximum likelihood: a convex problem on the simplex.

With a price for leaving a baseline: held-out rows know little of what is rare. A classifier with
99 % accuracy makes twenty mistakes in 2,500 rows, and the confident mistake that punishes a map
which is too sharp may not be among them; in the probabilities of a baseline it is. So
pseudo-observations that are labelled as the baseline says join the held-out rows. With D, the
divergence of the mixture from the baseline, their price is log(1 + s D), as everywhere (see
``rows``): gains that are clear are taken whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from calibrant._solvers.report import SolverReport
from calibrant._solvers.rows import REWEIGHTINGS, remaining

if TYPE_CHECKING:
    from calibrant._types import Floats, Wholes

RIDGE = 1e-10
"""Curvature added to the Hessian, relative to its own: components may be equal."""


SMALLEST = 1e-12
"""Probabilities below it count as this much where there is a price."""


@dataclass(frozen=True, slots=True)
class _MixtureProblem:
    """-sum_i share_i log(own_i w) - sum_c extra_c log w_c, plus sum w, over w >= 0.

    The shares and extras sum to 1, so that the sum of w is 1 where it is optimal.
    """

    own: Floats
    share: Floats
    extra: Floats

    def loss(self, w: Floats) -> float:
        """Value without the sum of w."""
        held = self.extra > 0.0
        with np.errstate(divide="ignore"):  # a weight of 0 that has a prior: infinite
            return float(-self.share @ np.log(self.own @ w) - self.extra[held] @ np.log(w[held]))

    def ratios(self, w: Floats) -> Floats:
        """Probability of each label by each component, in units of the mixture's."""
        result: Floats = self.own / (self.own @ w)[:, None]
        return result

    def prior_gradient(self, w: Floats) -> Floats:
        """Gradient of the prior, downwards."""
        with np.errstate(divide="ignore"):
            return np.divide(self.extra, w, out=np.zeros_like(w), where=self.extra > 0.0)

    def slope(self, w: Floats) -> Floats:
        """Gradient g of the loss, downwards; at the optimum g <= 1, and g = 1 where w > 0."""
        result: Floats = self.share @ self.ratios(w) + self.prior_gradient(w)
        return result

    def newton_point(self, w: Floats, slope: Floats) -> Floats:
        """Minimum of the quadratic model at w over w >= 0, as a problem of least squares."""
        ratios = self.ratios(w)
        hessian = (ratios * self.share[:, None]).T @ ratios
        hessian[np.diag_indices_from(hessian)] += np.divide(
            self.prior_gradient(w), w, out=np.zeros_like(w), where=self.extra > 0.0
        )
        # Diagonal of one, so that no component is too small to be seen.
        unit = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
        scaled = hessian * np.outer(unit, unit) + RIDGE * np.eye(len(w))
        goal = scaled @ (w / unit) + unit * (slope - 1.0)
        root = np.linalg.cholesky(scaled)
        point: Floats = unit * nnls(root.T, solve_triangular(root, goal, lower=True))[0]
        return point


def _order(own: Floats, weight: Floats) -> Wholes:
    """Order of rows by their content; by one column alone, where that tells them apart."""
    order = np.argsort(own[:, 0], kind="stable")
    is_told = np.all(np.diff(own[order, 0]) > 0.0)
    return order if is_told else np.lexsort((weight, *own.T))


def solve_mixture(
    own: Floats,
    weight: Floats,
    *,
    prior: Floats | None = None,
    start: Floats | None = None,
    tol: float = 1e-8,
    max_rounds: int = 1000,
    is_ordered: bool = False,
) -> tuple[Floats, SolverReport]:
    """Mixture weights w >= 0, sum w = 1, of least -sum_i weight_i log(own_i w) - prior log w.

    ``own[i, c]`` is the probability that component c gives to row i's label; ``prior[c]`` is a
    number of rows that only c explains. Optimal iff the gradient g_c, the mean of
    own_ic / (own_i w) and prior_c / w_c, is at most 1 everywhere: the violation is max g - 1,
    which also bounds the gap to the optimum. A round is a step of Newton's method within w >= 0
    (Kim et al., "A fast algorithm for maximum likelihood estimation of mixture proportions using
    sequential quadratic programming", 2020), or, where that gains less, one of expectation
    maximisation, which never leaves the simplex and never increases the loss.
    """
    started = perf_counter()
    if not is_ordered:  # sums must not depend on the rows' order
        order = _order(own, weight)
        own, weight = own[order], weight[order]
    own = np.maximum(own, 1e-300)
    prior = np.zeros(own.shape[1]) if prior is None else prior
    total = weight.sum() + prior.sum()
    problem = _MixtureProblem(own, weight / total, prior / total)
    weights = np.full(own.shape[1], 1.0 / own.shape[1])
    if start is not None:  # components of weight 0 may come back
        weights = 0.9 * start + 0.1 * weights
    loss, slope, rounds = problem.loss(weights), problem.slope(weights), 0
    while slope.max() - 1.0 > tol and rounds < max_rounds:
        rounds += 1
        step = problem.newton_point(weights, slope) - weights
        whole = weights + step
        whole /= whole.sum() if whole.sum() > 0.0 else np.inf
        points, losses = [whole], np.array([problem.loss(whole)])
        # The quadratic model may be far off where a weight is near 0: EM never makes it worse.
        if losses[0] > loss - 1e-4 * float((slope - 1.0) @ step):
            points += [weights * slope]
            points += [weights + size * step for size in (0.5, 0.1, 0.01)]
            points = [point / point.sum() for point in points if point.sum() > 0.0]
            losses = np.array([problem.loss(point) for point in points])
        best = int(np.argmin(losses))
        rounding = 1e-14 * max(abs(loss), 1.0)
        if losses[best] > loss - rounding:  # the loss sees no more, the gradient does
            seen = [problem.slope(point).max() for point in points]
            best = int(np.argmin(np.where(losses <= loss + rounding, seen, np.inf)))
            if not seen[best] < slope.max():
                break
        weights, loss = points[best], float(losses[best])
        slope = problem.slope(weights)
    violation, seconds = max(float(slope.max()) - 1.0, 0.0), perf_counter() - started
    return weights, SolverReport("sequential-quadratic", loss, violation, tol, rounds, seconds)


def solve_priced_mixture(
    own: Floats,
    weight: Floats,
    cells: Floats,
    cell_share: Floats,
    baseline: int,
    *,
    strength: float,
    prior: Floats,
) -> tuple[Floats, SolverReport]:
    """Mixture weights w of least -sum_i weight_i log(own_i w) + log(1 + strength D) - prior log w.

    ``own[i, c]`` is the probability that component c gives to row i's label, and ``cells[j, c]``
    what it gives to a class of some row, whose label is that with probability ``cell_share[j]``;
    these sum to 1, and column ``baseline`` is in proportion to them within a row. The problem is
    solved by a few convex ones with ``strength / (1 + strength D)`` pseudo-observations each; the
    violation is that of the last.
    """
    own, cells = np.maximum(own, SMALLEST), np.maximum(cells, SMALLEST)
    if strength <= 0.0:
        return solve_mixture(own, weight, prior=prior)
    entropy = -float(cell_share @ np.log(cells[:, baseline]))
    components, left = np.vstack([own, cells]), strength
    all_weight = np.concatenate([weight, left * cell_share])
    order = _order(components, all_weight)
    components, is_cell = components[order], order >= len(own)
    weights, report = solve_mixture(components, all_weight[order], prior=prior, is_ordered=True)
    for _ in range(REWEIGHTINGS):
        left = remaining(strength, -float(cell_share @ np.log(cells @ weights)) - entropy)
        now, rounds = np.where(is_cell, left / strength, 1.0) * all_weight[order], report.rounds
        weights, report = solve_mixture(
            components, now, prior=prior, start=weights, is_ordered=True
        )
        report = replace(report, rounds=rounds + report.rounds)
    return weights, report
