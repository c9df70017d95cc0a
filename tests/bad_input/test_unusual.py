"""Data that are unusual, and accepted: finite rows that sum to one, and a warning if any is due.

``calibrators/test_hard_data`` fits every method to more of them.
"""

from __future__ import annotations

import numpy as np
import pytest

from bad_input.promises import (
    AnyCalibrator,
    as_kind,
    assert_distributions,
    each_action,
    each_calibrator,
    each_reader,
    fitted,
    fresh,
    good,
    in_one_round,
    unbounded,
    use,
)
from calibrant import errors
from calibrant._gate import _simplex as simplex


def _certain(n_rows=200):
    """One-hot rows, most of them right: exact zeros and ones in and, unless floored, out."""
    y = np.arange(n_rows) % 3
    return np.eye(3)[np.where(np.arange(n_rows) < 12, (y + 1) % 3, y)], y


WARNED = {
    "one row": (good()[0][:1], good()[1][:1], errors.SmallSampleWarning, "1 row"),
    "one label": (good()[0], np.ones(200, dtype=int), errors.SingleClassWarning, "1"),
    "always wrong": (
        *(good()[0], good()[0].argmin(axis=1), errors.ColumnMismatchWarning),
        "another order of the columns.* accuracy is 0.00",
    ),
    "certain": (*_certain(), errors.ScoresKindWarning, "predicted labels"),
    "many classes": (*good(n_rows=10, n_classes=300), errors.SmallSampleWarning, "10 rows"),
}


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize("name", WARNED)
@each_reader
def test_what_may_be_wrong_is_fitted_with_a_warning(calibrator, name):
    scores, y, warning, match = WARNED[name]
    with pytest.warns(warning, match=match):
        estimator = in_one_round(calibrator).fit(scores, y)
    assert_distributions(estimator.predict_proba(scores), 1e-12)


SPARSE_WEIGHTS = np.where(np.random.default_rng(0).random(200) < 0.7, 1.0, 1e-300)
SPARSE_WEIGHTS[:3] = 1e300


@each_reader
@pytest.mark.parametrize("weight", [SPARSE_WEIGHTS, np.full(200, 1e308)], ids=["sparse", "huge"])
def test_weights_of_any_size_are_fitted_in_silence(calibrator, weight):
    assert_distributions(calibrator().fit(*good(), weight).predict_proba(fresh()), 1e-12)


@each_action
def test_probabilities_passed_as_logits_give_a_warning(action):
    """Cannot be an error; it speaks of every row, and says nothing where one is no distribution."""
    scores, _ = good()
    with pytest.warns(errors.ScoresKindWarning, match="scores='probabilities'"):
        use(AnyCalibrator, action, scores, "logits")
    scores[100] += 0.5
    use(AnyCalibrator, action, scores, "logits")


@each_reader
@unbounded
@pytest.mark.parametrize(("kind", "floor"), [("probabilities", 1e-12), ("logits", 0.3)])
def test_the_floor_keeps_the_order_and_the_sums(calibrator, kind, floor):
    """Predictions that are always right send the unfloored output to 0 and 1."""
    scores, _ = good(kind)
    y = scores.argmax(axis=1)
    new = np.vstack([fresh(kind), as_kind(_certain()[0], kind)])
    bare = calibrator(scores=kind, min_probability=0).fit(scores, y).predict_proba(new)
    out = calibrator(scores=kind, min_probability=floor).fit(scores, y).predict_proba(new)
    assert_distributions(bare)
    assert_distributions(out, floor)
    before = bare[:, :, None] - bare[:, None, :]
    after = out[:, :, None] - out[:, None, :]
    assert (after[before > 0] >= 0).all()
    assert (after[before == 0] == 0).all()


@each_calibrator
def test_no_rows_are_predicted_as_no_rows(calibrator):
    out = fitted(calibrator).predict_proba(np.empty((0, 3), dtype=np.float32))
    assert out.shape == (0, 3)
    assert out.dtype == np.float32
    assert fitted(calibrator).predict(np.empty((0, 3))).shape == (0,)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("row", "normalize"),
    [
        (np.array([0.5, 0.3, 0.2]) * (1 - 9e-4), None),
        ([-9e-7, 1.0, 0.0], None),
        ([0.0, 1 + 9e-7, 0.0], None),
        ([0.334, 0.334, 0.333], None),  # 1.001, which is not above 1.001
        ([0.33, 0.33, 0.33], None),
        (np.full(16, 1 / 16).round(3), None),  # half of the last decimal in every class
        *(([1.0 + low, -low], None) for low in (9.7e-6, 9.9e-5)),
        ([1.000099, 0.0], None),
        ([0.3, 0.7001], None),
        ([4.0, 3.0, 1.0], "rows"),
        ([-1e-15, 1.0, 0.0], "rows"),
    ],
)
def test_rows_that_are_off_by_rounding_are_clipped_and_divided_by_their_sum(row, normalize, dtype):
    given = np.array([row], dtype=dtype)
    wanted = given.clip(0, None).astype(np.float64)
    found = simplex.check_scores(given, normalize=normalize)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-12)
