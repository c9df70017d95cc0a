"""AUC, predicted over observed positives, slope and intercept; rare classes; stated confidences."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import rankdata
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from array_chunks import ArrayChunks
from calibrant import errors
from calibrant.metrics import _binary as recalibration
from calibrant.metrics import _significance as null
from calibrant.metrics import (
    binary_summary,
    calibration_test,
    class_shares,
    evaluate,
    positive_ece,
    reliability_curve,
    smooth_ece,
)
from conftest import refuses

N_ROWS = 20_000
MIDDLES = {0.01: -5.3, 0.05: -3.55, 0.40: -0.52}
"""Middle of the true log-odds by the share of positives."""


def wrong_in(middle):
    """Return ways to be wrong, each with the finding that names it."""
    return {
        "reversed": (lambda z: expit(2 * middle - z), "reversed"),
        "shift": (lambda z: expit(z - 0.7), "under-predicted"),
        "slope": (lambda z: expit(middle + 2 * (z - middle)), "too extreme"),
        "class weights": (lambda z: expit(z - middle), "over-predicted"),
    }


KINDS = [(share, name) for share in MIDDLES for name in wrong_in(0.0)]


def log_odds(n_rows, middle, seed=0, spread=1.2):
    rng = np.random.default_rng(seed)
    z = rng.normal(middle, spread, n_rows)
    return z, (rng.random(n_rows) < expit(z)).astype(int)


@pytest.mark.filterwarnings("ignore::calibrant.errors.ColumnMismatchWarning")
@pytest.mark.parametrize(("share", "name"), KINDS)
def test_each_miscalibration_is_seen_and_named(share, name):
    says, finding = wrong_in(MIDDLES[share])[name]
    z, y = log_odds(N_ROWS, MIDDLES[share])
    assert y.mean() == pytest.approx(share, rel=0.15)
    if name == "class weights" and share == 0.40:
        z = z - 0.3  # else there is hardly any weight
        y = (np.random.default_rng(3).random(N_ROWS) < expit(z)).astype(int)
    said = says(z)
    test = calibration_test(y, said, n_resamples=300)
    assert test.p_value < 0.01
    found = evaluate(y, said, n_resamples=200)
    assert finding in found.binary.findings
    sentence = {"reversed": "are reversed: AUC 0."}.get(finding, finding)
    assert sentence in str(found)
    assert found.positive_ece.low > 0.0
    assert smooth_ece(y, said) > test.null_mean
    curve = reliability_curve(y, said, strategy="quantile", n_resamples=200)
    assert (curve.kind, curve.p_value < 0.01) == (1, True)
    outside = (curve.frequency < curve.consistency_low) | (curve.frequency > curve.consistency_high)
    assert curve.weight[outside].sum() > 0.3 * N_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("middle", MIDDLES.values())
def test_right_predictions_alarm_at_the_stated_rate(middle):
    alarms = 0
    for seed in range(1000):
        z, y = log_odds(2000, middle, seed)
        alarms += calibration_test(y, expit(z), n_resamples=199).p_value <= 0.05
    assert 30 <= alarms <= 72


def test_a_curve_that_no_line_explains_is_seen():
    """The trend is right on average, the bins are not."""
    rng = np.random.default_rng(0)
    said = rng.uniform(0.05, 0.95, 4000)
    true = np.clip(said + 0.08 * np.sin(8 * np.pi * said), 0, 1)
    test = calibration_test((rng.random(4000) < true).astype(int), said)
    assert test.error_p_value < 0.01
    assert test.trend_p_value > 0.05
    assert test.p_value < 0.02


def test_bins_of_a_strategy():
    z, y = log_odds(3000, MIDDLES[0.01])
    said = expit(2 * MIDDLES[0.01] - z)
    for strategy in ("uniform", "quantile"):
        test = calibration_test(y, said, strategy=strategy, n_resamples=99)
        assert test.strategy == strategy
        assert test.statistic == positive_ece(y, said, strategy=strategy)
        found = evaluate(y, said, strategy=strategy, n_resamples=0)
        assert found.positive_ece.value == test.statistic
        chunks = ArrayChunks(np.column_stack([1 - said, said]), y, n_rows=700)
        of_chunks = evaluate(chunks, strategy=strategy, n_resamples=0)
        assert of_chunks.positive_ece.value == pytest.approx(test.statistic, rel=1e-9)
    assert calibration_test(y, said, n_resamples=9).strategy == "quantile"
    assert evaluate(y, said, n_resamples=0).positive_ece.value == positive_ece(y, said)
    with refuses("strategy", value="quantile"):
        calibration_test(y, said, metric="classwise", strategy="quantile")


def test_the_order_of_rows_changes_nothing():
    rng = np.random.default_rng(0)
    said = rng.integers(1, 9, 300) / 10  # ties
    y, weight = (rng.random(300) < said).astype(int), rng.integers(1, 4, 300) / 4
    order = rng.permutation(300)
    for w, mixed in ((None, None), (weight, weight[order])):
        one = calibration_test(y, said, n_resamples=50, sample_weight=w)
        other = calibration_test(y[order], said[order], n_resamples=50, sample_weight=mixed)
        assert other.p_value == one.p_value
        assert other.statistic == pytest.approx(one.statistic, rel=1e-12)
        summary = binary_summary(y, said, sample_weight=w)
        again = binary_summary(y[order], said[order], sample_weight=mixed)
        for name, own in summary.estimates().items():
            assert again.estimates()[name] == pytest.approx(own, rel=1e-9), name


@pytest.mark.parametrize("has_weights", [False, True])
def test_chunks_and_many_rows_are_tested_alike(has_weights, monkeypatch):
    z, y = log_odds(4000, -2.0)
    said = expit(-2 + 1.09 * (z + 2))
    w = np.random.default_rng(2).gamma(3.0, size=4000) if has_weights else None
    by_rows = calibration_test(y, said, sample_weight=w, n_resamples=2000)
    assert 0.01 < by_rows.p_value < 0.9
    chunks = ArrayChunks(np.column_stack([1 - said, said]), y, sample_weight=w, n_rows=900)
    by_chunks = calibration_test(chunks, n_resamples=2000)
    monkeypatch.setattr(null, "MOST_ROWS_DRAWN", 10)
    by_sums = calibration_test(y, said, sample_weight=w, n_resamples=2000)
    for other in (by_chunks, by_sums):
        assert other.statistic == pytest.approx(by_rows.statistic, rel=1e-9)
        for name in ("p_value", "error_p_value", "trend_p_value"):
            assert getattr(other, name) == pytest.approx(getattr(by_rows, name), abs=0.05)
    top = calibration_test(y, said, metric="confidence", strategy="quantile", sample_weight=w)
    assert top.metric == "confidence"
    assert math.isnan(top.trend_p_value)


def test_numbers_are_those_of_their_definitions():
    z, y = log_odds(400, -1.0)
    said = expit(0.3 + 1.4 * z)
    found = binary_summary(y, said)
    x = logit(said)
    assert found.auc.value == pytest.approx(roc_auc_score(y, said), abs=1e-14)
    assert found.predicted_over_observed.value == pytest.approx(said.mean() / y.mean(), rel=1e-14)

    def loss(theta):
        return np.logaddexp(0, (1 - 2 * y) * (theta[0] + theta[1] * x)).sum()

    a, b = minimize(loss, [0.0, 1.0], tol=1e-10).x
    assert (found.intercept.value, found.slope.value) == pytest.approx((a, b), abs=1e-5)
    q = expit(a + b * x)
    crit = student.ppf(0.975, 4 * (q * (1 - q)).sum()) ** 2
    assert 3.84 < crit < 4.0
    for end in found.slope[1:]:  # where the profile likelihood is that of 95 %
        rest = minimize(lambda t, end=end: loss([t[0], end]), [a], tol=1e-10)
        assert 2 * (rest.fun - loss([a, b])) == pytest.approx(crit, abs=1e-3)
    for end in found.intercept[1:]:
        rest = minimize(lambda t, end=end: loss([end, t[0]]), [b], tol=1e-10)
        assert 2 * (rest.fun - loss([a, b])) == pytest.approx(crit, abs=1e-3)
    # DeLong: placements of positive rows among the negative ones, and the other way round.
    ranks, positive = rankdata(said), y == 1
    below = (ranks[positive] - rankdata(said[positive])) / (~positive).sum()
    above = 1 - (ranks[~positive] - rankdata(said[~positive])) / positive.sum()
    variance = below.var(ddof=1) / positive.sum() + above.var(ddof=1) / (~positive).sum()
    reach = logit(found.auc.high) - logit(found.auc.value)
    error = math.sqrt(variance) / (found.auc.value * (1 - found.auc.value))
    assert 1.96 <= reach / error < 2.05  # Student's t


def test_a_weight_is_a_repetition():
    z, y = log_odds(200, 0.0)
    said, times = expit(1.3 * z), np.random.default_rng(1).integers(0, 4, 200)
    weighted = binary_summary(y, said, sample_weight=times)
    repeated = binary_summary(np.repeat(y, times), np.repeat(said, times))
    for name, own in repeated.estimates().items():
        assert getattr(weighted, name) == pytest.approx(own, rel=1e-7), name
    assert weighted.findings == repeated.findings
    assert weighted.n_positive == repeated.n_positive


def test_many_distinct_predictions_are_merged_without_a_trace(monkeypatch):
    z, y = log_odds(3000, -2.0)
    said = expit(1.5 * z)
    said[:3] = 0.0, 1.0, 1e-9
    whole = binary_summary(y, said)
    monkeypatch.setattr(recalibration, "MOST_CELLS_PROFILED", 100)
    merged = binary_summary(y, said)
    for name in ("slope", "intercept"):
        assert getattr(merged, name) == pytest.approx(getattr(whole, name), abs=2e-4)


def test_what_cannot_be_computed_is_missing_with_the_reason():
    said, y = np.linspace(0.05, 0.95, 40), np.arange(40) % 2
    none = binary_summary(np.zeros(40, dtype=int), said, classes=[0, 1])
    assert math.isinf(none.predicted_over_observed.value)
    assert math.isnan(none.auc.value)
    both = binary_summary(np.ones(40, dtype=int), said, classes=[0, 1])
    assert both.predicted_over_observed.value == pytest.approx(0.5)
    flat = binary_summary(y, np.full(40, 0.3))
    assert (flat.auc.value, flat.observed) == (0.5, 0.5)
    assert math.isnan(flat.slope.value)
    assert flat.predicted_over_observed.low < 0.6 < flat.predicted_over_observed.high
    sharp = binary_summary((said > 0.5).astype(int), said)
    assert (sharp.auc.value, sharp.slope.value, sharp.slope.high) == (1.0, math.inf, math.inf)
    assert sharp.slope.low > 1.0
    assert math.isnan(sharp.auc.low)
    turned = binary_summary((said < 0.5).astype(int), said)
    assert (turned.slope.value, turned.slope.low) == (-math.inf, -math.inf)
    assert turned.slope.high < 0.0
    few = binary_summary([0, 0, 1, 0, 1], [0.1, 0.4, 0.3, 0.2, 0.9])
    assert math.isnan(few.auc.low)
    assert few.auc.value == pytest.approx(5 / 6)
    for result, findings in (
        (none, ()),
        (both, ()),
        (few, ()),
        (flat, ("under-predicted",)),
        (sharp, ("too timid",)),
        (turned, ("reversed",)),
    ):
        assert result.findings == findings
        assert len(result.missing) == 1
        assert result.missing[0] in str(result)


def test_certain_predictions_have_finite_log_odds():
    said = np.repeat([0.0, 0.2, 0.8, 1.0], 100)
    y = (np.random.default_rng(0).random(400) < said).astype(int)
    found = binary_summary(y, said)
    assert np.isfinite([*found.slope, *found.intercept, *found.auc]).all()
    assert calibration_test(y, said, n_resamples=99).p_value > 0.01
    y[0] = 1  # where 0 was said
    assert calibration_test(y, said, n_resamples=99).p_value <= 0.02
    right = np.repeat([0, 1], 30)
    assert calibration_test(right, right.astype(float), n_resamples=50).p_value == 1.0
    assert calibration_test(1 - right, right.astype(float), n_resamples=50).p_value == 1 / 51


def test_accuracy_comes_last_where_one_class_is_frequent():
    for middle, place in ((-3.0, -1), (0.0, 0)):
        z, y = log_odds(500, middle)
        found = evaluate(y, expit(z), n_resamples=0)
        assert found.largest_share == max(y.mean(), 1 - y.mean())
        assert (found.largest_share > 0.8) == (place == -1)
        assert [*found.estimates()][place] == "accuracy"


def test_honest_predictions_are_left_alone():
    """At the stated rate: of 60 tests at 5 %, more than 8 are rejected once in 250 times."""
    rejected = np.zeros(2)
    for seed in range(60):
        z, y = log_odds(600, -1.0, seed, spread=1.5)
        test = calibration_test(y, expit(z), n_resamples=99)
        rejected += [test.p_value < 0.05, class_shares(y, expit(z)).p_holm.min() < 0.05]
    assert rejected.max() <= 8


def test_three_classes_have_no_positive_one():
    y, said = np.arange(30) % 3, np.full((30, 3), 1 / 3)
    found = evaluate(y, said, n_resamples=0)
    assert (found.binary, found.positive_ece) == (None, None)
    assert calibration_test(y, said, n_resamples=9).metric == "confidence"
    with refuses("metric", value="positive"):
        calibration_test(y, said, metric="positive")
    for function in (positive_ece, binary_summary):
        with pytest.raises(errors.ShapeError):
            function(y, said)
