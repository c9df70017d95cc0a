"""Two classes as people have them: functions give the same numbers for every form.

A vector, one column, two columns or margins, with labels 0 and 1, False and True, "no" and "yes".
"""

import dataclasses
import json
from functools import cache, partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant
from calibrant import decisions, metrics, plots
from calibrant._calibrators.base import Calibrator

pytestmark = pytest.mark.filterwarnings("ignore")

N_ROWS = 240
RNG = np.random.default_rng(3)
MARGINS = RNG.normal(-0.5, 2.0, N_ROWS)
P = 1.0 / (1.0 + np.exp(-MARGINS))
HAPPENED = RNG.random(N_ROWS) < 1.0 / (1.0 + np.exp(0.3 - 0.6 * MARGINS))
TWO = np.column_stack([1.0 - P, P])
GROUPS = np.where(np.arange(N_ROWS) % 2, "a", "b")

LABELS = {
    "0/1": (HAPPENED.astype(int), {}, {}),
    "bool": (HAPPENED, {}, {}),
    "no/yes": (np.where(HAPPENED, "yes", "no"), {"pos_label": "yes"}, {"classes": ["no", "yes"]}),
}
"""Labels, and what metrics and calibrators have to be told where one column is given."""

FORMS = {
    "vector": P,
    "column": P[:, None],
    "list": P.tolist(),
    "series": pd.Series(P, index=np.arange(N_ROWS)[::-1], name="score"),
    "frame": pd.DataFrame({"score": P}),
    "polars": pl.Series("score", P),
}

COSTS = {"false_positive": 1, "false_negative": 5}


def numbers(found):
    """All numbers of a result; labels and names of classes are none."""
    if dataclasses.is_dataclass(found):
        found = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    if isinstance(found, dict):
        left_out = ("kind", "classes", "seconds")
        return {k: numbers(v) for k, v in found.items() if k not in left_out}
    if isinstance(found, np.ndarray):
        return found.tolist() if found.dtype.kind in "fi" else None
    if isinstance(found, list | tuple):
        return [numbers(v) for v in found]
    return found if isinstance(found, float) else None


def conformal(y, p, **told):
    return np.asarray(decisions.ConformalSets(0.8).fit(p, y, **told).quantile_)


FEW = {"n_resamples": 20}
RESULTS = {
    "evaluate": partial(metrics.evaluate, **FEW),
    "binary_summary": metrics.binary_summary,
    "calibration_test": partial(metrics.calibration_test, **FEW),
    "reliability_curve": partial(metrics.reliability_curve, **FEW),
    "compute_classwise": partial(plots.compute_classwise, **FEW),
    "class_shares": metrics.class_shares,
    "positive_ece": metrics.positive_ece,
    "cumulative_differences": metrics.cumulative_differences,
    "score_decomposition": metrics.score_decomposition,
    "calibration_segments": lambda y, p, **told: metrics.calibration_segments(
        y, p, GROUPS[:, None], **told
    ),
    "Predictions": lambda y, p, **told: metrics.accuracy(metrics.Predictions.read(y, p, **told)),
    "expected_cost": lambda y, p, **told: decisions.expected_cost(y, p, COSTS, **told),
    "cost_curve": lambda y, p, **told: decisions.cost_curve(y, p, COSTS, **told),
    "value_of_calibration": lambda y, p, **told: decisions.value_of_calibration(
        y, p, p, COSTS, **told
    ),
    "decision_curve": decisions.decision_curve,
    "risk_coverage": decisions.risk_coverage,
    "threshold_for": partial(decisions.threshold_for, accuracy=0.8),
    "ConformalSets": conformal,
}
"""Functions of labels and probabilities; ``tests/metrics`` has the metrics that are one number."""

WITH_COSTS = {"expected_cost", "cost_curve", "value_of_calibration"}
"""They have to know the positive class of two columns as well: costs name its errors."""

