"""``fit(..., groups=)``: rows of one image, document or patient are held out together."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from array_chunks import ArrayChunks
from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    Chain,
    FeatureCalibrator,
    NormalizationAwareIsotonic,
    SortedCumulativeIsotonic,
    StructuredScaling,
    TemperatureScaling,
    errors,
    metrics,
)
from calibrant._gate import check_batch
from calibrant._row_order import deal_groups, deal_shares

RNG = np.random.default_rng(5)
CHOOSERS = {
    "auto": AutoCalibrator(),
    "na-fir": NormalizationAwareIsotonic(),
    "scir": SortedCumulativeIsotonic(),
    "chain": Chain([TemperatureScaling(), StructuredScaling()], cv=3),
}


def draw(n_groups=30, n_rows=600, seed=0):
    """Rows whose groups each have a bias of their own, which no other group shares."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n_rows)
    z = rng.normal(0, 2, (n_rows, 3))
    bias = rng.normal(0, 1.5, (n_groups, 3))
    p = np.exp(z + bias[groups])
    y = (p.cumsum(axis=1) > rng.random((n_rows, 1)) * p.sum(axis=1, keepdims=True)).argmax(axis=1)
    q = np.exp(z)
    return q / q.sum(axis=1, keepdims=True), y, groups


def test_a_group_is_in_one_fold_and_folds_are_alike():
    scores, y, groups = draw()
    batch = check_batch(scores, y, groups=groups)
    share, _ = deal_shares(batch, 4)
    assert (np.count_nonzero(share, axis=1) == 1).all()
    fold = share.argmax(axis=1)
    assert all(len(np.unique(fold[groups == g])) == 1 for g in np.unique(groups))
    assert np.ptp(share.sum(axis=0)) <= np.bincount(groups).max()


def test_fewer_groups_than_folds_fill_the_first_folds():
    batch = check_batch(*draw(n_groups=3)[:2], groups=draw(n_groups=3)[2])
    assert set(deal_groups(batch, 5)) == {0, 1, 2}


@pytest.mark.parametrize("name", CHOOSERS)
def test_neither_names_nor_order_nor_repeats_matter(name):
    scores, y, groups = draw()
    expected = CHOOSERS[name].fit(scores, y, groups=groups).predict_proba(scores)
    order = RNG.permutation(len(y))
    named = np.array([f"image {g}" for g in groups])[order]
    found = CHOOSERS[name].fit(scores[order], y[order], groups=named).predict_proba(scores)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    weight = 1 + (np.arange(len(y)) < 50)
    twice = np.concatenate([np.arange(len(y)), np.arange(50)])
    found = CHOOSERS[name].fit(scores, y, weight, groups=groups).predict_proba(scores)
    repeated = CHOOSERS[name].fit(scores[twice], y[twice], groups=groups[twice])
    np.testing.assert_allclose(found, repeated.predict_proba(scores), rtol=0, atol=1e-8)


def test_what_holds_for_some_groups_is_not_believed_of_others():
    """Few groups with strong biases: rows dealt one by one find class terms that do not last."""
    losses = {"rows": [], "groups": []}
    for seed in range(4):
        scores, y, groups = draw(n_groups=6, n_rows=1200, seed=seed)
        seen = groups < 4
        for name, of_fit in (("rows", {}), ("groups", {"groups": groups[seen]})):
            fitted = AutoCalibrator().fit(scores[seen], y[seen], **of_fit)
            p = fitted.predict_proba(scores[~seen])
            losses[name].append(metrics.negative_log_likelihood(y[~seen], p))
    assert np.mean(losses["groups"]) < np.mean(losses["rows"])


def test_features_and_classifiers_pass_groups_on():
    scores, y, groups = draw()
    X = pd.DataFrame({"x": RNG.normal(size=len(y))})
    fitted = FeatureCalibrator(cv=3).fit(scores, y, features=X, groups=groups)
    alone = AutoCalibrator(cv=3).fit(scores, y, groups=groups)
    np.testing.assert_allclose(
        fitted.calibrator_.predict_proba(scores), alone.predict_proba(scores), atol=0.05
    )
    model = CalibratedClassifier(LogisticRegression(), cv=GroupKFold(3), ensemble=False)
    first = model.fit(scores, y, groups=groups).predict_proba(scores)
    model.set_params(calibrator=TemperatureScaling())
    assert not np.array_equal(first, model.fit(scores, y, groups=groups).predict_proba(scores))


@pytest.mark.parametrize("groups", [np.zeros(600), np.zeros(599), [None] * 600], ids=len)
def test_groups_that_cannot_be_held_out_are_refused(groups):
    scores, y, _ = draw()
    with pytest.raises(errors.DataError, match="groups"):
        AutoCalibrator().fit(scores, y, groups=groups)


def test_chunks_have_no_groups():
    scores, y, groups = draw()
    with pytest.raises(errors.ContainerError):
        TemperatureScaling().fit(ArrayChunks(scores, y, n_rows=100), groups=groups)
