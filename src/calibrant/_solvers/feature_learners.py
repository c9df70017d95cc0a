"""Learners that read features beside the scores, fitted by scikit-learn and kept as arrays."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._maps.features import BoostedTrees, LinearLogits, standardise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NEVER = -20.0
"""Logit of a class without a row."""

LARGEST = np.finfo(np.float64).max


@cache
def _openmp() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@dataclass(frozen=True, slots=True)
class Boosting:
    """Gradient boosting of small trees on histograms, by ``HistGradientBoostingClassifier``.

    It minimises the NLL of the sum of ``n_trees`` trees for each class with ``n_leaves`` leaves,
    each of which adds ``learning_rate`` times its Newton step, shrunk by ``ridge``.
    """

    n_trees: int = 60
    n_leaves: int = 7
    learning_rate: float = 0.06
    ridge: float = 5.0
    least_rows: int = 15
    n_bins: int = 63

    def fit(
        self, inputs: Array, labels: NDArray[np.int64], weight: Array, n_classes: int
    ) -> BoostedTrees:
        """Return the trees of a fit to labels among 0, ..., n_classes - 1."""
        from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

        is_weighted = bool(np.ptp(weight) > 0.0)  # weighted quantiles take a while
        boosting = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.n_trees,
            max_leaf_nodes=self.n_leaves,
            min_samples_leaf=self.least_rows,
            l2_regularization=self.ridge,
            max_bins=self.n_bins,
            early_stopping=False,
            random_state=0,  # of the rows that bins are laid on, where there are very many
        )
        # scikit-learn does not bin a column without a value, which the rows of a fold may lack.
        inputs = np.where(np.isnan(inputs).all(axis=0), 0.0, inputs)
        # One thread: sums over rows by several would depend on their number.
        with _openmp().limit(limits=1, user_api="openmp"):
            boosting.fit(inputs, labels, sample_weight=weight if is_weighted else None)
        return trees_of(boosting, n_classes)


def trees_of(boosting: Any, n_classes: int) -> BoostedTrees:
    """Return the trees of a fitted ``HistGradientBoostingClassifier`` without categories.

    Classes without a row have trees of a single leaf.
    """
    rounds = [[tree.nodes for tree in trees] for trees in boosting._predictors]  # noqa: SLF001
    baseline = np.ravel(boosting._baseline_prediction)  # noqa: SLF001
    if len(boosting.classes_) < n_classes:
        rounds, baseline = _for_all_classes(rounds, baseline, boosting.classes_, n_classes)
    nodes = [tree for trees in rounds for tree in trees]
    sizes = np.array([len(tree) for tree in nodes])
    roots = np.cumsum(sizes) - sizes
    joined, first = np.concatenate(nodes), np.repeat(roots, sizes)
    is_leaf = joined["is_leaf"].astype(bool)
    left, right = (joined[side].astype(np.int64) + first for side in ("left", "right"))
    return BoostedTrees(
        baseline=baseline,
        roots=roots,
        column=np.where(is_leaf, -1, joined["feature_idx"]),
        # Where only missing values go to the right, scikit-learn's threshold is infinite.
        threshold=np.where(is_leaf, joined["value"], np.minimum(joined["num_threshold"], LARGEST)),
        left=left,
        right=right,
        missing=np.where(joined["missing_go_to_left"], left, right),
    )


def _for_all_classes(
    rounds: list[list[NDArray[Any]]],
    baseline: Array,
    classes: NDArray[np.int64],
    n_classes: int,
) -> tuple[list[list[NDArray[Any]]], Array]:
    """Return trees and baselines for every class, of which only some were fitted."""
    empty = np.zeros(1, dtype=rounds[0][0].dtype)
    empty["is_leaf"] = True
    if len(classes) == 2:  # one tree for the log-odds of the second
        rounds, baseline = [[empty, *trees] for trees in rounds], np.append(0.0, baseline)
    place = {label: i for i, label in enumerate(classes.tolist())}
    every = [[t[place[c]] if c in place else empty for c in range(n_classes)] for t in rounds]
    return every, np.array([baseline[place[c]] if c in place else NEVER for c in range(n_classes)])


@dataclass(frozen=True, slots=True)
class Ridge:
    """Logistic regression on standardised inputs: NLL plus ||coef||^2 / (2 ``strength``)."""

    strength: float = 0.1

    def fit(
        self, inputs: Array, labels: NDArray[np.int64], weight: Array, n_classes: int
    ) -> LinearLogits:
        """Return the linear map of a fit to labels among 0, ..., n_classes - 1."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression  # slow to import

        share = weight / weight.sum()
        known = ~np.isnan(inputs)
        total = np.maximum(share @ known, 1e-300)
        center = share @ np.where(known, inputs, 0.0) / total
        spread = np.sqrt(share @ np.where(known, inputs - center, 0.0) ** 2 / total)
        scale = np.where(spread > 1e-12 * np.maximum(abs(center), 1e-80), spread, 1.0)
        z, is_missing = standardise(inputs, center, scale)
        logistic = LogisticRegression(C=self.strength, max_iter=200)
        with warnings.catch_warnings():
            # The mixture judges it by rows that it has not seen, converged or not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            logistic.fit(np.hstack([z, is_missing]), labels, sample_weight=weight)
        coef, intercept = _logits_of_all(logistic, n_classes)
        d = inputs.shape[1]
        return LinearLogits(center, scale, coef[:d], coef[d:], intercept)


def _logits_of_all(logistic: Any, n_classes: int) -> tuple[Array, Array]:
    """Return coefficients and intercepts of every class, of which only some were fitted."""
    coef, intercept = logistic.coef_.T, logistic.intercept_
    classes = logistic.classes_
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

    classifier: Any

    def fit(
        self, inputs: Array, labels: NDArray[np.int64], weight: Array, n_classes: int
    ) -> OtherMap:
        """Return the predictions of a fitted copy."""
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        copy = clone(self.classifier)
        weights = {"sample_weight": weight} if has_fit_parameter(copy, "sample_weight") else {}
        return OtherMap(copy.fit(inputs, labels, **weights), n_classes)


@dataclass(frozen=True, slots=True)
class OtherMap:
    """The predictions of a fitted classifier, with a column for every class."""

    classifier: Any
    n_classes: int

    def __call__(self, inputs: Array) -> Array:
        """Return the probabilities of rows of inputs."""
        result = np.zeros((len(inputs), self.n_classes))
        result[:, self.classifier.classes_] = self.classifier.predict_proba(inputs)
        return result