PARTS = [calibrant.TemperatureScaling(), calibrant.FlattenedIsotonic()]
OPTIONS = {
    "Chain": {"calibrators": PARTS},
    "Mixture": {"calibrators": PARTS},
    "MaskedCalibrator": {"calibrator": calibrant.TemperatureScaling()},
    "GroupedCalibrator": {"calibrator": calibrant.TemperatureScaling()},
    "PriorShift": {"to_priors": [0.7, 0.3]},
    "AutoCalibrator": {"candidates": ("ts", "structured"), "cv": 2},
}
CALIBRATORS = [
    name
    for name in calibrant.__all__
    if isinstance(getattr(calibrant, name), type)
    and issubclass(getattr(calibrant, name), Calibrator)
    and name != "FeatureCalibrator"  # whose folds depend on the last bits: ``test_features``
]
TOLERANCE = {
    "AutoCalibrator": 1e-6,
    "GroupedCalibrator": 1e-8,
    "NormalizationAwareIsotonic": 1e-6,
    "StructuredScaling": 1e-8,
}
"""Of iterations that end when they are near enough; margins have other last bits."""


@pytest.mark.parametrize("name", RESULTS)
def test_functions_of_probabilities_give_the_same_for_every_form(name):
    call = RESULTS[name]
    expected = numbers(call(HAPPENED.astype(int), TWO))
    assert expected
    for labels, (y, told, _) in LABELS.items():
        two = numbers(call(y, TWO, **(told if name in WITH_COSTS else {})))
        assert json.dumps(two) == json.dumps(expected), labels
        forms = FORMS if labels == "0/1" else {"vector": P, "column": P[:, None]}
        for form, given in forms.items():
            found = numbers(call(y, given, **told))
            assert json.dumps(found) == json.dumps(expected), (labels, form)


def fitted(name, scores, given, y, **told):
    how = {"groups": GROUPS} if name == "GroupedCalibrator" else {}
    made = getattr(calibrant, name)(scores=scores, **OPTIONS.get(name, {}), **told)
    found = made.fit(given, y, **how)
    return found, found.predict_proba(given, **how), found.predict(given, **how)


@cache
def of_two_columns(name):
    return fitted(name, "probabilities", TWO, HAPPENED.astype(int))


@pytest.mark.parametrize("name", CALIBRATORS)
def test_calibrators_give_the_same_for_every_form(name):
    _, expected, decided = of_two_columns(name)
    for labels, (y, _, told) in LABELS.items():
        forms = FORMS if labels == "0/1" and name == "TemperatureScaling" else {"vector": P}
        for form, given in forms.items():
            found, rows, best = fitted(name, "positive", given, y, **told)
            assert np.array_equal(rows, expected), (labels, form)
            assert np.array_equal(best, found.classes_[decided])
            assert found.classes_.tolist() == sorted(set(y.tolist()))
        _, rows, _ = fitted(name, "decision", MARGINS, y, **told)
        np.testing.assert_allclose(rows, expected, rtol=0, atol=TOLERANCE.get(name, 1e-10))


def test_one_row_and_exact_zeros():
    y, given = HAPPENED.astype(int), P.copy()
    given[:3] = 0.0, 1.0, 0.5
    two = np.column_stack([1.0 - given, given])
    found = calibrant.TemperatureScaling(scores="positive").fit(given, y)
    same = calibrant.TemperatureScaling().fit(two, y)
    assert np.array_equal(found.predict_proba(given), same.predict_proba(two))
    assert np.array_equal(found.predict_proba([0.25]), same.predict_proba([[0.75, 0.25]]))
    with np.errstate(divide="ignore"):
        margins = np.log(given) - np.log1p(-given)
        logs = np.log(two)  # what is read of an exact zero depends on the kind
    of_margins = calibrant.TemperatureScaling(scores="decision").fit(margins, y)
    of_logits = calibrant.TemperatureScaling(scores="logits").fit(logs, y)
    got = of_margins.predict_proba(margins)
    np.testing.assert_allclose(got, of_logits.predict_proba(logs), rtol=0, atol=1e-12)
