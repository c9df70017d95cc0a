"""Learners that read features beside the scores, kept as arrays; and the powers of their pool.

A learner that reads features beside the scores is right where it departs from the score alone, and
too timid there, as it was shrunk. A mixture of probabilities cannot make it bolder; a product of
powers, a logarithmic pool, can (Genest and Zidek, "Combining probability distributions", 1986).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax

from calibrant._kernels.trees import grow_tree
from calibrant._maps.features import BoostedTrees, LinearLogits, standardise
from calibrant._solvers.report import SolverReport

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from calibrant._types import Floats, Wholes

NEVER = -20.0
"""Logit of a class without a row."""

LARGEST = np.finfo(np.float64).max

MOST_STEPS, LEAST_STEP, LEAST_GAIN, TINY = 50, 1e-6, 1e-9, 1e-9
"""Newton steps of a linear map of two classes, the shortest one, nats of a row that end them, and
what keeps a matrix regular."""

MOST_ROWS_OF_EDGES = 20_000
"""Rows that edges of bins are laid on; their order says nothing, so the first ones are a sample."""


@dataclass(frozen=True, slots=True)
class Boosting:
    """Gradient boosting of small trees on histograms, as ``HistGradientBoostingClassifier`` does.

    It minimises the NLL of the sum of ``n_trees`` trees for each class with ``n_leaves`` leaves,
    each of which adds ``learning_rate`` times its Newton step, shrunk by ``ridge``.
    """

    n_trees: int = 30
    n_leaves: int = 7
    learning_rate: float = 0.12
    ridge: float = 5.0
    least_rows: int = 15
    n_bins: int = 63

    def fit(self, inputs: Floats, labels: Wholes, weight: Floats, n_classes: int) -> BoostedTrees:
        """Return the trees of a fit to labels among 0, ..., n_classes - 1."""
        n_rows, d = inputs.shape
        edges = [_edges(column, self.n_bins) for column in inputs[:MOST_ROWS_OF_EDGES].T]
        n_bins = np.array([len(own) + 1 for own in edges])
        bins = np.empty((n_rows, d), dtype=np.uint8)
        for j, own in enumerate(edges):
            bins[:, j] = np.searchsorted(own, inputs[:, j])
            bins[np.isnan(inputs[:, j]), j] = n_bins[j]
        share = np.bincount(labels, weight, n_classes) / weight.sum()
        present = np.flatnonzero(share)
        logs = np.log(share[present])
        baseline = np.full(n_classes, NEVER)
        baseline[present] = logs - logs.mean()
        columns = [*range(n_classes)]
        if n_classes == 2:  # one tree for the log-odds of the second
            baseline, columns = baseline[1:] - baseline[:1], [1]
        scores = np.repeat(baseline[:, None], n_rows, axis=1)
        is_label = np.array([labels == c for c in columns], dtype=np.float64)
        rows = np.empty((2, n_rows), dtype=np.int32)
        sums = np.empty((self.n_leaves, d, int(n_bins.max()) + 1, 3))
        nodes = np.empty((2 * self.n_leaves - 1, 5), dtype=np.int64)
        values = np.empty(len(nodes))
        grown: list[tuple[Wholes, Floats]] = []
        for _ in range(self.n_trees):
            p = expit(scores) if len(columns) == 1 else softmax(scores, axis=0)
            gradient, curvature = weight * (p - is_label), weight * p * (1.0 - p)
            for k, c in enumerate(columns):
                n = 1
                if share[c] > 0.0 and len(present) > 1:
                    n = grow_tree(
                        bins, n_bins, gradient[k], curvature[k], self.learning_rate, self.ridge,
                        self.least_rows, rows, sums, nodes, values, scores[k],
                    )  # fmt: skip
                else:
                    nodes[0, 0], values[0] = -1, 0.0
                grown.append((nodes[:n].copy(), values[:n].copy()))
        return _join(grown, edges, baseline)


def _edges(values: Floats, n_bins: int) -> Floats:
    """Return thresholds between values, or near quantiles where those are many."""
    distinct, count = np.unique(values[~np.isnan(values)], return_counts=True)
    after = np.arange(len(distinct) - 1)
    if len(distinct) > n_bins:
        share = np.cumsum(count)[:-1] / count.sum()
        after = np.unique(np.searchsorted(share, np.arange(1, n_bins) / n_bins))
        after = after[after < len(share)]
    return distinct[after] / 2.0 + distinct[after + 1] / 2.0


def _join(
    grown: list[tuple[Wholes, Floats]], edges: list[Floats], baseline: Floats
) -> BoostedTrees:
    """Return all trees, one after the other."""
    sizes = np.array([len(values) for _, values in grown])
    roots = np.cumsum(sizes) - sizes
    nodes, values = (np.concatenate(parts) for parts in zip(*grown, strict=True))
    column, is_leaf, first = nodes[:, 0], nodes[:, 0] < 0, np.repeat(roots, sizes)
    # Where only missing values go to the right, every number goes to the left.
    starts = np.cumsum([0, *(len(own) + 1 for own in edges)])
    every = np.concatenate([np.append(own, LARGEST) for own in edges])
    at = np.where(is_leaf, 0, starts[column] + nodes[:, 1])
    left, right, missing = (np.where(is_leaf, 0, nodes[:, i]) + first for i in (2, 3, 4))
    threshold = np.where(is_leaf, values, every[at])
    return BoostedTrees(baseline, roots, column, threshold, left, right, missing)


@dataclass(frozen=True, slots=True)
class Ridge:
    """Logistic regression on standardised inputs: NLL plus ||coef||^2 / (2 ``strength``)."""

    strength: float = 0.1

    def fit(self, inputs: Floats, labels: Wholes, weight: Floats, n_classes: int) -> LinearLogits:
        """Return the linear map of a fit to labels among 0, ..., n_classes - 1."""
        share = weight / weight.sum()
        known = ~np.isnan(inputs)
        total = np.maximum(share @ known, 1e-300)
        center = share @ np.where(known, inputs, 0.0) / total
        spread = np.sqrt(share @ np.where(known, inputs - center, 0.0) ** 2 / total)
        scale = np.where(spread > 1e-12 * np.maximum(abs(center), 1e-80), spread, 1.0)
        z, is_missing = standardise(inputs, center, scale)
        d, some = inputs.shape[1], np.flatnonzero(is_missing.any(axis=0))
        z = np.hstack([z, is_missing[:, some]])
        if n_classes == 2 and len(np.unique(labels)) == 2:
            found, intercept = _logistic(z, labels, weight, self.strength)
        else:
            found, intercept = _multinomial(z, labels, weight, self.strength, n_classes)
        missing = np.zeros((d, found.shape[1]))
        missing[some] = found[d:]
        return LinearLogits(center, scale, found[:d], missing, intercept)


def _logistic(z: Floats, labels: Wholes, weight: Floats, strength: float) -> tuple[Floats, Floats]:
    """Return coefficients and the intercept of two classes, by Newton steps."""
    x = np.column_stack([z, np.ones(len(z))])
    ridge = np.append(np.full(z.shape[1], 1.0 / strength), 0.0)
    share = weight @ labels / weight.sum()
    b = np.append(np.zeros(z.shape[1]), np.log(share / (1.0 - share)))

    def value(b: Floats, log_odds: Floats) -> float:
        loss = np.logaddexp(0.0, log_odds) - labels * log_odds
        return float(weight @ loss + 0.5 * (ridge * b) @ b)

    log_odds = x @ b
    least = value(b, log_odds)
    for _ in range(MOST_STEPS):
        p = expit(log_odds)
        gradient = (weight * (p - labels)) @ x + ridge * b
        hessian = (x.T * (weight * p * (1.0 - p))) @ x + np.diag(ridge + TINY)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while True:
            other = x @ (b - size * step)
            now = value(b - size * step, other)
            if now <= least or size < LEAST_STEP:
                break
            size /= 2.0
        b, log_odds, gain, least = b - size * step, other, least - now, now
        if gain < LEAST_GAIN * weight.sum():
            break
    return b[:-1, None], b[-1:]


def _multinomial(
    z: Floats, labels: Wholes, weight: Floats, strength: float, n_classes: int
) -> tuple[Floats, Floats]:
    """Return coefficients and intercepts of several classes, by scikit-learn."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # slow to import

    logistic = LogisticRegression(C=strength, max_iter=200)
    with warnings.catch_warnings():
        # The mixture judges it by rows that it has not seen, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        logistic.fit(z, labels, sample_weight=weight)
    coef, intercept, classes = logistic.coef_.T, logistic.intercept_, logistic.classes_
    # Classes without a row were not fitted; of two that were, scikit-learn has the second alone.
    if len(classes) == n_classes:
        return coef, intercept
    if len(classes) == 2:
        coef = np.hstack([np.zeros_like(coef), coef])
        intercept = np.append(0.0, intercept)
    every, shifts = np.zeros((len(coef), n_classes)), np.full(n_classes, NEVER)
    every[:, classes], shifts[classes] = coef, intercept
    return every, shifts


