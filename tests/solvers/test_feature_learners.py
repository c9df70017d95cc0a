"""Powers of a logarithmic pool, and learners that are kept as arrays."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from calibrant._maps.features import bounded_logs, standardise
from calibrant._solvers.feature_learners import Boosting, Ridge, solve_log_pool


def draw(n_rows=300, n_classes=3, n_parts=3, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n_rows, n_classes))
    parts = [np.exp(z + rng.normal(0, s, z.shape)) for s in np.linspace(0.3, 1.5, n_parts)]
    parts = [p / p.sum(axis=1, keepdims=True) for p in parts]
    true = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    return bounded_logs(parts), y, rng.uniform(0.5, 2.0, n_rows)


def value(w, logs, y, weight, strength, ridge):
    """The objective as its docstring has it, row by row."""
    first = np.exp(logs[:, :, 0])
    total = ridge * ((w[0] - 1.0) ** 2 + (w[1:] ** 2).sum())
    for i in range(len(y)):
        z = np.array([logs[i, c] @ w for c in range(logs.shape[1])])
        log_p = z - np.log(np.exp(z - z.max()).sum()) - z.max()
        total -= weight[i] * log_p[y[i]]
        total -= strength * weight[i] / weight.sum() * (first[i] @ log_p)
    return total


@pytest.mark.parametrize(("strength", "ridge"), [(0.0, 0.5), (20.0, 3.0)])
def test_the_powers_are_those_of_another_solver(strength, ridge):
    rows = draw(80)
    w, report = solve_log_pool(*rows, strength=strength, ridge=ridge)
    assert report.converged
    assert w.min() >= 0.0
    other = minimize(
        value, np.full(3, 0.5), args=(*rows, strength, ridge), method="SLSQP",
        bounds=[(0.0, None)] * 3, options={"ftol": 1e-12},
    )  # fmt: skip
    assert value(w, *rows, strength, ridge) <= other.fun + 1e-6
    np.testing.assert_allclose(w, other.x, atol=1e-3)


def inputs_of(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n_rows, 5))
    inputs[rng.random(inputs.shape) < 0.1] = np.nan
    return inputs


@pytest.mark.parametrize("n_classes", [2, 4])
def test_trees_are_those_of_scikit_learn(n_classes):
    inputs = inputs_of(500)
    inputs[:, 3] = np.round(inputs[:, 3])  # columns of few values, some of which are missing
    labels = (np.nan_to_num(inputs[:, 0], nan=2.0) * 2 + inputs_of(500, 1)[:, 1] > 0).astype(int)
    labels = (labels + 2 * np.isnan(inputs[:, 2])) % n_classes
    labels[:n_classes] = np.arange(n_classes)
    boosting = HistGradientBoostingClassifier(
        learning_rate=0.12, max_iter=10, max_leaf_nodes=7, l2_regularization=5.0,
        min_samples_leaf=15, max_bins=63, early_stopping=False,
    ).fit(inputs, labels)  # fmt: skip
    found = Boosting(n_trees=10).fit(inputs, labels, np.ones(500), n_classes)
    # Its sums are of single precision, and edges of bins differ by a part of the gap of two values.
    expected = boosting.predict_proba(inputs)
    np.testing.assert_allclose(found(inputs), expected, atol=1e-4)


def test_a_weight_is_a_repetition_but_for_the_fewest_rows_of_a_leaf():
    inputs = np.round(inputs_of(300), 1)
    labels = (np.nan_to_num(inputs[:, 0]) + inputs_of(300, 1)[:, 1] > 0).astype(int)
    weight = 1.0 + np.arange(300) % 3
    row = np.repeat(np.arange(300), weight.astype(int))
    learner = Boosting(n_trees=5, least_rows=1)
    once = learner.fit(inputs, labels, weight, 2)(inputs)
    twice = learner.fit(inputs[row], labels[row], np.ones(len(row)), 2)(inputs)
    np.testing.assert_allclose(once, twice, atol=1e-9)


@pytest.mark.parametrize("strength", [0.1, 1.0])
def test_a_linear_map_is_that_of_scikit_learn(strength):
    inputs = inputs_of(80)
    labels = (np.nan_to_num(inputs[:, 0]) > 0.1).astype(int)  # all but separable
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    found = Ridge(strength).fit(inputs, labels, weight, 2)
    z = np.hstack(standardise(inputs, found.center, found.scale))
    other = LogisticRegression(C=strength, tol=1e-9, max_iter=10_000).fit(z, labels, weight)
    np.testing.assert_allclose(found(inputs), other.predict_proba(z), atol=1e-5)


@pytest.mark.parametrize("learner", [Boosting(n_trees=10), Ridge()])
@pytest.mark.parametrize("present", [[0, 2], [0, 1, 3]])
def test_classes_without_a_row_are_all_but_impossible(learner, present):
    inputs = inputs_of(400)
    labels = np.array(present)[np.arange(400) % len(present)]
    found = learner.fit(inputs, labels, np.ones(400), 4)(inputs)
    assert found.shape == (400, 4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    others = [c for c in range(4) if c not in present]
    assert found[:, others].max() < 1e-6
    assert found[:, present].min() > 1e-3


def test_weights_are_repetitions_of_a_linear_map():
    inputs = inputs_of(200)
    labels = (np.nan_to_num(inputs[:, 0]) > 0.3).astype(int)
    weight = 1.0 + (np.arange(200) % 3)
    once = Ridge().fit(inputs, labels, weight, 2)
    row = np.repeat(np.arange(200), weight.astype(int))
    twice = Ridge().fit(inputs[row], labels[row], np.ones(len(row)), 2)
    np.testing.assert_allclose(once(inputs), twice(inputs), atol=1e-4)
