"""Fits warn of scores that are reversed, permuted, hard or of another kind, not of honest ones."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    FlattenedIsotonic,
    OneVsRestPlatt,
    TemperatureScaling,
    model_file,
)
from calibrant._gate import _plausibility as plausibility
from calibrant.errors import (
    CalibrantWarning,
    ColumnMismatchWarning,
    ConstantFitWarning,
    ScoresKindWarning,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(-2, 1.5, 3000)
P = 1 / (1 + np.exp(-Z))
Y = (RNG.random(3000) < P).astype(int)


def said(action):
    """Warnings of an action, of the kinds that are about scores that are hardly meant."""
    kinds = (ColumnMismatchWarning, ConstantFitWarning, ScoresKindWarning)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [one.message for one in caught if issubclass(one.category, kinds)]


REVERSED = {
    "the other class": ("positive", 1 - P),
    "two columns": ("probabilities", np.column_stack([P, 1 - P])),
    "a credit score": ("decision", 600 - 40 * Z),
    "two logits": ("logits", np.column_stack([Z, np.zeros(3000)])),
}


@pytest.mark.parametrize("case", REVERSED)
@pytest.mark.parametrize("method", [TemperatureScaling, OneVsRestPlatt, FlattenedIsotonic])
def test_reversed_scores_are_told_at_fit(method, case):
    kind, scores = REVERSED[case]
    found = said(lambda: method(scores=kind).fit(scores, Y))
    (mismatch,) = [one for one in found if isinstance(one, ColumnMismatchWarning)]
    assert "AUC of class 1 is 0.18" in str(mismatch)
    constant = [one for one in found if isinstance(one, ConstantFitWarning)]
    assert len(constant) == (method is not OneVsRestPlatt)


def test_it_is_told_once_of_fits_within_fits_and_folds():
    scores = 1 - P
    once = [ColumnMismatchWarning, ConstantFitWarning]
    found = said(lambda: AutoCalibrator(scores="positive").fit(scores[:600], Y[:600]))
    assert [type(one) for one in found] == once[:1]  # nearly constant, but at the ends

    class Reversed(LogisticRegression):
        def decision_function(self, X):
            return -super().decision_function(X)

    for ensemble in ("auto", True, False):
        model = CalibratedClassifier(Reversed(), "ts", ensemble=ensemble)
        found = said(lambda model=model: model.fit(Z[:600, None], Y[:600]))
        assert sorted(type(one).__name__ for one in found) == [one.__name__ for one in once]


def test_a_constant_result_is_told():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 400)
    scores = np.where(np.eye(3)[(y + 1) % 3] == 1, 0.5, 0.25)  # never the top class
    fitted = TemperatureScaling()
    found = said(lambda: fitted.fit(scores, y))
    assert [type(one) for one in found] == [ColumnMismatchWarning, ConstantFitWarning]
    assert np.ptp(fitted.predict_proba(scores), axis=0).max() < 1e-6
    same = np.tile([0.2, 0.3, 0.5], (400, 1))  # as the scores are, there is nothing to say
    assert said(lambda: TemperatureScaling().fit(same, y)) == []


OTHER_KINDS = {
    "labels, one column": ("positive", Y.astype(float)),
    "labels, two columns": ("probabilities", np.eye(2)[Y]),
    "labels as margins": ("decision", 2.0 * Y - 1.0),
    "probabilities as margins": ("decision", P),
    "probabilities as logits": ("logits", np.column_stack([1 - P, P])),
}


@pytest.mark.parametrize("case", OTHER_KINDS)
def test_another_kind_than_declared_is_told(case):
    kind, scores = OTHER_KINDS[case]
    flips = RNG.random(3000) < 0.1
    y = np.where(flips, 1 - Y, Y) if "labels" in case else Y
    found = said(lambda: OneVsRestPlatt(scores=kind).fit(scores, y))
    assert [type(one) for one in found] == [ScoresKindWarning]


RANGES = {
    "percent as margins": ("decision", Z, 100 * P),
    "a credit score": ("decision", Z, 600 - 40 * Z[:1]),
    "probabilities as margins": ("decision", Z, P),
    "the other class": ("positive", P * 0.3, 1 - P * 0.3),
    "logits of another scale": (
        *("logits", RNG.normal(size=(3000, 4))),
        50 + 900 * RNG.normal(size=(50, 4)),
    ),
}


@pytest.mark.parametrize("case", RANGES)
def test_another_range_than_at_fit_is_told_at_predict(case):
    kind, scores, others = RANGES[case]
    y = Y if case != "logits of another scale" else RNG.integers(0, 4, 3000)
    fitted = TemperatureScaling(scores=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # of noise
        fitted.fit(scores, y)
    for own in (fitted, model_file.loads(model_file.dumps(fitted))):
        assert said(lambda own=own: own.predict_proba(scores)) == []
        (found,) = said(lambda own=own: own.predict_proba(others))
        assert type(found) is ScoresKindWarning


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("n_rows", [20, 100, 1000])
def test_honest_scores_are_not_suspected(n_rows, n_classes):
    """Weak and strong ones; also scores that have nothing to do with the labels."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(n_rows + 50, n_classes)) * rng.choice([0.3, 1.0, 6.0])
        logits += rng.normal(size=n_classes) * rng.choice([0.0, 1.5])
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        truth = p if seed % 3 else np.full_like(p, 1 / n_classes)
        y = (truth.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
        weight, classes = rng.choice([0.5, 1.0, 3.0], n_rows), np.arange(n_classes)
        for kind, scores in (("probabilities", p), ("logits", logits)):
            own, new = scores[:n_rows].copy(), scores[n_rows:].copy()
            known = plausibility.score_range(own, kind)
            assert plausibility.find_wrong_columns(own, y[:n_rows], weight, classes) is None
            assert plausibility.find_wrong_kind(own, kind) is None
            assert plausibility.find_other_range(new, kind, known) is None


def test_scores_seem_reversed_by_chance_no_more_often_than_is_said(monkeypatch):
    """Asked for one in ten instead of one in ten thousand, so that there is something to count."""
    monkeypatch.setattr(plausibility, "FALSE_ALARMS", 0.1)
    monkeypatch.setattr(plausibility, "SURELY", 1.29)
    rng, n_alarms = np.random.default_rng(0), {"ties": 0, "no ties": 0}
    for _ in range(400):
        columns = {"ties": rng.choice([0.0, 1.0, 2.0], 200, p=[0.05, 0.9, 0.05])}
        columns["no ties"] = rng.standard_cauchy(200)
        y, weight = (rng.random(200) < 0.1).astype(int), rng.choice([0.5, 1.0, 3.0], 200)
        for form, margin in columns.items():
            scores = np.column_stack([np.zeros(200), margin])
            found = plausibility.find_wrong_columns(scores, y, weight, np.arange(2))
            n_alarms[form] += found is not None
    assert n_alarms["ties"] <= 40
    assert 10 <= n_alarms["no ties"] <= 60


def test_the_auc_is_that_of_pairs():
    rng = np.random.default_rng(0)
    margin = rng.integers(0, 5, 400).astype(float)
    y = (rng.random(400) < 0.9 - 0.2 * margin).astype(int)
    above = margin[y == 1][:, None] - margin[y == 0]
    auc = np.mean((above > 0) + 0.5 * (above == 0))
    scores = np.column_stack([np.zeros(400), margin])
    found = plausibility.find_wrong_columns(scores, y, np.ones(400), np.arange(2))
    assert f"the AUC of class 1 is {auc:.2f}" in str(found)


def test_a_fit_to_chunks_tells_the_same():
    dask = pytest.importorskip("dask.array")
    columns = np.column_stack([P, 1 - P])
    fitted = FlattenedIsotonic()
    chunks = dask.from_array(columns, chunks=(1000, 2)), dask.from_array(Y, chunks=1000)
    found = said(lambda: fitted.fit(*chunks))
    assert [type(one) for one in found] == [ColumnMismatchWarning, ConstantFitWarning]
    assert fitted.solver_report_.score_range == plausibility.score_range(columns, "probabilities")
