"""Beta calibration: logistic regression on log x and -log(1 - x), with slopes >= 0."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant.maps.curves import BetaMap
from calibrant.solvers.platt import SEPARABLE, ZERO, bounds_of_logs, minimise_logistic

if TYPE_CHECKING:
    from calibrant.solvers.one_vs_rest import BinaryProblem
    from calibrant.solvers.report import SolverReport


def solve_beta(
    problem: BinaryProblem, *, zero: float = ZERO, tol: float = 1e-10
) -> tuple[BetaMap, SolverReport]:
    """Maximum likelihood over a, b >= 0 and c.

    Kull et al. fit without bounds, drop a feature whose slope is negative and fit again. That is
    not always the constrained optimum: with both slopes negative they drop only one.
    """
    logs = bounds_of_logs(problem.values, zero)
    log_x, log_rest = logs(problem.values)
    theta, report = minimise_logistic(
        np.stack([log_x, -log_rest]), problem.positives, problem.negatives, np.zeros(2), tol=tol
    )
    if problem.separates:
        report = replace(report, notes=(SEPARABLE,))
    return BetaMap(float(theta[0]), float(theta[1]), float(theta[2]), logs), report
