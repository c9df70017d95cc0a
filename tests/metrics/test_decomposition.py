import math

import numpy as np
import pytest
from hypothesis import given
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from calibrant.metrics import score_decomposition
from metrics.cases import predictions, weighted


def parts(y, proba, **options):
    found = score_decomposition(y, proba, **options)
    return [found.score, found.refinement, found.uncertainty]


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


def test_recalibrated_predictions_have_no_miscalibration():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < p**2).astype(int)
    fitted = IsotonicRegression().fit(p, y).predict(p)
    raw, again = score_decomposition(y, p), score_decomposition(y, fitted)
    assert raw.miscalibration > 0.01
    assert again.miscalibration == pytest.approx(0, abs=1e-15)
    assert again.refinement == pytest.approx(raw.refinement, rel=1e-13)


def test_infinite_scores_are_infinite_miscalibration():
    found = score_decomposition([0, 1, 1], [[1.0, 0.0], [0.4, 0.6], [1.0, 0.0]], score="log")
    assert found.score == found.miscalibration == math.inf
    assert found.refinement == pytest.approx(
        score_decomposition([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]], score="log").refinement
    )
