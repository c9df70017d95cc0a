import math

import numpy as np
import pytest
from hypothesis import given
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from calibrant.metrics import brier_score, score_decomposition
from metrics.cases import predictions, weighted
from reference import metrics as reference


def parts(y, proba, **options):
    found = score_decomposition(y, proba, **options)
    return [found.score, found.refinement, found.uncertainty]


@given(predictions())
def test_brier_equals_the_exact_reference(data):
    proba, y, w = data
    kept = w > 0
    exact = reference.decomposition(proba[kept].tolist(), y[kept].tolist(), w[kept].tolist())
    found = parts(y, proba, sample_weight=w, classes=range(proba.shape[1]))
    assert found == pytest.approx([float(value) for value in exact], rel=1e-14, abs=1e-15)


@given(predictions())
def test_log_equals_the_reference_also_at_infinity(data):
    proba, y, w = data
    kept = w > 0
    exact = reference.decomposition(
        proba[kept].tolist(), y[kept].tolist(), w[kept].tolist(), reference.log_loss
    )
    options = {"sample_weight": w, "classes": range(proba.shape[1]), "score": "log"}
    assert parts(y, proba, **options) == pytest.approx(exact, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("score", ["brier", "log"])
@given(predictions())
def test_identity_and_signs(score, data):
    proba, y, w = data
    found = score_decomposition(
        y, proba, score=score, sample_weight=w, classes=range(proba.shape[1])
    )
    assert not any(math.isnan(value) for value in found.to_dict().values())
    assert found.miscalibration >= 0
    assert found.discrimination >= 0
    assert math.isfinite(found.refinement)
    assert found.score == pytest.approx(
        found.miscalibration - found.discrimination + found.uncertainty, abs=1e-15
    )
    assert found.score == pytest.approx(found.refinement + found.miscalibration, abs=1e-15)


@pytest.mark.parametrize("score", ["brier", "log"])
def test_agrees_with_scikit_learn_piece_by_piece(score):
    proba, y, w = weighted(800)
    loss = brier_score_loss if score == "brier" else log_loss
    sums = np.zeros(3)
    for j in range(4):
        p, hit = proba[:, j], (y == j).astype(int)
        fitted = IsotonicRegression().fit(p, hit, sample_weight=w).predict(p)
        constant = np.full(len(p), np.average(hit, weights=w))
        for at, q in enumerate((p, fitted, constant)):
            sums[at] += loss(hit, q, sample_weight=w) / 4
    assert parts(y, proba, score=score, sample_weight=w) == pytest.approx(sums, rel=1e-10)


def test_brier_is_the_brier_score():
    proba, y, w = weighted()
    found = score_decomposition(y, proba, sample_weight=w)
    assert found.score == pytest.approx(brier_score(y, proba, sample_weight=w), rel=1e-14)


def test_recalibrated_predictions_have_no_miscalibration():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < p**2).astype(int)
    fitted = IsotonicRegression().fit(p, y).predict(p)
    raw, again = score_decomposition(y, p), score_decomposition(y, fitted)
    assert raw.miscalibration > 0.01
    assert again.miscalibration == pytest.approx(0, abs=1e-15)
    assert again.refinement == pytest.approx(raw.refinement, rel=1e-13)


@pytest.mark.parametrize("score", ["brier", "log"])
def test_only_the_order_decides_all_but_miscalibration(score):
    rng = np.random.default_rng(1)
    p = rng.uniform(0.05, 0.95, 300)
    y = rng.random(300) < p
    a, b = (score_decomposition(y, q, score=score) for q in (p, p**3))
    assert a.discrimination == pytest.approx(b.discrimination, rel=1e-13)
    assert a.uncertainty == b.uncertainty
    assert b.miscalibration > a.miscalibration


def test_constant_predictions_do_not_discriminate():
    y = np.array([0, 1, 1, 0, 2, 2, 2, 1, 0, 0])
    found = score_decomposition(y, np.full((10, 3), 1 / 3))
    assert found.discrimination == 0.0
    shares = np.bincount(y) / 10
    assert found.uncertainty == pytest.approx(np.mean(shares * (1 - shares)))


def test_infinite_scores_are_infinite_miscalibration():
    found = score_decomposition([0, 1, 1], [[1.0, 0.0], [0.4, 0.6], [1.0, 0.0]], score="log")
    assert found.score == found.miscalibration == math.inf
    assert found.refinement == pytest.approx(
        score_decomposition([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]], score="log").refinement
    )


def test_certain_and_right_is_perfect():
    y = np.arange(12) % 3
    for score in ("brier", "log"):
        found = score_decomposition(y, np.eye(3)[y], score=score)
        assert found.score == found.miscalibration == found.refinement == 0.0
        assert found.discrimination == found.uncertainty
