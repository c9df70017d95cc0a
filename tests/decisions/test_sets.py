"""Sets of classes: by cumulative probabilities, and split-conformal."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant import errors
from calibrant.datasets import simulated_scores
from calibrant.decisions import ConformalSets, prediction_sets
from reference import decisions as reference

SCORES, LABELS = simulated_scores(900)


def test_sets_by_hand():
    rows = [[0.6, 0.3, 0.1], [0.25, 0.25, 0.5], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]]
    sets = prediction_sets(rows, 0.9)
    assert sets.members.tolist() == [
        [True, True, False],  # 0.6 + 0.3 is 0.9, whatever the last bit says
        [True, True, True],
        [True, True, True],
        [True, False, False],
    ]
    assert prediction_sets(rows, 0.5).sizes.tolist() == [1, 1, 3, 1]
    assert prediction_sets(rows, 1.0).sizes.tolist() == [3, 3, 3, 1]
    assert [own.tolist() for own in sets.labels()] == [[0, 1], [0, 1, 2], [0, 1, 2], [0]]
    assert repr(sets) == "PredictionSets(4 rows, coverage=0.9, mean size 2.25, sizes 1 to 3)"


@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.6, 0.9, 0.99]))
def test_a_set_is_the_smallest_that_reaches_the_coverage(seed, coverage):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 6, (5, 4)) + np.array([1, 0, 0, 0])  # with ties and zeros
    rows = cells / cells.sum(axis=1, keepdims=True)
    for members, own in zip(prediction_sets(rows, coverage).members, cells.tolist(), strict=True):
        for j, is_in in enumerate(members):
            above = Fraction(sum(c for c in own if c > own[j]), sum(own))
            assert is_in == (above < Fraction(str(coverage)))


def test_measured_coverage_and_weights():
    labels = np.array(["a", "b", "c"])[LABELS]
    frame = pd.DataFrame(SCORES, columns=["a", "b", "c"])
    sets = prediction_sets(frame, 0.8, y_true=labels)
    assert sets.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(sets.held, sets.members[np.arange(900), LABELS])
    interval = stats.binomtest(int(sets.held.sum()), 900).proportion_ci(0.95)
    assert sets.measured == pytest.approx((sets.held.mean(), interval.low, interval.high))
    weight = np.arange(900) % 2
    half = prediction_sets(frame, 0.8, y_true=labels, sample_weight=weight)
    assert len(half.members) == 900
    rest = prediction_sets(SCORES[1::2], 0.8, y_true=LABELS[1::2])
    assert half.measured == pytest.approx(rest.measured)
    assert not sets.members.flags.writeable


@given(
    st.integers(0, 10**6), st.sampled_from([0.5, 0.7, 0.8, 0.9]), st.sampled_from(["lac", "aps"])
)
@pytest.mark.filterwarnings("ignore:.*needs more than")
def test_the_quantile_is_that_of_the_definition(seed, coverage, score):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 15))
    rows = rng.integers(1, 5, (n, 3)) / 1.0
    rows /= rows.sum(axis=1, keepdims=True)
    y = np.append([0, 1, 2], rng.integers(0, 3, n - 3))
    scores = [
        1.0 - row[j]
        if score == "lac"
        else sum(sorted((p for p in row if p > row[j]), reverse=True))
        for row, j in zip(rows, y, strict=True)
    ]
    expected = reference.conformal_quantile(scores, coverage)
    found = ConformalSets(coverage, score=score).fit(rows, y).quantile_
    assert found == pytest.approx(math.inf if expected is None else expected, abs=1e-12)


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_the_guarantee_holds_on_average(score):
    """Exchangeable rows, over-confident: 400 draws of 99 rows and one more."""
    rng = np.random.default_rng(3)
    scores, y = simulated_scores(40_000)
    places = rng.permutation(40_000).reshape(400, 100)
    held = 0
    for own in places:
        fitted = ConformalSets(0.8, score=score).fit(
            scores[own[:99]], y[own[:99]], classes=[0, 1, 2]
        )
        held += int(fitted.predict_set(scores[own[99:]], y[own[99:]]).held[0])
    assert stats.binomtest(held, 400, 0.8, alternative="less").pvalue > 1e-3


def test_too_few_rows_are_told():
    with pytest.warns(errors.SmallSampleWarning, match="coverage=0.9 needs more than 3 rows"):
        fitted = ConformalSets(0.9).fit([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], [0, 1, 1])
    assert fitted.predict_set([[0.9, 0.1]]).members.all()


def test_bad_input_is_refused():
    for wrong in (0, 90, "x", math.nan, None):
        with pytest.raises(errors.ParameterError, match="coverage"):
            prediction_sets(SCORES, wrong)
        with pytest.raises(errors.ParameterError, match="coverage"):
            ConformalSets(wrong).fit(SCORES, LABELS)
    with pytest.raises(errors.ParameterError, match="score='raps' is not known"):
        ConformalSets(score="raps").fit(SCORES, LABELS)
    with pytest.raises(errors.NotFittedError):
        ConformalSets().predict_set(SCORES)
    with pytest.raises(errors.DataError, match="3 classes, 0, 1, 2; pass one column for each"):
        ConformalSets().fit(SCORES, LABELS).predict_set(SCORES[:, :2])


@pytest.mark.parametrize("n_rows", [3, 6, 13, 1002])
def test_the_coverage_that_is_advised_is_one_that_so_many_rows_have(n_rows):
    scores, y = simulated_scores(n_rows)
    with pytest.warns(errors.SmallSampleWarning, match="or use coverage=") as told:
        ConformalSets(coverage=0.9999).fit(scores, y)
    advised = float(str(told[-1].message).rpartition("=")[2])
    assert np.isfinite(ConformalSets(coverage=advised).fit(scores, y).quantile_)


def test_two_classes_as_one_column():
    positive = np.array([0.97, 0.6, 0.02])
    both = prediction_sets(np.column_stack([1 - positive, positive]), 0.9)
    np.testing.assert_array_equal(prediction_sets(positive, 0.9).members, both.members)
    fitted = ConformalSets(0.5).fit(positive, [1, 0, 0])
    assert fitted.predict_set(positive, [1, 0, 0]).members.shape == (3, 2)
    words = ConformalSets(0.5).fit(positive, ["yes", "no", "no"], pos_label="yes")
    assert words.classes_.tolist() == ["no", "yes"]
    assert words.quantile_ == fitted.quantile_
