"""The words say what the numbers say."""

import re
from dataclasses import replace

import numpy as np
import pytest

from calibrant import TemperatureScaling, VectorScaling
from calibrant.report import compare
from calibrant.report._page import page_of
from conftest import simulate


def honest(n_rows, n_classes, seed, power=1.0, tilt=None, alpha=1.0):
    """Predictions that are right to the power, and tilted towards some classes."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.broadcast_to(alpha, n_classes), size=n_rows)
    y = (truth.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    scores = truth**power * (1.0 if tilt is None else np.asarray(tilt))
    return scores / scores.sum(axis=1, keepdims=True), y


def verdict_of(parts, methods="ts", **options):
    (scores, y), (new_scores, new_y) = parts
    options = {"n_resamples": 40, **options}
    return compare(y, scores, new_y, new_scores, methods, **options).verdict


def simulated(n_rows, n_classes, *seeds):
    return [simulate(n_rows, n_classes, seed=seed) for seed in seeds]


FAILS = TemperatureScaling(tol=-1.0)
NO_HELP = TemperatureScaling(prior_strength=1e12)


VERDICTS = {
    "over-confident": (simulated(1000, 5, 1, 2), "ts", "ts", "over-confident by.*more than chance"),
    "under-confident": ([honest(1500, 4, s, power=0.5) for s in (1, 2)], "ts", "ts", "under-conf"),
    "right": (
        [honest(1500, 4, s) for s in (3, 4)],
        "ts",
        "uncalibrated",
        "need no calibration.*no more than chance.* No class is predicted more or less often",
    ),
    "few rows": (
        [honest(150, 4, s) for s in (5, 6)],
        "ts",
        "uncalibrated",
        "over-confident by .* points, which may be chance: they need no calibration",
    ),
    "no help": (
        [honest(1500, 4, s, power=2.0) for s in (5, 6)],
        {"ts": FAILS, "same": NO_HELP},
        "uncalibrated",
        "no method that was compared lowers the NLL by more than chance",
    ),
    "chance": (simulated(600, 4, 13, 14), ["ts", "vs"], "ts", "vs has the lowest.*may be chance"),
    "none better": (simulated(600, 4, 11, 12), ["ts", "vs"], "ts", "None of 3 methods has a lower"),
    "no baseline": (
        simulated(600, 4, 7, 8),
        {"ts": FAILS, "vs": VectorScaling()},
        "vs",
        "vs removes.*no calibration",
    ),
}


@pytest.mark.parametrize(("parts", "methods", "chosen", "words"), VERDICTS.values(), ids=VERDICTS)
def test_the_words_are_those_of_the_numbers(parts, methods, chosen, words):
    verdict = verdict_of(parts, methods)
    assert verdict.chosen == chosen
    assert re.search(words, " ".join([verdict.headline, *verdict.findings]))


def test_a_method_that_is_clearly_better_is_chosen_and_still_only_where_something_was_removed():
    """One map for all classes cannot move the share of the positive one."""
    verdict = verdict_of(
        [honest(2000, 4, s, power=2.0, tilt=[5, 1, 1, 0.2]) for s in (5, 6)], ["ts", "vs"]
    )
    assert verdict.chosen == "vs"
    assert "vs is better still by" in verdict.headline
    assert "vs has the lowest NLL of 3 methods" in verdict.findings[-1]
    assert "corrected for 2 comparisons" in verdict.findings[-1]
    assert any("chosen on the same test part" in caution for caution in verdict.cautions)
    parts = [honest(3000, 4, s, power=0.9, tilt=[1.6, 1, 1, 0.6], alpha=0.5) for s in (5, 6)]
    verdict = verdict_of(parts, ["ts", "structured"])
    assert verdict.chosen == "structured"
    assert "removes little or nothing of it, but structured is better by" in verdict.headline


def test_two_classes_are_held_against_platt_scaling():
    """One map for all classes cannot move the share of the positive one; Platt scaling can."""
    parts = [honest(2000, 2, seed, tilt=[1, 6], alpha=[8, 1]) for seed in (1, 2)]
    verdict = verdict_of(parts, ["ts"])
    assert verdict.chosen == "platt-ovr"
    assert "Platt scaling (platt-ovr) removes nearly all of it" in verdict.headline
    assert "temperature scaling" not in " ".join([verdict.headline, *verdict.findings])


def test_the_default_is_kept_where_the_lead_over_it_is_chance_or_too_small():
    (scores, y), (new_scores, new_y) = (
        honest(3000, 2, s, tilt=[1, 6], alpha=[9, 1]) for s in (3, 4)
    )
    comparison = compare(y, scores, new_y, new_scores, n_resamples=40)
    best = min(comparison.results, key=lambda r: r.evaluation.negative_log_likelihood.value)
    assert best.method != "auto"  # so that there is a lead
    verdict = comparison.verdict
    assert verdict.chosen == "auto"
    assert "auto, the default, is behind it by 0.000" in verdict.findings[-1]


def test_a_method_that_is_clearly_better_than_the_default_replaces_it():
    parts = [honest(2000, 4, s, power=2.0, tilt=[5, 1, 1, 0.2]) for s in (5, 6)]
    good, poor = VectorScaling(), TemperatureScaling()
    assert verdict_of(parts, {"own": good, "auto": poor}).chosen == "own"
    assert verdict_of(parts, {"own": poor, "auto": good}).chosen == "auto"
    assert verdict_of([honest(1500, 4, s) for s in (3, 4)], ["auto"]).chosen == "uncalibrated"


@pytest.mark.parametrize("n_resamples", [0, 20])
def test_no_sentence_holds_a_missing_number(n_resamples):
    verdict = verdict_of(simulated(60, 4, 7, 8), ["ts", "fir"], n_resamples=n_resamples)
    words = " ".join([verdict.headline, *verdict.findings, *verdict.cautions])
    assert "nan" not in words
    assert "None" not in words.replace("None of", "")
    told = " ".join(verdict_of(simulated(60, 4, 7, 8)).cautions)
    assert told.count("Only 60 rows to judge on") == told.count("fitted to 60 rows") == 1


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


def test_two_classes_are_judged_by_the_positive_one():
    (scores, y), (new_scores, new_y) = [honest(800, 2, seed, power=2.0) for seed in (1, 2)]
    names = np.array(["no", "yes"])
    comparison = compare(names[y], scores, names[new_y], new_scores, "ts", n_resamples=20)
    assert comparison.results[0].curve.ece == comparison.results[0].evaluation.positive_ece.value
    page = page_of(comparison)
    for words in ("maps of class <bdi>yes</bdi>", "pos-ECE, %", " % for class yes on average, and"):
        assert words in page


def test_the_verdict_is_reached_once_and_says_which_methods_are_in_view(long_comparison):
    """The predictions as they came, the method to use, and the one that it is held against."""
    verdict = long_comparison.verdict
    assert verdict.in_view[:2] == ("uncalibrated", verdict.applied)
    assert verdict.applied == verdict.chosen
    assert len(verdict.in_view) == 3
    assert set(verdict.in_view) < set(verdict.listed) < set(long_comparison.methods)
    assert replace(long_comparison, seconds=0.0).verdict == verdict
    assert long_comparison.verdict is verdict
