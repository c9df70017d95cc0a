"""Split-conformal sets of classes: the quantile, the guarantee, and what is measured."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant import errors
from calibrant.datasets import simulated_scores
from calibrant.decisions import ConformalSets
from conftest import refuses
from reference import decisions as reference

SCORES, LABELS = simulated_scores(900)


def test_members_sizes_and_labels():
    labels = np.array(["a", "b", "c"])[LABELS]
    frame = pd.DataFrame(SCORES, columns=["a", "b", "c"])
    fitted = ConformalSets(0.8).fit(frame[:450], labels[:450])
    sets = fitted.predict_set(frame[450:])
    assert sets.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(sets.members, SCORES[450:] >= 1.0 - fitted.quantile_)
    assert [len(own) for own in sets.labels()] == sets.sizes.tolist()
    assert sets.labels()[0].tolist() == sets.classes[sets.members[0]].tolist()
    assert not sets.members.flags.writeable


@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.7, 0.8, 0.9]))
@pytest.mark.filterwarnings("ignore:.*needs more than")
def test_the_quantile_is_that_of_the_definition(seed, coverage):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 15))
    rows = rng.integers(1, 5, (n, 3)) / 1.0
    rows /= rows.sum(axis=1, keepdims=True)
    y = np.append([0, 1, 2], rng.integers(0, 3, n - 3))
    scores = [1.0 - row[j] for row, j in zip(rows, y, strict=True)]
    expected = reference.conformal_quantile(scores, coverage)
    found = ConformalSets(coverage).fit(rows, y).quantile_
    assert found == pytest.approx(math.inf if expected is None else expected, abs=1e-12)


def test_the_guarantee_holds_on_average():
    """Exchangeable rows, over-confident: 400 draws of 99 rows and one more."""
    rng = np.random.default_rng(3)
    scores, y = simulated_scores(40_000)
    places = rng.permutation(40_000).reshape(400, 100)
    held = 0
    for own in places:
        fitted = ConformalSets(0.8).fit(scores[own[:99]], y[own[:99]], classes=[0, 1, 2])
        held += int(fitted.predict_set(scores[own[99:]]).members[0, y[own[99]]])
    assert stats.binomtest(held, 400, 0.8, alternative="less").pvalue > 1e-3


def test_bad_input_is_refused():
    for wrong in (0, 90, "x", math.nan, None):
        with refuses("coverage"):
            ConformalSets(wrong).fit(SCORES, LABELS)
    with pytest.raises(errors.NotFittedError):
        ConformalSets().predict_set(SCORES)
    with pytest.raises(errors.DataError, match="3 classes, 0, 1, 2; pass one column for each"):
        ConformalSets().fit(SCORES, LABELS).predict_set(SCORES[:, :2])


@pytest.mark.parametrize("n_rows", [3, 6, 13, 1002])
def test_the_coverage_that_is_advised_is_one_that_so_many_rows_have(n_rows):
    scores, y = simulated_scores(n_rows)
    with pytest.warns(errors.SmallSampleWarning, match="or use coverage=") as told:
        fitted = ConformalSets(coverage=0.9999).fit(scores, y)
    assert fitted.predict_set(scores).members.all()
    advised = float(str(told[-1].message).rpartition("=")[2])
    assert np.isfinite(ConformalSets(coverage=advised).fit(scores, y).quantile_)


def test_two_classes_as_one_column():
    positive = np.array([0.97, 0.6, 0.02])
    fitted = ConformalSets(0.5).fit(positive, [1, 0, 0])
    assert fitted.predict_set(positive).members.shape == (3, 2)
    words = ConformalSets(0.5).fit(positive, ["yes", "no", "no"], pos_label="yes")
    assert words.classes_.tolist() == ["no", "yes"]
    assert words.quantile_ == fitted.quantile_
