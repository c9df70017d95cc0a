import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from calibrant import metrics
from calibrant.metrics import evaluate
from calibrant.metrics._measures import deal_groups
from calibrant.metrics._predictions import read_predictions
from calibrant.metrics._resampling import basic_interval
from calibrant.metrics._table import METRICS, evaluated_bodies, metrics_of
from conftest import needs_pages, simulate
from metrics.cases import weighted


@pytest.mark.parametrize("n_classes", [2, 4])
def test_values_are_those_of_the_functions(n_classes):
    proba, y, w = weighted(500, n_classes)
    result = evaluate(y, proba, sample_weight=w, n_bins=9, n_resamples=3)
    for name, estimate in result.estimates().items():
        bins = {"n_bins": 9} if name.endswith("ece") and "density" not in name else {}
        assert estimate.value == getattr(metrics, name)(y, proba, sample_weight=w, **bins)
    assert list(result.estimates()) == list(metrics_of(n_classes))
    assert (result.n_rows, result.n_classes, result.n_bins) == (500, n_classes, 9)


@needs_pages
def test_the_documentation_lists_every_metric():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "metrics.md").read_text()
    first_table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE).group()
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|[^|]*\|", first_table, re.MULTILINE)))
    alone = ["smooth_ece", "kuiper_error", "kolmogorov_smirnov_error"]
    assert listed == [*METRICS, *alone]
    functions = {name for name in metrics.__all__ if name.islower()}
    assert functions - set(re.findall(r"`(\w+)", text)) == set()


@pytest.mark.parametrize(
    ("name", "short", "heading", "text", "best"),
    [
        ("accuracy", "accuracy", "accuracy, %", "12.35", 0.2),
        ("negative_log_likelihood", "nll", "NLL", "0.1235", 0.1),
        ("brier_score", "brier", "Brier", "0.123", 0.1),
        ("classwise_ece", "cw-ece", "cw-ECE, %", "12.346", 0.1),
    ],
)
def test_a_metric_knows_how_it_is_printed(name, short, heading, text, best):
    metric = METRICS[name]
    assert (metric.id, metric.short, metric.heading) == (name, short, heading)
    assert metric.text(0.12345678) == text
    assert metric.best([0.1, 0.2]) == best


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_replicates_are_metrics_of_the_groups_drawn(is_weighted, n_classes):
    """Redo every draw with the metrics themselves, whose weights are how often rows are drawn."""
    proba, y, w = weighted(200, n_classes)
    predictions = read_predictions(y, proba, w if is_weighted else None, range(n_classes))
    bodies = evaluated_bodies(n_classes, 15)
    states = predictions.add_up(bodies, 6)
    group = deal_groups(proba, y, 6)
    draws = np.array([[1, 1, 1, 1, 1, 1], [0, 2, 1, 0, 3, 0], [0, 0, 0, 6, 0, 0]])
    for name in metrics_of(n_classes):
        for times, found in zip(draws, states[name].replicates(draws), strict=True):
            weight = (w if is_weighted else 1.0) * times[group]
            options = {"sample_weight": weight, "classes": range(n_classes)}
            expected = getattr(metrics, name)(y, proba, **options)
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), name


def test_basic_interval_by_hand():
    """Quantiles 0.04 and 0.16 of the replicates are reflected at 0.1, then clipped or widened."""
    replicates = np.linspace(0.04, 0.16, 101)
    assert basic_interval(0.1, replicates, 1.0, 1.0) == pytest.approx((0.1, 0.04, 0.16))
    assert basic_interval(0.06, replicates, 1.0, 1.0) == pytest.approx((0.06, 0.0, 0.08))
    assert basic_interval(0.02, replicates, 1.0, 1.0) == pytest.approx((0.02, 0.0, 0.02))
    assert basic_interval(0.98, replicates + 0.85, 1.0, 1.0) == pytest.approx((0.98, 0.95, 1.0))
    assert basic_interval(2.0, replicates + 1.9, 0.5, np.inf) == pytest.approx((2.0, 1.97, 2.03))


def test_intervals_hold_the_value_and_stay_in_range():
    for seed in range(4):
        proba, y = simulate(150, 5, seed)
        for name, (value, low, high) in evaluate(y, proba, n_resamples=60).estimates().items():
            assert 0.0 <= low <= value <= high, name
            assert high <= 1.0 or name == "negative_log_likelihood"
            assert low < high


@pytest.mark.parametrize("n_resamples", [0, 20])
def test_table_lines_up_and_has_no_intervals_without_resamples(n_resamples):
    proba, y = simulate(200, 3)
    result = evaluate(y, proba, n_resamples=n_resamples)
    *table, caption = str(result).splitlines()
    assert ("interval" in str(result)) == (n_resamples > 0) == (not np.isnan(result.accuracy.low))
    assert "nan" not in str(result)
    assert len({len(line) for line in table}) == 1
    titles = [metric.title for metric in metrics_of(3).values()]
    assert [line.split()[0] for line in table] == ["metric", *titles]
    points = {tuple(i for i, c in enumerate(line) if c == ".") for line in table[1:]}
    assert len(points) == 1
    assert caption == "200 rows, 3 classes"


def test_chance_and_two_of_many_columns_are_no_reason_to_warn():
    """Random predictions: the best order is better by luck alone."""
    proba, y = simulate(3000, 20)
    evaluate(np.where(y > 1, y, 1 - y), proba, n_resamples=0)  # few rows are affected
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for n_rows, n_classes in ((30, 10), (400, 10), (2000, 50), (50, 2)):
            proba = rng.dirichlet(np.ones(n_classes), n_rows)
            y = rng.integers(0, n_classes, n_rows)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                evaluate(y, proba, n_resamples=0, classes=np.arange(n_classes))


def test_how_far_it_is_can_be_told():
    proba, y = simulate(200, 3)
    told = []
    evaluate(y, proba, n_resamples=10, progress=lambda *how_far: told.append(how_far), n_jobs=2)
    assert told == [(done, 8) for done in range(1, 9)]  # a chunk of rows, and seven metrics


@pytest.mark.parametrize("decimals", [16, 1])
def test_intervals_are_those_of_the_bootstrap_over_rows(decimals):
    """Also where most rows are equal: those do not share a group."""
    proba, y = simulate(2000, 4)
    proba = np.round(proba, decimals)
    proba[proba.sum(axis=1) == 0] = 1.0
    proba /= proba.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    found = evaluate(y, proba, n_resamples=300).estimates()
    for name in ("accuracy", "negative_log_likelihood", "confidence_ece", "thresholded_ece"):
        metric = getattr(metrics, name)
        draws = [rng.integers(0, 2000, 2000) for _ in range(100)]
        replicates = np.array([metric(y[own], proba[own], classes=range(4)) for own in draws])
        expected = basic_interval(found[name].value, replicates, 0.95, np.inf)
        ratio = (found[name].high - found[name].low) / (expected.high - expected.low)
        assert 0.65 < ratio < 1.55, name
