"""The words say what the numbers say."""

import numpy as np
import pytest

from calibrant import TemperatureScaling, VectorScaling
from calibrant.report import compare, reach_verdict
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
