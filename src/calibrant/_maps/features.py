"""Maps that read features beside the scores: boosted trees, a linear map, and mixtures of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from calibrant import _gate as gate
from calibrant import errors
from calibrant._kernels.trees import add_trees
from calibrant._maps.base import (
    CalibrationMap,
    _ComposedMap,
    check_array,
    check_field,
    ensure,
    freeze,
    frozen,
)
from calibrant._types import Floats, Wholes

LEAST = 1e-6
"""Probabilities below it are as surprising as this one to learners that read their logarithm."""

LEAST_LEARNT, SMALLEST = 1e-4, 1e-12
"""Smallest probability of a learner, and of the map of the scores, that a pool knows: few rows do
not teach that something never happens."""

LARGEST_POWER = 1e6


def learner_inputs(rows: Floats, kind: str, features: Floats) -> Floats:
    """Return log-odds (of two classes) or centred logarithms of the scores, and the features."""
    p = rows if kind == "probabilities" else gate.softmax(rows)
    logs = np.log(np.maximum(p, LEAST))
    if rows.shape[1] == 2:
        logs = logs[:, 1:] - logs[:, :1]
    else:
        logs -= logs.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(np.hstack([logs, features]))


def to_probabilities(logits: Floats) -> Floats:
    """Return probabilities of all classes, of which two have one column of log-odds."""
    if logits.shape[1] > 1:
        return gate.softmax(logits)
    positive = expit(logits)
    return np.hstack([1.0 - positive, positive])


@frozen
class BoostedTrees:
    """Sum of regression trees for each class, or of one for the log-odds of two classes.

    Node v of a tree sends a row to ``left[v]`` if its input in ``column[v]`` is at most
    ``threshold[v]``, to ``missing[v]`` if that is NaN, else to ``right[v]``; a leaf has the column
    -1 and its value in ``threshold``. Tree t, with the node ``roots[t]``, counts for column
    t mod m of the m in ``baseline``.
    """

    baseline: Floats
    roots: Wholes
    column: Wholes
    threshold: Floats
    left: Wholes
    right: Wholes
    missing: Wholes

    def __post_init__(self) -> None:
        freeze(self, "baseline", "threshold")
        freeze(self, "roots", "column", "left", "right", "missing", dtype=np.int64)
        n = len(self.column)
        for name in ("threshold", "left", "right", "missing"):
            ensure(getattr(self, name).shape == (n,), f"{name} is not of {n} nodes")
        check_array(self, "baseline", [(len(self.baseline),)])
        ensure(np.isfinite(self.threshold).all(), "a threshold is not finite")
        ensure(self.column.ndim == 1 and self.column.min(initial=0) >= -1, "a column is negative")
        ensure(self.roots.ndim == 1 and len(self.roots), "there is no tree")
        ensure(len(self.roots) % len(self.baseline) == 0, "a class lacks a tree")
        ensure(self.roots.min() >= 0 and self.roots.max() < n, "a root is no node")
        inner = np.flatnonzero(self.column >= 0)
        for name in ("left", "right", "missing"):  # which lets every walk end
            after = getattr(self, name)[inner]
            ensure(np.all((after > inner) & (after < n)), f"{name} does not lead downwards")

    @property
    def n_inputs(self) -> int:
        """Number of columns that trees ask for."""
        return int(self.column.max(initial=-1)) + 1

    @property
    def n_outputs(self) -> int:
        """Number of classes, or 1 for two."""
        return len(self.baseline)

    def __call__(self, inputs: Floats) -> Floats:
        """Return the probabilities of rows of inputs."""
        out = np.repeat(self.baseline[None, :], len(inputs), axis=0)
        nodes = self.column, self.threshold, self.left, self.right, self.missing
        add_trees(inputs, self.roots, *nodes, out)
        return to_probabilities(out)


@frozen
class LinearLogits:
    """Logits, or log-odds of two classes, that are linear in standardised inputs.

    With x the inputs, z = clip((x - center) / scale, -bound, bound), and 0 where x is missing, they
    are ``intercept + z @ coef + isnan(x) @ missing``.
    """

    center: Floats
    scale: Floats
    coef: Floats
    missing: Floats
    intercept: Floats

    BOUND = 5.0

    def __post_init__(self) -> None:
        freeze(self, "center", "scale", "coef", "missing", "intercept")
        d, m = len(self.center), len(self.intercept)
        check_array(self, "center", [(d,)])
        check_array(self, "scale", [(d,)], low=1e-100)
        check_array(self, "coef", [(d, m)])
        check_array(self, "missing", [(d, m)])
        check_array(self, "intercept", [(m,)])

    @property
    def n_inputs(self) -> int:
        """Number of columns that it asks for."""
        return len(self.center)

    @property
    def n_outputs(self) -> int:
        """Number of classes, or 1 for two."""
        return len(self.intercept)

    def __call__(self, inputs: Floats) -> Floats:
        """Return the probabilities of rows of inputs."""
        z, is_missing = standardise(inputs, self.center, self.scale)
        return to_probabilities(self.intercept + z @ self.coef + is_missing @ self.missing)


def standardise(inputs: Floats, center: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return z of a ``LinearLogits``, and where inputs are missing."""
    z = np.clip((inputs - center) / scale, -LinearLogits.BOUND, LinearLogits.BOUND)
    is_missing = np.isnan(z)
    return np.where(is_missing, 0.0, z), is_missing.astype(np.float64)


