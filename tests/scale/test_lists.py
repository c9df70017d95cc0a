"""Lists of the best classes: fits and metrics of full rows where lists are whole, else bounds."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrant import (
    FlattenedIsotonic,
    NormalizationAwareIsotonic,
    TemperatureScaling,
    VectorScaling,
    errors,
    metrics,
    model_file,
)
from calibrant.scale import TopLists
from reference.lists import nll_range

METHODS = {
    "ts": TemperatureScaling,
    "ts without prior": lambda: TemperatureScaling(prior_strength=0),
    "ts, zeros told": lambda: TemperatureScaling(zero_probability=1e-6),
    "fir": FlattenedIsotonic,
    "na-fir": lambda: NormalizationAwareIsotonic(prior_strength=100),
    "na-fir by cv": NormalizationAwareIsotonic,
    "na-fir of the paper": lambda: NormalizationAwareIsotonic(prior_strength=0),
}
each_method = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)


def rows(n_rows=400, n_classes=12, seed=0, sharpness=2.0):
    """Probabilities, too bold ones, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.0, 1.5, (n_rows, n_classes))
    honest = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (rng.random((n_rows, 1)) > np.cumsum(honest, axis=1)).sum(axis=1)
    bold = honest**sharpness
    return bold / bold.sum(axis=1, keepdims=True), np.minimum(y, n_classes - 1)


P, Y = rows()
WEIGHT = np.random.default_rng(1).integers(0, 3, len(Y)).astype(float)


@each_method
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_whole_lists_are_the_matrix(make, weight):
    """In any order of a row, to 1e-12: fit, predictions and bounds."""
    lists = TopLists.from_matrix(P, 12)
    order = np.random.default_rng(0).permuted(np.tile(np.arange(12), (len(P), 1)), axis=1)
    mixed = (np.take_along_axis(a, order, 1) for a in (lists.indices, lists.probabilities))
    lists = TopLists(*mixed, 12)
    found, full = make().fit(lists, Y, weight), make().fit(P, Y, weight)
    assert_allclose(found.predict_proba(P), full.predict_proba(P), atol=1e-12)
    calibrated = found.predict_proba(lists)
    assert_allclose(calibrated.rows(), full.predict_proba(P), atol=1e-12)
    nll = metrics.negative_log_likelihood(Y, full.predict_proba(P), sample_weight=weight)
    assert_allclose(lists.nll_bounds(Y, found, weight), nll, atol=1e-9)


@each_method
@pytest.mark.parametrize("zeros", [False, True], ids=["positive", "rests of 0"])
def test_the_fit_is_that_of_rows_that_share_the_rest(make, zeros):
    """Every unlisted class counts, though none has a column."""
    p = np.where(P < 0.02, 0.0, P) if zeros else P
    lists = TopLists.from_matrix(p / p.sum(axis=1, keepdims=True), 4)
    assert zeros == bool(np.any(lists.rest == 0.0))
    found, full = make().fit(lists, Y, WEIGHT), make().fit(lists.rows(), Y, WEIGHT)
    near = 0.05 if getattr(found, "cv_results_", None) else 1e-7  # folds are others
    assert_allclose(found.predict_proba(P), full.predict_proba(P), atol=near)
    assert_allclose(found.predict_proba(lists).rows(), full.predict_proba(lists.rows()), atol=near)
    assert_array_equal(found.predict(lists), full.predict(lists.rows()))


@each_method
@pytest.mark.parametrize("seed", range(3))
def test_the_full_rows_are_within_the_bounds(make, seed):
    """Before and after a fit, whose report states them."""
    p, y = rows(150, 8, seed, sharpness=0.5 + seed)
    lists = TopLists.from_matrix(p, 3)
    found = make().fit(lists, y)
    low, high = lists.nll_bounds(y, found)
    assert low - 1e-9 <= metrics.negative_log_likelihood(y, found.predict_proba(p)) <= high + 1e-9
    assert f"between {low:.6g} and {high:.6g}" in found.solver_report_.notes[-1]
    low, high = lists.nll_bounds(y)
    assert low <= metrics.negative_log_likelihood(y, p) <= high
    wider = TopLists(lists.indices, lists.probabilities, 8, lists.rest).nll_bounds(y, found)
    assert wider[0] <= lists.nll_bounds(y, found)[0] <= high <= max(wider[1], high)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("make", [TemperatureScaling, NormalizationAwareIsotonic])
def test_bounds_hold_for_all_rows_that_a_list_may_be_of(make, seed):
    """Those of single rows, at every corner of what is not known."""
    rng = np.random.default_rng(seed)
    p, y = rows(100, 6, seed, sharpness=rng.choice([0.4, 1.0, 3.0]))
    found = make().fit(p, y)
    listed = np.sort(rng.dirichlet(np.ones(3)))[::-1] * rng.uniform(0.6, 1.0)
    rest = min(1.0 - listed.sum(), 3 * listed[-1])
    listed /= (total := listed.sum() + rest)
    rest, low = rest / total, rng.choice([0.0, 0.5]) * rest / total / 3
    beta = getattr(found, "inverse_temperature_", None)

    def cells(values):
        if beta is None:
            return found.step_function_(values)
        return np.maximum(values, np.exp(found.zero_logit_)) ** beta

    for place in (0, 2, None):
        label = 4 if place is None else place
        lists = TopLists([[0, 1, 2]], [listed], 6, [rest], low)
        bounds = lists.nll_bounds([label], found)
        least, most = nll_range(listed, rest, 3, low, place, cells)
        assert bounds[0] <= least + 1e-7
        assert most <= bounds[1] + 1e-7
        assert bounds[1] - bounds[0] < 40.0


