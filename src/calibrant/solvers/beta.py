"""Beta calibration: logistic regression on log x and -log(1 - x), with slopes >= 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from calibrant.errors import ParameterError
from calibrant.solvers.platt import SEPARABLE, ZERO, BoundedLogs, bounded_logs, minimise_logistic
from calibrant.step_function import always_checked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.solvers.one_vs_rest import BinaryProblem
    from calibrant.solvers.report import SolverReport


@always_checked
@dataclass(frozen=True, slots=True)
class BetaMap:
    """x -> sigmoid(a log x - b log(1 - x) + c), which never decreases since a, b >= 0."""

    a: float
    b: float
    c: float
    logs: BoundedLogs

    def __post_init__(self) -> None:
        if not (0 <= self.a < math.inf and 0 <= self.b < math.inf and math.isfinite(self.c)):
            raise ParameterError(
                f"a, b and c are {self.a}, {self.b} and {self.c}; they must be finite, and a and b "
                "not negative"
            )

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Value at each ``x``."""
        log_x, log_rest = self.logs(np.asarray(x, dtype=np.float64))
        value: NDArray[np.float64] = expit(self.a * log_x - self.b * log_rest + self.c)
        return value


def solve_beta(
    problem: BinaryProblem, *, zero: float = ZERO, tol: float = 1e-10
) -> tuple[BetaMap, SolverReport]:
    """Maximum likelihood over a, b >= 0 and c.

    Kull et al. fit without bounds, drop a feature whose slope is negative and fit again. That is
    not always the constrained optimum: with both slopes negative they drop only one.
    """
    logs = bounded_logs(problem.values, zero)
    log_x, log_rest = logs(problem.values)
    theta, report = minimise_logistic(
        [log_x, -log_rest], problem.positives, problem.negatives, np.zeros(2), tol=tol
    )
    if problem.separates:
        report = replace(report, notes=(SEPARABLE,))
    return BetaMap(float(theta[0]), float(theta[1]), float(theta[2]), logs), report
