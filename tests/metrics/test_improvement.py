import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss

from calibrant import errors, metrics
from calibrant.metrics import post_hoc_improvement
from metrics.cases import recorded, weighted

QUICK = {"n_resamples": 0}
METRICS = ["brier_score", "negative_log_likelihood", "accuracy"]


@pytest.mark.parametrize("has_weights", [False, True])
def test_equals_the_difference_of_scikit_learns_scores(has_weights):
    bold, honest, y = recorded()
    w = np.random.default_rng(0).gamma(1.0, 1.0, len(y)) if has_weights else None
    one_hot = np.eye(4)[y]
    squares = [np.average(((p - one_hot) ** 2).mean(axis=1), weights=w) for p in (bold, honest)]
    losses = [log_loss(y, p, sample_weight=w) for p in (bold, honest)]
    right = [accuracy_score(y, p.argmax(axis=1), sample_weight=w) for p in (bold, honest)]
    for metric, (before, after), sign in (
        ("brier_score", squares, 1),
        ("negative_log_likelihood", losses, 1),
        ("accuracy", right, -1),
    ):
        found = post_hoc_improvement(y, bold, honest, metric=metric, sample_weight=w, **QUICK)
        assert found.before.value == pytest.approx(before, rel=1e-12)
        assert found.after.value == pytest.approx(after, rel=1e-12)
        assert found.improvement.value == pytest.approx(sign * (before - after), abs=1e-12)
        assert found.metric == metric


def test_more_is_better_for_every_metric_and_blurring_is_a_loss():
    bold, honest, y = recorded()
    constant = np.tile(np.bincount(y) / len(y), (len(y), 1))  # calibrated, and of no use
    assert metrics.confidence_ece(y, constant) < 1e-12 < metrics.confidence_ece(y, bold)
    assert post_hoc_improvement(y, bold, constant).improvement.high < 0
    for metric in ("brier_score", "negative_log_likelihood"):
        assert post_hoc_improvement(y, bold, honest, metric=metric).improvement.low > 0
        assert post_hoc_improvement(y, honest, bold, metric=metric).improvement.high < 0
    right = np.eye(4)[y]
    assert post_hoc_improvement(y, bold, right, metric="accuracy").improvement.low > 0


def test_rows_are_drawn_with_both_predictions():
    """The gain of one temperature is known far better than either score."""
    bold, honest, y = recorded()
    found = post_hoc_improvement(y, bold, honest, metric="negative_log_likelihood")
    widths = [e.high - e.low for e in (found.improvement, found.before, found.after)]
    assert widths[0] < 0.7 * widths[1]
    gains = np.log(honest / bold)[np.arange(len(y)), y]
    error = np.std(gains) / math.sqrt(len(y))
    assert widths[0] == pytest.approx(2 * 1.96 * error, rel=0.1)


BROKEN, LABELS, _ = weighted()
GOOD = BROKEN.copy()
BROKEN[7, 2] = np.nan


@pytest.mark.parametrize(
    ("before", "after", "error", "message"),
    [
        (GOOD, BROKEN, errors.NonFiniteError, r"y_calibrated\[7, 2\] is nan"),
        (BROKEN, GOOD, errors.NonFiniteError, r"y_proba\[7, 2\] is nan"),
        (GOOD, GOOD[:599], errors.ShapeError, "but y_calibrated has 599 rows"),
        (GOOD, 2 * GOOD, errors.RangeError, "y_calibrated.*for logits, pass their softmax"),
        (GOOD, GOOD[:0], errors.ShapeError, "y_calibrated has no rows"),
        (GOOD, GOOD.astype(str), errors.ContainerError, "y_calibrated has dtype"),
        (GOOD, GOOD[:, 0], errors.LabelError, "4 distinct labels but y_calibrated has one column"),
    ],
)
def test_what_is_wrong_is_named(before, after, error, message):
    with pytest.raises(error, match=message):
        post_hoc_improvement(LABELS, before, after)
    one, other = (pd.DataFrame([[0.5, 0.5]], columns=list(names)) for names in ("ab", "ac"))
    with pytest.raises(errors.ShapeError, match="has the classes 'a', 'c' but y_proba"):
        post_hoc_improvement(["a"], one, other)