@dataclass(frozen=True, slots=True)
class OtherClassifier:
    """A learner that the user chose: any classifier with ``predict_proba``."""

    classifier: BaseEstimator

    def fit(self, inputs: Floats, labels: Wholes, weight: Floats, n_classes: int) -> OtherMap:
        """Return the predictions of a fitted copy."""
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        copy = clone(self.classifier)
        weights = {"sample_weight": weight} if has_fit_parameter(copy, "sample_weight") else {}
        return OtherMap(copy.fit(inputs, labels, **weights), n_classes)


@dataclass(frozen=True, slots=True)
class OtherMap:
    """The predictions of a fitted classifier, with a column for every class."""

    classifier: BaseEstimator
    n_classes: int

    def __call__(self, inputs: Floats) -> Floats:
        """Return the probabilities of rows of inputs."""
        result = np.zeros((len(inputs), self.n_classes))
        result[:, self.classifier.classes_] = self.classifier.predict_proba(inputs)
        return result


def pool(logs: Floats, weights: Floats) -> Floats:
    """Return p_ic in proportion to exp(sum_j weights_j logs_icj)."""
    z = logs @ weights
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=1, keepdims=True)
    return z


@dataclass(frozen=True, slots=True)
class _PoolObjective:
    """-sum_ic target_ic log p_ic(w) + ridge |w - first|^2, with p the pool and first = (1, 0, ...).

    A convex function: the logarithm of a sum of exponentials, and linear terms.
    """

    logs: Floats
    target: Floats
    ridge: float

    def __call__(self, w: Floats) -> tuple[float, Floats]:
        """Return the value and the gradient."""
        away = w.copy()
        away[0] -= 1.0
        p = pool(self.logs, w)
        total = self.target.sum(axis=1, keepdims=True)
        value = -float((self.target * np.log(np.maximum(p, 1e-300))).sum())
        gradient = np.ravel(total * p - self.target) @ self.logs.reshape(-1, len(w))
        return value + self.ridge * float(away @ away), gradient + 2.0 * self.ridge * away


