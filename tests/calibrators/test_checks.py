"""What a fit says of its own rows, and whether new scores look like those of the fit."""

import warnings

import numpy as np
import pytest
from scipy import stats

import calibrant
from calibrant import (
    AutoCalibrator,
    Chain,
    NormalizationAwareIsotonic,
    PriorShift,
    StructuredScaling,
    TemperatureScaling,
    errors,
)
from calibrant._calibrators import checks
from calibrant._calibrators.checks import ScoreSums, find_wrong_share, sample_of, summarise
from calibrant._gate import SimplexBatch, check_batch
from calibrant.errors import ClassShareWarning
from calibrant.model_file import dumps, loads
from conftest import simulate
from hostile_files.frame import take_apart
from model_file.catalogue import breaks

SHARED = [
    TemperatureScaling,
    NormalizationAwareIsotonic,
    calibrant.FlattenedIsotonic,
    calibrant.SortedCumulativeIsotonic,
    calibrant.MonotoneSpline,
]


def balanced(n_rows=2000, seed=0):
    """Two classes, 6 % positives, of a model whose class weights make them even."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-3.8, 1.7, n_rows)
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(int)
    p = 1 / (1 + np.exp(-logit - 2.8))
    return np.column_stack([1 - p, p]), y


def batch_of(p, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    return SimplexBatch(p, "probabilities", y, weight, np.arange(p.shape[1]))


@pytest.mark.parametrize("method", SHARED)
def test_one_map_for_two_classes_cannot_move_their_shares(method):
    p, y = balanced()
    with pytest.warns(ClassShareWarning) as caught:
        method().fit(p, np.array(["no", "yes"])[y])
    (warning,) = caught
    assert warning.filename == __file__
    for said in ("'yes'", f"{y.mean():.3g}", method.__name__, "'auto'"):
        assert said in str(warning.message)


def test_it_is_said_once_of_the_whole_and_not_of_its_parts():
    p, y = balanced()
    with pytest.warns(ClassShareWarning) as caught:
        Chain([TemperatureScaling(), NormalizationAwareIsotonic()], cv=3).fit(p, y)
    assert len(caught) == 1
    Chain([TemperatureScaling(), StructuredScaling()]).fit(p, y)


def wrong_share(batch):
    """What is said of a fit that changes nothing."""
    some = sample_of(batch)
    return find_wrong_share(some, some.scores)


@pytest.mark.parametrize("n_classes", [2, 4, 30])
@pytest.mark.parametrize("method", [TemperatureScaling, NormalizationAwareIsotonic])
def test_honest_scores_are_left_alone(method, n_classes):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassShareWarning)
        for seed in range(10):
            p, y = simulate(500, n_classes, seed)
            method(classes=np.arange(n_classes)).fit(p, y)


def test_the_rate_of_false_alarms_is_below_what_is_said(monkeypatch):
    """Asked for one in ten instead of one in ten thousand, so that there is something to count."""
    monkeypatch.setattr(checks, "FALSE_ALARMS", 0.1)
    rng = np.random.default_rng(0)
    n_alarms, n_sets = 0, 400
    for _ in range(n_sets):
        p = rng.dirichlet(np.full(5, 0.3), 200)
        y = (p.cumsum(axis=1) > rng.random((200, 1))).argmax(axis=1)
        weight = rng.choice([0.5, 1.0, 3.0], 200)
        n_alarms += wrong_share(batch_of(p, y, weight)) is not None
    assert n_alarms <= 0.1 * n_sets


def test_a_difference_that_many_rows_prove_is_seen_and_one_of_few_is_not():
    p, y = balanced(40_000)
    few = wrong_share(batch_of(p[:12], y[:12]))
    many = wrong_share(batch_of(p, y))
    assert few is None
    assert many.column == 1
    assert many.predicted == pytest.approx(p[:, 1].mean(), abs=0.01)
    assert many.observed == pytest.approx(y.mean(), abs=0.005)


def test_classes_without_a_label_are_left_out():
    """As of a calibration set without one of the classes that a network knows."""
    p, y = simulate(3000, 4)
    keep = y != 3
    TemperatureScaling(classes=np.arange(4)).fit(p[keep], y[keep])


def draw(n_rows, n_classes, seed=0, share=None):
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, n_rows, p=share)
    z = rng.normal(0, 1, (n_rows, n_classes))
    z[np.arange(n_rows), y] += 2.0
    p = np.exp(1.5 * z)
    return p / p.sum(axis=1, keepdims=True), y


def fit(n_classes=4, n_rows=1500, seed=100):
    scores, y = draw(n_rows, n_classes, seed)
    return TemperatureScaling(classes=np.arange(n_classes)).fit(scores, y)


@pytest.mark.parametrize("n_classes", [2, 3, 30])
@pytest.mark.parametrize("n_new", [60, 500])
def test_the_level_is_that_of_the_test(n_classes, n_new):
    """Of 400 honest sets, 5 % by chance: 3.0 to 7.5 % with a probability of 98 %."""
    alarms = []
    for seed in range(400):
        scores, y = draw(800 + n_new, n_classes, seed)
        batch = check_batch(scores[:800], y[:800], classes=np.arange(n_classes))
        alarms.append(ScoreSums(summarise(batch)).add(scores[800:]).compare().p_value < 0.05)
    assert 0.025 <= np.mean(alarms) <= 0.08


def test_it_is_hotellings_test_of_the_numbers_of_the_rows():
    """Of two classes, few rows: bins in pairs, and the probability of the positive class."""
    scores, y = draw(300, 2)
    new = draw(100, 2, seed=1)[0]
    edges = np.sort(scores[:, 1])[(300 * np.arange(1, 10) / 10).astype(int) - 1]

    def numbers(p):
        pair = np.searchsorted(edges, p, side="left") // 2
        return np.column_stack([*(pair == b for b in range(1, 5)), p]).astype(float)

    a, b = numbers(scores[:, 1]), numbers(new[:, 1])
    pooled = (299 * np.cov(a.T) + 99 * np.cov(b.T)) / 398
    gap = b.mean(axis=0) - a.mean(axis=0)
    square = gap @ np.linalg.solve(pooled, gap) / (1 / 300 + 1 / 100)
    expected = stats.f.sf(square * (398 - 4) / (398 * 5), 5, 398 - 4)
    found = TemperatureScaling().fit(scores, y).check(new)
    assert found.p_value == pytest.approx(expected, rel=0.02)


def test_other_frequencies_of_classes_are_told_from_other_scores():
    calibrator = fit()
    shares = [0.7, 0.1, 0.1, 0.1]
    frequencies = calibrator.check(draw(1000, 4, seed=3, share=shares)[0])
    assert frequencies.alarm
    assert frequencies.label_shift_p_value > 0.01
    assert frequencies.is_label_shift
    scores = draw(4000, 4, seed=4)[0]
    sure = calibrator.check(scores[scores.max(axis=1) > 0.8])
    assert sure.alarm
    assert sure.label_shift_p_value < 1e-6
    assert not sure.is_label_shift


def test_scores_beyond_those_of_the_fit_are_told():
    scores, y = draw(1000, 2)
    inside = (scores[:, 1] > 0.05) & (scores[:, 1] < 0.95)
    calibrator = TemperatureScaling().fit(scores[inside], y[inside])
    found = calibrator.check(scores)
    assert found.outside == pytest.approx(1 - inside.mean(), abs=0.01)


@pytest.mark.parametrize("kind", ["logits", "positive", "decision"])
def test_every_kind_of_scores_and_composition_has_it(kind):
    scores, y = draw(1200, 2)
    log_odds = np.log(scores[:, 1] / scores[:, 0])
    given = {"logits": np.log(scores), "positive": scores[:, 1], "decision": log_odds}[kind]
    usual = TemperatureScaling().fit(scores[:800], y[:800]).check(scores[800:])
    found = AutoCalibrator(scores=kind, classes=[0, 1]).fit(given[:800], y[:800])
    assert found.check(given[800:]).p_value == pytest.approx(usual.p_value, rel=1e-6)
    chain = Chain([TemperatureScaling(), PriorShift()]).fit(scores[:800], y[:800])
    assert chain.check(scores[800:]).p_value == pytest.approx(usual.p_value, rel=1e-9)


def test_neither_order_nor_repeats_of_the_fit_matter():
    scores, y = draw(500, 3)
    new = draw(200, 3, seed=1)[0]
    expected = TemperatureScaling().fit(scores, y).check(new)
    order = np.random.default_rng(0).permutation(500)
    found = TemperatureScaling().fit(scores[order], y[order]).check(new)
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-9)
    weight = 1.0 + (np.arange(500) < 100)
    twice = np.concatenate([np.arange(500), np.arange(100)])
    weighted = TemperatureScaling().fit(scores, y, weight).check(new)
    repeated = TemperatureScaling().fit(scores[twice], y[twice]).check(new)
    assert weighted.p_value == pytest.approx(repeated.p_value, rel=1e-9)


def test_files_hold_it_and_older_ones_do_not():
    calibrator, new = fit(), draw(100, 4, seed=9)[0]
    expected = calibrator.check(new)
    assert loads(dumps(calibrator)).check(new) == expected
    del calibrator.score_summary_
    with pytest.raises(errors.ContainerError):
        loads(dumps(calibrator)).check(new)
    with pytest.raises(errors.ShapeError):
        fit().check(new[:1])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("edges", np.zeros(4)),
        ("mean", np.zeros(3)),
        ("covariance", np.full((18, 18), np.nan)),
        ("class_means", np.zeros((18, 3))),
        ("class_shares", np.zeros(3)),
    ],
)
def test_forged_summaries_are_refused(name, values):
    frame = take_apart(dumps(fit()))
    frame.replace_array(f"summary/{name}", values)
    with breaks("fitted"):
        loads(frame.assemble())


def test_sums_in_parts_are_those_of_all_rows():
    scores, y = draw(900, 3)
    batch = check_batch(scores[:500], y[:500], classes=np.arange(3))
    whole = ScoreSums(summarise(batch)).add(scores[500:]).compare()
    parts = ScoreSums(summarise(batch))
    for first in range(500, 900, 37):
        parts.add(scores[first : min(first + 37, 900)])
    found = parts.compare()
    assert (found.n_rows, found.outside) == (whole.n_rows, whole.outside)
    assert found.p_value == pytest.approx(whole.p_value, rel=1e-9)
    assert found.label_shift_p_value == pytest.approx(whole.label_shift_p_value, rel=1e-9)


@pytest.mark.parametrize("kind", ["probabilities", "logits", "positive"])
def test_the_shared_part_takes_the_same_scores_and_is_temperature_scaling(kind):
    scores, y = draw(400, 2 if kind == "positive" else 3)
    given = {"probabilities": scores, "logits": np.log(scores), "positive": scores[:, 1]}[kind]
    auto = AutoCalibrator(scores=kind).fit(given, y)
    alone = TemperatureScaling(scores=kind).fit(given, y)
    for one in (auto, loads(dumps(auto))):
        found = one.shared_part_.predict_proba(given)
        np.testing.assert_allclose(found, alone.predict_proba(given), rtol=1e-9)
