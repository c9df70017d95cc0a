"""The predictions of real classifiers: what their table says, and every metric on them."""

import numpy as np
import pytest

from calibrant import metrics
from conftest import DATA, REAL_FILES, each_real_file, load_real


def table():
    """The rows of the table of all files: {name: cells}."""
    text = (DATA / "README.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    return {row[1].removesuffix(".npz"): row for row in rows if row[1:] and ".npz" in row[1]}


@each_real_file
def test_metrics_are_those_of_the_table(name):
    """Accuracy % of both parts, conf-ECE % and NLL of the test part, to the decimals printed."""
    data = load_real(name)
    classes = np.arange(data["test"][0].shape[1])
    right = {p: metrics.accuracy(y, proba, classes=classes) for p, (proba, y) in data.items()}
    proba, y = data["test"]
    found = [
        f"{100 * right['val']:.1f} / {100 * right['test']:.1f}",
        f"{100 * metrics.confidence_ece(y, proba, classes=classes):.1f}",
        f"{metrics.negative_log_likelihood(y, proba, classes=classes):.3f}",
    ]
    assert found == table()[name][6:9]


@pytest.mark.parametrize("name", REAL_FILES[::6])
def test_every_metric_runs_without_a_warning(name):
    proba, y = load_real(name)["test"]
    classes = np.arange(proba.shape[1])
    result = metrics.evaluate(y, proba, classes=classes, n_resamples=10)
    for value, low, high in result.estimates().values():
        assert 0 <= low <= value <= high < np.inf
    parts = metrics.score_decomposition(y, proba, classes=classes)
    assert parts.score == pytest.approx(result.brier_score.value, rel=1e-12)
    curve = metrics.reliability_curve(y, proba, classes=classes, n_resamples=20)
    assert curve.ece == result.confidence_ece.value
    test = metrics.calibration_test(y, proba, metric="classwise", classes=classes, n_resamples=20)
    assert test.statistic == result.classwise_ece.value
