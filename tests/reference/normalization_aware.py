"""NA-FIR from its definition: objective, optimality conditions and general solvers, unoptimised.

Nothing here knows of segments where it is not told to: ``values`` are g at each distinct
probability of the matrix. The objective is sum_i w_i log T_i - sum over targets of t log g with
T_i = sum_l g(p_il), and non-decreasing g.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.optimize import minimize


def label_targets(probabilities, labels, weight):
    """Targets of the paper's objective: the weight of the row on the cell of its label."""
    targets = np.zeros(probabilities.shape)
    targets[np.arange(len(labels)), labels] = weight
    return targets


def temperature_scaled(probabilities, beta, smallest, floor=2.0**-40):
    """Rows of p ** beta plus ``floor`` times the largest of the row, normalised."""
    logits = beta * np.log(np.maximum(probabilities, smallest))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True)) + floor
    return powers / powers.sum(axis=1, keepdims=True)


def with_pseudo_observations(probabilities, labels, weight, strength, prior):
    """Row weights and targets with ``strength`` pseudo-observations of the prior."""
    ratio = strength / weight.sum()
    targets = label_targets(probabilities, labels, weight)
    return weight * (1 + ratio), targets + ratio * weight[:, None] * prior


def objective(probabilities, targets, weight, function):
    """Objective per unit of weight; a target on a value of zero makes it infinite."""
    g = function(probabilities)
    used = targets > 0
    with np.errstate(divide="ignore"):
        labels = targets[used] @ np.log(g[used])
    return (weight @ np.log(g.sum(axis=1)) - labels) / weight.sum()


def distinct(values):
    """Distinct scores, increasing; what differs by rounding only is one."""
    values = np.unique(values)
    return values[np.append(True, np.diff(values) > 1e-12 * (values * (1 - values))[1:])]


def certificate(probabilities, targets, weight, function, starts=None):
    """Largest violation of the optimality conditions, relative to the total weight.

    Over all distinct probabilities, or over the parts of [0, 1] that begin at ``starts``. The
    gradient of the objective in log g at a value is its share in the rows minus its target; the
    sum over all cells from a value upwards may not be negative, and is zero where g jumps.
    """
    g = function(probabilities)
    shares = weight[:, None] * g / g.sum(axis=1, keepdims=True)
    if starts is None:
        starts = distinct(probabilities)
    part = np.searchsorted(starts, probabilities.ravel(), side="right") - 1
    residual = np.bincount(part, weights=(shares - targets).ravel(), minlength=len(starts))
    on_parts = function(starts)
    worst = 0.0
    tail = 0.0
    for j in range(len(starts) - 1, 0, -1):
        tail += residual[j]
        worst = max(worst, -tail, abs(tail) if on_parts[j] > on_parts[j - 1] else 0.0)
    return worst / weight.sum()


def exact_certificate(probabilities, labels, weight, function):
    """``certificate`` of the paper's objective over all distinct values, in exact arithmetic."""
    cells = [[Fraction(float(p)) for p in row] for row in probabilities]
    value = {p: Fraction(float(function(float(p)))) for row in cells for p in row}
    residual = dict.fromkeys(value, Fraction(0))
    for row, label, w in zip(cells, labels, weight, strict=True):
        total = sum(value[p] for p in row)
        for p in row:
            residual[p] += Fraction(float(w)) * value[p] / total
        residual[row[label]] -= Fraction(float(w))
    worst = Fraction(0)
    tail = Fraction(0)
    ordered = sorted(value)
    for below, p in zip(reversed(ordered[:-1]), reversed(ordered[1:]), strict=True):
        tail += residual[p]
        worst = max(worst, -tail)
        if value[p] > value[below]:
            worst = max(worst, abs(tail))
    return worst / sum(Fraction(float(w)) for w in weight)


def counts_of_parts(probabilities, targets, starts):
    """C and b of the parts of [0, 1] that begin at ``starts``."""
    part = np.searchsorted(starts, probabilities, side="right") - 1
    counts = np.stack([np.bincount(row, minlength=len(starts)) for row in part]).astype(float)
    target = np.bincount(part.ravel(), weights=targets.ravel(), minlength=len(starts))
    return counts, target


def loss_and_gradient(theta, counts, target, weight):
    """Objective per unit of weight and its gradient, in theta = log g."""
    shares = counts * np.exp(theta - theta.max())
    totals = shares.sum(axis=1)
    loss = weight @ np.log(totals) - target @ (theta - theta.max())
    gradient = weight @ (shares / totals[:, None]) - target
    return loss / weight.sum(), gradient / weight.sum()


def general_minimum(counts, target, weight, starts, low=-90.0):
    """Least objective that SLSQP finds from several starts, with theta in [low, 0]."""
    n = len(target)
    differences = np.diff(np.eye(n), axis=0)
    best = np.inf
    for start in starts:
        found = minimize(
            loss_and_gradient,
            np.clip(start, low, 0.0),
            args=(counts, target, weight),
            jac=True,
            method="SLSQP",
            bounds=[(low, 0.0)] * n,
            constraints={"type": "ineq", "fun": np.diff, "jac": lambda _: differences}
            if n > 1
            else (),
            options={"ftol": 1e-15, "maxiter": 2000},
        )
        best = min(
            best, loss_and_gradient(np.maximum.accumulate(found.x), counts, target, weight)[0]
        )
    return best