@frozen
class FeatureMap(_ComposedMap):
    """A map of the scores, and learners that read features beside them, in a logarithmic pool.

    With q_0 what the map of the scores says and q_j what learner j does, the pool p is in
    proportion to the product of q_j ** ``powers[j]``; the result is in proportion to
    (share p + (1 - share) q_0) ** ``sharpness``.
    Called with rows and their encoded features, which rows alone do not say.
    """

    stages: tuple[CalibrationMap, ...]
    learners: tuple[Callable[[Floats], Floats], ...]
    powers: Floats
    share: float
    sharpness: float

    def __post_init__(self) -> None:
        self._check_stages("there is no map of the scores")
        ensure(len(self.stages) == 1, "there are several maps of the scores")
        freeze(self, "powers")
        n = 1 + len(self.learners)
        ensure(self.powers.shape == (n,), f"there are {self.powers.size} powers, not {n}")
        ensure(self.powers.min() >= 0.0 and self.powers.max() <= LARGEST_POWER, "a power is off")
        check_field(self, "share", low=0.0, high=1.0)
        check_field(self, "sharpness", low=0.1, high=10.0)

    def __call__(self, rows: Floats, features: Floats | None = None) -> Floats:
        """Map the rows, with features for each of them."""
        rows = self._check_rows(rows)
        own = self.stages[0](rows)
        if not self.learners or self.share == 0.0:
            return own
        if features is None:
            raise errors.ParameterError(
                "this map reads features beside the scores, and none were given; pass features= "
                "to predict_proba, or use calibrator_, which needs none"
            )
        inputs = learner_inputs(rows, self.kind, features)
        parts = [own, *(learner(inputs) for learner in self.learners)]
        pool = gate.softmax(bounded_logs(parts) @ self.powers)
        return raised((1.0 - self.share) * own + self.share * pool, self.sharpness)


def raised(rows: Floats, power: float) -> Floats:
    """Return rows of probabilities raised to a power, on the simplex again."""
    if power == 1.0:
        return rows
    return gate.softmax(power * np.log(np.maximum(rows, SMALLEST)))


def bounded_logs(parts: list[Floats]) -> Floats:
    """Return logarithms of predictions, that of the scores first, in a last axis."""
    logs = np.stack(parts, axis=-1)
    np.maximum(logs[..., 0], SMALLEST, out=logs[..., 0])
    np.maximum(logs[..., 1:], LEAST_LEARNT, out=logs[..., 1:])
    return np.log(logs, out=logs)