@each_method
def test_one_class_that_is_not_listed_is_known(make):
    """So two classes need a list of one, and nothing is bounded by more than rounding."""
    p, y = np.column_stack([1.0 - P[:, 0], P[:, 0]]), (Y == 0).astype(int)
    lists = TopLists.from_matrix(p, 1)
    found, full = make().fit(lists, y), make().fit(p, y)
    assert_allclose(found.predict_proba(p), full.predict_proba(p), atol=1e-12)
    nll = metrics.negative_log_likelihood(y, full.predict_proba(p))
    assert_allclose(lists.nll_bounds(y, found), nll, rtol=1e-6)


def test_what_needs_a_matrix_says_so():
    lists = TopLists.from_matrix(P, 4)
    found = TemperatureScaling().fit(lists, Y)
    for call in (
        found.predict_log_proba,
        np.asarray,
        partial(metrics.cross_fitted_decomposition, Y),
    ):
        with pytest.raises(
            errors.ContainerError, match=r"not a matrix.*pass rows\(\), which is a matrix"
        ):
            call(lists)


def test_metrics_take_lists():
    """Exact in what they see; other classes have an even share of the rest."""
    lists = TopLists.from_matrix(P, 5)
    full, told, spread = (
        metrics.evaluate(Y, own, n_resamples=0) for own in (P, lists, lists.rows())
    )
    assert told.accuracy.value == pytest.approx(full.accuracy.value, abs=1e-12)
    assert told.confidence_ece.value == pytest.approx(full.confidence_ece.value, abs=1e-12)
    assert told.brier_score.value == pytest.approx(spread.brier_score.value, abs=1e-12)
    assert told.brier_score.value <= full.brier_score.value + 0.05
    nll = metrics.negative_log_likelihood(Y, lists)
    low, high = lists.nll_bounds(Y)
    assert low <= nll <= high
    assert nll == pytest.approx(metrics.negative_log_likelihood(Y, lists.rows()), abs=1e-12)


def test_labels_of_any_kind_and_one_at_a_time():
    names = np.array([f"class {i:02}" for i in range(12)])
    lists = TopLists.from_matrix(P, 5)
    found = TemperatureScaling().fit(lists, pd.Series(names[Y], index=np.arange(len(Y)) + 7))
    plain = TemperatureScaling().fit(lists, Y)
    assert found.temperature_ == plain.temperature_
    assert found.predict(lists)[0] == names[plain.predict(lists)[0]]
    assert metrics.accuracy(pd.Series(names[Y]), lists) == metrics.accuracy(Y, P)
    again = model_file.loads(model_file.dumps(plain))
    assert_array_equal(again.predict_proba(lists).rest, plain.predict_proba(lists).rest)


@each_method
@pytest.mark.parametrize("floor", [0.0, 1e-3, 0.04])
def test_floors_and_rows_of_zeros_are_those_of_full_rows(make, floor):
    """Of maps that make cells zero, too."""
    lists = TopLists.from_matrix(P, 4)
    found = make().set_params(min_probability=floor).fit(lists, Y)
    calibrated = found.predict_proba(lists)
    assert_allclose(calibrated.rows(), found.predict_proba(lists.rows()), atol=1e-12)
    nll = metrics.negative_log_likelihood(Y, found.predict_proba(P))
    low, high = lists.nll_bounds(Y, found)
    assert low - 1e-9 <= nll <= high + 1e-9


def test_powers_that_leave_the_range_of_floats_are_those_of_full_rows():
    lists = TopLists.from_matrix(P, 4)
    found = TemperatureScaling().fit(lists, Y)
    vars(found)["map_"] = replace(found.map_, inverse_temperature=500.0)
    expected = found.predict_proba(lists.rows())
    assert_allclose(found.predict_proba(lists).rows(), expected, atol=1e-12)


def test_indices_of_other_columns_are_warned_of():
    """As those of a file that counts from another class."""
    lists = TopLists.from_matrix(np.roll(P, 6, axis=1), 2)
    with pytest.warns(errors.ColumnMismatchWarning, match=r"labels are listed in .*counted from 0"):
        TemperatureScaling().fit(lists, Y)


def test_short_types_stay_short():
    lists = TopLists.from_matrix(P.astype(np.float32), 3)
    calibrated = TemperatureScaling().fit(lists, Y).predict_proba(lists)
    assert (lists.indices.dtype, calibrated.probabilities.dtype) == (np.uint8, np.float32)
    assert_allclose(calibrated.probabilities.sum(axis=1) + calibrated.rest, 1.0, atol=1e-6)
    with pytest.raises(ValueError, match="read-only"):
        lists.rest[0] = 1.0


