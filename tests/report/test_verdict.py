"""The words say what the numbers say."""

import numpy as np
import pytest

from calibrant import TemperatureScaling, VectorScaling
from calibrant.report import build_report, compare, reach_verdict
from conftest import simulate


def honest(n_rows, n_classes, seed, power=1.0, tilt=None):
    """Predictions that are right to the power, and tilted towards some classes."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(n_classes), size=n_rows)
    y = (truth.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    scores = truth**power * (1.0 if tilt is None else np.asarray(tilt))
    return scores / scores.sum(axis=1, keepdims=True), y


def verdict_of(parts, methods="ts", **options):
    (scores, y), (new_scores, new_y) = parts
    options = {"n_resamples": 40, "n_diagrams": 0, **options}
    return reach_verdict(compare(y, scores, new_y, new_scores, methods, **options))


def test_over_confidence_is_named_in_points():
    verdict = verdict_of([simulate(1000, 5, seed=1), simulate(1000, 5, seed=2)])
    assert "over-confident by" in verdict.headline
    assert "temperature scaling (ts) removes" in verdict.headline
    assert verdict.chosen == "ts"
    assert "more than chance" in verdict.findings[0]


def test_under_confidence_is_named():
    parts = [honest(1500, 4, seed, power=0.5) for seed in (1, 2)]
    verdict = verdict_of(parts)
    assert "under-confident by" in verdict.headline
    assert verdict.chosen == "ts"


def test_calibrated_predictions_need_nothing():
    parts = [honest(1500, 4, seed) for seed in (3, 4)]
    verdict = verdict_of(parts)
    assert verdict.chosen == "uncalibrated"
    assert "need no calibration" in verdict.headline
    assert "no more than chance" in verdict.findings[0]


def test_a_method_that_is_clearly_better_is_chosen():
    parts = [honest(2000, 4, seed, power=2.0, tilt=[5, 1, 1, 0.2]) for seed in (5, 6)]
    verdict = verdict_of(parts, ["ts", "vs"])
    assert verdict.chosen == "vs"
    assert "vs is better still by" in verdict.headline
    assert "vs has the lowest NLL of 3 methods" in verdict.findings[-1]
    assert "corrected for 2 comparisons" in verdict.findings[-1]
    assert any("chosen on the same test part" in caution for caution in verdict.cautions)


def test_a_tilt_that_may_be_chance_is_not_called_one_that_is_there():
    """Honest predictions of few rows are off by points, no more than chance explains."""
    verdict = verdict_of([honest(150, 4, seed) for seed in (5, 6)])
    assert verdict.chosen == "uncalibrated"
    assert "over-confident by 3.4 points" in verdict.headline
    assert "points, which may be chance: they need no calibration" in verdict.headline


def test_predictions_that_no_method_helps_are_not_called_calibrated():
    """Temperature scaling failed, and the other method learns nothing."""
    parts = [honest(1500, 4, seed, power=2.0) for seed in (5, 6)]
    methods = {"ts": TemperatureScaling(tol=-1.0), "same": TemperatureScaling(prior_strength=1e12)}
    verdict = verdict_of(parts, methods)
    assert verdict.chosen == "uncalibrated"
    assert "over-confident by" in verdict.headline
    assert "need no calibration" not in verdict.headline
    assert verdict.headline.endswith(
        "; no method that was compared lowers the NLL by more than chance."
    )


def test_nothing_is_better_still_than_what_removes_nothing():
    """One map for all classes cannot move the share of the positive one."""
    rng = np.random.default_rng(0)
    truth = rng.beta(1, 8, size=4000)
    y = (rng.random(4000) < truth).astype(int)
    odds = 6 * truth / (1 - truth)
    said = np.column_stack([1 / (1 + odds), odds / (1 + odds)])
    parts = [(said[:2000], y[:2000]), (said[2000:], y[2000:])]
    verdict = verdict_of(parts, ["ts", "structured"])
    assert verdict.chosen == "structured"
    assert "removes little or nothing of it, but structured is better by" in verdict.headline


def test_a_method_that_is_better_by_chance_is_not_chosen():
    parts = [simulate(600, 4, seed=13), simulate(600, 4, seed=14)]
    verdict = verdict_of(parts, ["ts", "vs"])
    assert "vs has the lowest NLL" in verdict.findings[-1]
    assert "That may be chance" in verdict.findings[-1]
    assert verdict.chosen == "ts"


def test_where_nothing_beats_temperature_scaling_it_is_said():
    parts = [simulate(600, 4, seed=11), simulate(600, 4, seed=12)]
    verdict = verdict_of(parts, ["ts", "vs"])
    assert "None of 3 methods has a lower NLL than temperature scaling" in verdict.findings[-1]


def test_if_temperature_scaling_fails_the_verdict_stands():
    parts = [simulate(600, 4, seed=7), simulate(600, 4, seed=8)]
    methods = {"ts": TemperatureScaling(tol=-1.0), "vs": VectorScaling()}
    verdict = verdict_of(parts, methods)
    assert verdict.chosen == "vs"
    assert "vs removes" in verdict.headline
    assert "no calibration" in verdict.findings[-1]


def test_warnings_about_the_data_are_cautions():
    parts = [simulate(60, 4, seed=7), simulate(60, 4, seed=8)]
    verdict = verdict_of(parts)
    assert sum("only 60 rows" in caution for caution in verdict.cautions) == 1
    assert any("Only 60 rows to judge on" in caution for caution in verdict.cautions)


@pytest.mark.parametrize("n_resamples", [0, 20])
def test_no_sentence_holds_a_missing_number(n_resamples):
    parts = [simulate(300, 4, seed=7), simulate(300, 4, seed=8)]
    verdict = verdict_of(parts, ["ts", "fir"], n_resamples=n_resamples)
    words = " ".join([verdict.headline, *verdict.findings, *verdict.cautions])
    assert "nan" not in words
    assert "None" not in words.replace("None of", "")


def test_classes_that_are_off_are_named_with_both_shares():
    parts = [honest(3000, 4, seed, tilt=[1.6, 1, 1, 0.6]) for seed in (5, 6)]
    (_, _), (said, y) = parts
    verdict = verdict_of(parts)
    shares = [
        f"{100 * said[:, j].mean():.1f} % predicted, {100 * (y == j).mean():.1f} %" for j in (0, 3)
    ]
    over, under = verdict.findings[1].split("; under-predicted: ")
    assert over.startswith(f"Over-predicted: class 0 ({shares[0]} observed, p < 0.001)")
    assert under.startswith(f"class 3 ({shares[1]} observed, p < 0.001)")
    assert verdict.findings[1].endswith("corrected for 4 classes.")
    assert verdict.chosen == "ts"


def test_of_honest_classes_none_is_named():
    verdict = verdict_of([honest(1500, 4, seed) for seed in (3, 4)])
    assert verdict.findings[1].startswith("No class is predicted more or less often")


def test_classes_are_named_where_the_confidence_is_right_on_average():
    """Two classes take each other's place below the first: the confidence does not know."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([2.0, 1.0, 0.3], size=8000)
    y = (truth.cumsum(axis=1) > rng.random((8000, 1))).argmax(axis=1)
    said = truth.copy()
    below = truth.argmax(axis=1) == 0
    said[below] = said[below][:, [0, 2, 1]]
    parts = [(said[:4000], y[:4000]), (said[4000:], y[4000:])]
    headline = verdict_of(parts).headline
    assert "on average, but not of every class (over-predicted: class 2 (" in headline
    assert "under-predicted: class 1 (" in headline


def test_two_classes_need_no_ranks_and_have_one_diagram():
    parts = [honest(800, 2, seed, power=2.0) for seed in (1, 2)]
    (scores, y), (new_scores, new_y) = parts
    names = np.array(["no", "yes"])
    comparison = compare(names[y], scores, names[new_y], new_scores, "ts", n_resamples=20)
    page = build_report(comparison)
    assert "Top r" not in page
    assert comparison.shown == ()
    assert comparison.results[0].curve.ece == comparison.results[0].evaluation.positive_ece.value
    assert "class yes, the positive one" in page
    assert "pos-ECE, %" in page
    assert " % for class yes on average, observed " in page
    three = [honest(300, 3, seed) for seed in (1, 2)]
    page = build_report(compare(*three[0][::-1], *three[1][::-1], "ts", n_resamples=20))
    assert "Top r" in page
    assert "pos-ECE" not in page