def solve_log_pool(
    logs: Floats,
    class_index: Wholes,
    weight: Floats,
    *,
    strength: float,
    ridge: float,
    tol: float = 1e-6,
) -> tuple[Floats, SolverReport]:
    """Weights w >= 0 of least -sum_i weight_i log p_i(w) + ridge |w - (1, 0, ...)|^2.

    ``logs[i, c, j]`` is the logarithm of what prediction j gives to class c in row i. ``strength``
    rows more, whose labels are as the first prediction says, keep the pool from boldness that no
    error among few has punished yet. Optimal iff the gradient g is zero where w > 0 and not
    negative elsewhere: the violation is the largest |min(w, g)|, with g per row.
    """
    started = perf_counter()
    target = np.exp(logs[:, :, 0]) * (strength * weight / weight.sum())[:, None]
    target[np.arange(len(weight)), class_index] += weight
    objective = _PoolObjective(logs, target, ridge)
    start = np.zeros(logs.shape[2])
    start[0] = 1.0
    n_rows = float(target.sum())
    result = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(start),
        options={"maxiter": 500, "ftol": 1e-15, "gtol": 1e-9 * n_rows},
    )
    w: Floats = result.x
    value, gradient = objective(w)
    violation = float(np.max(np.abs(np.minimum(w, gradient / n_rows))))
    seconds = perf_counter() - started
    return w, SolverReport("l-bfgs-b", value / n_rows, violation, tol, int(result.nit), seconds)
