import importlib
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from calibrant import errors, metrics, simplex
from calibrant.metrics import evaluate, resampling
from calibrant.metrics.evaluate import bootstrap
from calibrant.metrics.evaluation import basic_interval
from calibrant.metrics.predictions import read_predictions
from calibrant.metrics.resampling import Resamples
from calibrant.metrics.table import METRICS, metrics_of
from conftest import simulate
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


def test_the_documentation_lists_every_metric():
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
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
def test_replicates_are_metrics_of_the_rows_drawn(is_weighted, n_classes, monkeypatch):
    """Redo every resample with the metrics themselves, over several chunks, blocks and groups."""
    proba, y, w = weighted(200, n_classes)
    weight = w if is_weighted else None
    monkeypatch.setattr(simplex, "CHUNK_BYTES", 8 * n_classes * 70)
    monkeypatch.setattr(resampling, "BLOCK_BYTES", 8 * (4 * 15 + 4 * 8193) * 2)
    monkeypatch.setattr(metrics.predictions, "GROUP_CELLS", 150)
    draws = Resamples([70, 70, 60], 5, 3)
    predictions = read_predictions(y, proba, weight, range(n_classes))
    replicates = bootstrap(predictions, draws, 15)
    assert set(replicates) == set(metrics_of(n_classes))
    for r in range(5):
        rows = np.concatenate([draws.rows(r, c) + 70 * c for c in range(3)])
        options = {"sample_weight": None if weight is None else weight[rows]}
        options["classes"] = range(n_classes)
        for name, found in replicates.items():
            expected = getattr(metrics, name)(y[rows], proba[rows], **options)
            assert found[r] == pytest.approx(expected, rel=1e-9, abs=1e-12), name


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


def test_intervals_of_means_have_their_textbook_width():
    proba, y = simulate(4000, 3)
    result = evaluate(y, proba, n_resamples=400)
    share = result.accuracy.value
    width = 2 * 1.96 * np.sqrt(share * (1 - share) / 4000)
    assert result.accuracy.high - result.accuracy.low == pytest.approx(width, rel=0.15)
    losses = -np.log(proba[np.arange(4000), y])
    width = 2 * 1.96 * losses.std() / np.sqrt(4000)
    loss = result.negative_log_likelihood
    assert loss.high - loss.low == pytest.approx(width, rel=0.15)


def test_higher_levels_are_wider():
    proba, y = simulate(300, 3)
    narrow = evaluate(y, proba, confidence_level=0.5).estimates()
    for name, wide in evaluate(y, proba, confidence_level=0.99).estimates().items():
        assert wide.low <= narrow[name].low
        assert wide.high >= narrow[name].high
        assert wide.high - wide.low > narrow[name].high - narrow[name].low


def test_seed_decides():
    proba, y = simulate(200, 3)
    results = [evaluate(y, proba, n_resamples=20, random_state=s) for s in (0, 0, 1)]
    assert results[0] == results[1]
    assert results[0].accuracy.value == results[2].accuracy.value
    assert results[0].accuracy != results[2].accuracy


def test_no_resamples_no_intervals():
    proba, y = simulate(200, 3)
    result = evaluate(y, proba, n_resamples=0)
    for estimate in result.estimates().values():
        assert np.isnan([estimate.low, estimate.high]).all()
    assert "interval" not in str(result)
    assert "nan" not in str(result)


@pytest.mark.parametrize("n_resamples", [0, 20])
def test_table_lines_up(n_resamples):
    proba, y = simulate(200, 3)
    lines = str(evaluate(y, proba, n_resamples=n_resamples)).splitlines()
    *table, caption = lines
    assert len({len(line) for line in table}) == 1
    titles = [metric.title for metric in metrics_of(3).values()]
    assert [line.split()[0] for line in table] == ["metric", *titles]
    points = {tuple(i for i, c in enumerate(line) if c == ".") for line in table[1:]}
    assert len(points) == 1
    assert caption == "200 rows, 3 classes"


def test_result_is_frozen_and_plain():
    proba, y = simulate(200, 3)
    result = evaluate(y, proba, n_resamples=20)
    with pytest.raises(AttributeError):
        result.accuracy = 1.0
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["confidence_ece"]["high"] == result.confidence_ece.high
    assert plain["n_resamples"] == 20


def test_exact_zeros_and_ones_are_safe():
    y = np.arange(90) % 3
    proba = np.eye(3)[y]
    proba[:3] = np.eye(3)[[1, 1, 1]]
    result = evaluate(y, proba, n_resamples=30)
    for value, low, high in result.estimates().values():
        assert np.isfinite([value, low, high]).all()


def test_shuffled_columns_are_noticed():
    proba, y = simulate(600, 6)
    labels = np.array(list("abcdef"))[y]
    with pytest.warns(errors.ColumnMismatchWarning, match=r"accuracy 0\.\d\d .*the column of"):
        evaluate(labels, proba[:, [1, 2, 3, 4, 5, 0]], n_resamples=0)


def test_swapped_binary_columns_are_noticed():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = rng.random(500) < p
    with pytest.warns(errors.ColumnMismatchWarning):
        evaluate(y, 1 - p, n_resamples=0)


def test_two_of_many_columns_swapped_are_no_reason_to_warn():
    """Only the rows of the two are affected: far less than 20 points in all."""
    proba, y = simulate(3000, 20)
    order = np.arange(20)
    order[[3, 4]] = [4, 3]
    evaluate(y, proba[:, order], n_resamples=0)


def test_chance_is_no_reason_to_warn():
    """Random predictions: the best order is better by luck alone."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for n_rows, n_classes in ((30, 10), (400, 10), (2000, 50), (50, 2)):
            proba = rng.dirichlet(np.ones(n_classes), n_rows)
            y = rng.integers(0, n_classes, n_rows)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                evaluate(y, proba, n_resamples=0, classes=np.arange(n_classes))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_intervals_of_many_rows_come_from_groups(is_weighted, n_classes, monkeypatch):
    """Values stay as they are; intervals are as wide as those of rows, and much is not drawn."""
    proba, y, w = weighted(6000, n_classes)
    options = {"sample_weight": w if is_weighted else None, "n_resamples": 300}
    expected = evaluate(y, proba, **options)
    told = []
    module = importlib.import_module("calibrant.metrics.evaluate")
    monkeypatch.setattr(module, "MOST_ROWS_DRAWN", 5999)
    monkeypatch.setattr(module, "bootstrap", None)
    found = evaluate(y, proba, **options, progress=lambda *how_far: told.append(how_far))
    assert told[-1][0] == told[-1][1]
    for name, estimate in found.estimates().items():
        value, low, high = getattr(expected, name)
        assert estimate.value == value
        assert estimate.high - estimate.low == pytest.approx(high - low, rel=0.4), name


def test_how_far_it_is_can_be_told():
    proba, y = simulate(200, 3)
    told = []
    evaluate(y, proba, n_resamples=10, progress=lambda *how_far: told.append(how_far), n_jobs=2)
    assert told == [(done, 20) for done in range(1, 21)]