@pytest.mark.parametrize(
    "make", [TemperatureScaling, FlattenedIsotonic, NormalizationAwareIsotonic]
)
def test_a_fit_needs_a_tenth_of_the_memory(make):
    """Of matrix and fit together; the fit of lists makes no full row but in small blocks."""
    p, y = rows(2500, 500, sharpness=1.5)
    lists, peaks = TopLists.from_matrix(p, 20), []
    held = lists.indices.nbytes + lists.probabilities.nbytes + lists.rest.nbytes
    for scores, size in ((p, p.nbytes), (lists, held)):
        make().fit(p[:200], y[:200])  # whatever is loaded at first
        tracemalloc.start()
        make().fit(scores, y)
        peaks.append(size + tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 0.1 * peaks[0]


J, Q = [[0, 1], [2, 1]], [[0.5, 0.3], [0.6, 0.2]]
BAD = {
    "a class twice": (
        lambda: TopLists([[0, 1], [2, 2]], Q, 4),
        r"indices\[1\] is \[2, 2\].*disti",
    ),
    "a class too many": (lambda: TopLists([[0, 4], [2, 1]], Q, 4), r"indices\[0\].*0 to 3"),
    "counted from 1, or below": (
        lambda: TopLists([[0, -1], [2, 1]], Q, 4),
        "whole numbers from 0 to 3",
    ),
    "no whole numbers": (lambda: TopLists([[0.5, 1], [2, 1]], Q, 4), "dtype float64.*whole"),
    "shapes": (lambda: TopLists([[0], [1]], Q, 4), "an index and a probability for each listed"),
    "rests": (lambda: TopLists(J, Q, 4, [0.2]), "one rest per row"),
    "no classes": (lambda: TopLists(J, Q, 1), "n_classes=1 must be a whole number"),
    "more than 1": (lambda: TopLists(J, [[0.8, 0.3], [0.6, 0.2]], 4), r"probabilities\[0\] sums"),
    "a wrong rest": (
        lambda: TopLists(J, Q, 4, [0.2, 0.5]),
        r"probabilities\[1\] sums to 1.3.*rest=",
    ),
    "not finite": (lambda: TopLists(J, [[0.5, np.nan], [0.6, 0.2]], 4), r"\[0, 1\] is nan"),
    "logits": (lambda: TopLists(J, [[2.5, -1.0], [0.6, 0.2]], 4), "softmax"),
    "not the best": (
        lambda: TopLists(J, [[0.5, 0.1], [0.6, 0.2]], 4),
        r"rest\[0\] is 0.4.*most probable",
    ),
    "few listed of few": (
        lambda: TopLists([[0, 1]], [[0.5, 0.3]], 2),
        r"probabilities\[0\] sums",
    ),
    "another smallest": (lambda: TopLists(J, Q, 4, smallest=0.5), "smallest=0.5"),
    "a label too many": (lambda: TemperatureScaling().fit(TopLists(J, Q, 4), [0, 1, 2]), "3"),
    "an unknown label": (lambda: TemperatureScaling().fit(TopLists(J, Q, 4), [0, 9]), "classes="),
    "another method": (
        lambda: VectorScaling().fit(TopLists(J, Q, 4), [0, 1]),
        r"VectorScaling needs the score of every class.*TemperatureScaling.*lists.rows\(\)",
    ),
    "as logits": (
        lambda: TemperatureScaling(scores="logits").fit(TopLists(J, Q, 4), [0, 1]),
        "scores='probabilities'",
    ),
    "no rows": (
        lambda: TemperatureScaling().fit(TopLists(np.empty((0, 2), int), np.empty((0, 2)), 4), []),
        "0 rows",
    ),
    "metrics of other rows": (lambda: metrics.accuracy([0], TopLists(J, Q, 4)), r"shape \(1,\)"),
    "lists of other classes": (
        lambda: TemperatureScaling().fit(P, Y).predict_proba(TopLists(J, Q, 4)),
        "4 classes, but TemperatureScaling was fitted to 12",
    ),
}


@pytest.mark.parametrize(("call", "match"), BAD.values(), ids=BAD)
def test_bad_lists_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_other_methods_refuse_partial_fits_and_predictions_too():
    lists = TopLists.from_matrix(P, 4)
    with pytest.raises(errors.ContainerError, match="VectorScaling needs"):
        VectorScaling().partial_fit(lists, Y)
    with pytest.raises(errors.ContainerError, match="VectorScaling needs"):
        VectorScaling().fit(P, Y).predict_proba(lists)


def test_lists_may_come_night_after_night():
    lists = TopLists.from_matrix(P, 4)
    daily = FlattenedIsotonic().partial_fit(lists, Y, classes=np.arange(12))
    assert_allclose(
        daily.predict_proba(P), FlattenedIsotonic().fit(lists, Y).predict_proba(P), atol=1e-9
    )
