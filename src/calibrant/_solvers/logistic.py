"""Platt scaling and beta calibration: logistic regression, exactly, with a certificate."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from calibrant._kernels.logistic import fit_logistic
from calibrant._maps.curves import BetaMap, BoundedLogs, Sigmoid
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from calibrant._solvers.one_vs_rest import BinaryProblem
    from calibrant._types import Floats

ZERO = 1e-12
"""An exact 0 (or 1) is read as this far from it, or as the nearest other value if that is less."""

RIDGE = 1e-10
"""Pull towards the identity, which decides where the labels do not: labels that the score
separates would send the slope to infinity, and equal scores leave it open."""

FREE, NOT_NEGATIVE = np.full(2, -np.inf), np.array([0.0, 0.0, -np.inf])
"""Lower bounds on slopes and intercept, of Platt scaling and of beta calibration."""

SEPARABLE = f"the score separates the labels: the slope is bounded by a ridge penalty of {RIDGE:g}"


def bounds_of_logs(values: Floats, zero: float = ZERO) -> BoundedLogs:
    """Bounds that no value strictly between 0 and 1 reaches; ``zero`` where that leaves it open.

    The values increase.
    """
    zero = max(zero, float(np.finfo(float).tiny))  # logits may lie deeper than any float's log
    positive = values[np.searchsorted(values, 0.0, side="right") :][:1]
    rest = 1.0 - values[: np.searchsorted(values, 1.0)][-1:]
    return BoundedLogs(float(positive.min(initial=zero)), float(rest.min(initial=zero)))


def minimise_logistic(
    features: Floats,
    positives: Floats,
    negatives: Floats,
    lower: Floats,
    *,
    tol: float = 1e-10,
    max_rounds: int = 200,
) -> tuple[Floats, SolverReport]:
    """Logistic regression on one or two features, with lower bounds on the parameters.

    Returns those of the features and then the intercept. Each round solves the
    quadratic model within the bounds exactly and searches along the way to its solution. The
    violation is the largest gradient of the mean NLL that the bounds do not forbid to follow, in
    units of the spread of its feature.
    """
    started = perf_counter()
    weight = positives + negatives
    share = weight / weight.sum()
    means = features @ share
    centred = features - means[:, None]
    units, identity = np.ones((2, len(lower)))
    units[:-1], identity[-1] = np.maximum(np.sqrt(centred**2 @ share), 1e-8), means.sum()
    ridge = RIDGE * np.maximum(units, 1.0) ** 2
    settings = lower, units, ridge, identity, tol, max_rounds
    theta, objective, violation, rounds = fit_logistic(centred, positives, negatives, *settings)
    theta[-1] -= theta[:-1] @ means
    seconds = perf_counter() - started
    return theta, SolverReport("newton", objective, violation, tol, rounds, seconds)


def solve_platt(
    problem: BinaryProblem, *, zero: float = ZERO, smooth_labels: bool = True, tol: float = 1e-10
) -> tuple[Sigmoid, SolverReport]:
    """Logistic regression of the label on the log-odds of a cell.

    With ``smooth_labels`` the labels are Platt's targets: (n + 1) / (n + 2) for n labels 1, and
    1 / (n + 2) for n labels 0.
    """
    logs = bounds_of_logs(problem.values, zero)
    log_x, log_rest = logs(problem.values)
    positives, negatives = problem.positives, problem.negatives
    if smooth_labels:
        of_one = 1 / (positives.sum() + 2)  # what a label 1 gives to label 0
        of_zero = 1 / (negatives.sum() + 2)
        positives, negatives = (
            positives * (1 - of_one) + negatives * of_zero,
            negatives * (1 - of_zero) + positives * of_one,
        )
    theta, report = minimise_logistic((log_x - log_rest)[None], positives, negatives, FREE, tol=tol)
    if not smooth_labels and problem.separates:
        report = replace(report, notes=(SEPARABLE,))
    return Sigmoid(float(theta[0]), float(theta[1]), logs), report


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
        np.stack([log_x, -log_rest]), problem.positives, problem.negatives, NOT_NEGATIVE, tol=tol
    )
    if problem.separates:
        report = replace(report, notes=(SEPARABLE,))
    return BetaMap(float(theta[0]), float(theta[1]), float(theta[2]), logs), report
