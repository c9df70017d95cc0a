"""Weights of a mixture by held-out likelihood, with a price for leaving a baseline.

Held-out rows know little of what is rare. A classifier with 99 % accuracy makes twenty mistakes in
2,500 rows, and the confident mistake that punishes a map which is too sharp may not be among them;
in the probabilities of a baseline it is. So pseudo-observations that are labelled as the baseline
says join the held-out rows. With D, the divergence of the mixture from the baseline, their price is
log(1 + s D), as everywhere (see ``pseudo_rows``): gains that are clear are taken whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant.solvers.mixture import solve_mixture
from calibrant.solvers.pseudo_rows import REWEIGHTINGS, remaining

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.report import SolverReport

    Array = NDArray[np.float64]

SMALLEST = 1e-12
"""Probabilities below it count as this much."""


def solve_priced_mixture(
    own: Array,
    weight: Array,
    cells: Array,
    cell_share: Array,
    baseline: int,
    *,
    strength: float,
    prior: Array,
) -> tuple[Array, SolverReport]:
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
    components = np.vstack([own, cells])
    left = strength
    weights, report = solve_mixture(
        components, np.concatenate([weight, left * cell_share]), prior=prior
    )
    for _ in range(REWEIGHTINGS):
        left = remaining(strength, -float(cell_share @ np.log(cells @ weights)) - entropy)
        rounds, all_weight = report.rounds, np.concatenate([weight, left * cell_share])
        weights, report = solve_mixture(components, all_weight, prior=prior, start=weights)
        report = replace(report, rounds=rounds + report.rounds)
    return weights, report
