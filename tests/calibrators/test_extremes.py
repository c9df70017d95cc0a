"""Extreme but legal input: every fit ends at its tolerance or a stated limit, and is sound."""

import warnings

import numpy as np
import pytest

import calibrant
from calibrant import study
from calibrant.errors import CalibrantWarning, ConvergenceWarning
from calibrant.model_file import load, save
from calibrators.catalogue import CALIBRATORS, QUICK

LIMITS = ("bound", "limit")
OWN = (CalibrantWarning, ConvergenceWarning)
NESTED = {name: QUICK[name] for name in ("Mixture", "AutoCalibrator")}
NESTED["Chain"] = {"calibrators": [calibrant.VectorScaling(), calibrant.MonotoneSpline()]}
SETTINGS = [(cls, NESTED.get(cls.__name__, {})) for cls in CALIBRATORS]
SETTINGS += [(calibrant.SortedCumulativeIsotonic, {"max_rank": 1})]
SETTINGS += [(calibrant.DirichletCalibration, {"odir": 0.0})]
SETTINGS += [(calibrant.NormalizationAwareIsotonic, {"prior_strength": 0})]
SETTINGS += [(study.TopLabelHistogram, {"points_per_bin": 0})]


def draw_logits(rng, n_rows, n_classes):
    """Scores of many kinds: spread, tied, right, nearly separable, on corners, shifted, zero."""
    z = rng.normal(size=(n_rows, n_classes)) * rng.choice([0.1, 1.0, 5.0, 30.0])
    y = rng.integers(0, n_classes, n_rows)
    form = rng.integers(0, 8)
    if form == 0:
        z = np.round(z)
    elif form == 1:
        z[np.arange(n_rows), y] += 4.0 * np.abs(z).max() + 1.0
    elif form == 2:
        y = z.argmax(axis=1)
        y[0] = rng.integers(0, n_classes)
    elif form == 3:
        z = np.where(np.eye(n_classes)[rng.integers(0, n_classes, n_rows)] > 0, 0.0, -np.inf)
    elif form == 4:
        z[rng.random(z.shape) < 0.3] = -np.inf
        z[np.arange(n_rows), rng.integers(0, n_classes, n_rows)] = 0.0
    elif form == 5:
        z[:] = z[0]
    elif form == 6:
        y[:] = 0
    return z, y


def draw_weight(rng, n_rows):
    form = rng.integers(0, 5)
    if form == 0:
        return None
    if form == 1:
        return 10.0 ** rng.uniform(-12, 12, n_rows)
    if form == 2:
        return rng.choice([1e-12, 1.0, 1e12], n_rows)
    if form == 3:
        return np.full(n_rows, 10.0 ** rng.integers(-12, 13))
    return rng.integers(1, 5, n_rows).astype(float)


def draw(seed):
    """One calibration set: scores, labels, weights, and the kind of the scores."""
    rng = np.random.default_rng(seed)
    n_rows, n_classes = int(rng.integers(3, 60)), int(rng.integers(2, 6))
    z, y = draw_logits(rng, n_rows, n_classes)
    weight = draw_weight(rng, n_rows)
    if rng.random() < 0.5:
        z = z - z.max(axis=1, keepdims=True)
        p = np.exp(np.maximum(z, -700.0) * (z > -np.inf)) * (z > -np.inf)
        return p / p.sum(axis=1, keepdims=True), y, weight, "probabilities"
    scale = rng.choice([1.0, 1e-20, 1e6, 1e20, 1e60, 1e95])
    shift = rng.choice([0.0, 1.0, 30.0]) * rng.normal(size=(n_rows, 1))
    if not np.isfinite(z).all() and scale > 1.0:  # beside 1e95 the reading of a zero is nothing
        shift = 0.0
    return scale * (z + shift), y, weight, "logits"


def try_one(setting, data, directory):
    """Fit one method to one set; return what is wrong with it."""
    cls, given = setting
    scores, y, weight, kind = data
    model = cls(**given, scores=kind, classes=np.arange(scores.shape[1]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(scores, y, weight)
        out = model.predict_proba(scores)
        save(model, directory / "model.cal")
        again = load(directory / "model.cal").predict_proba(scores)
    wrong = [str(w.message) for w in caught if not issubclass(w.category, OWN)]
    report = model.solver_report_
    if not (np.all(np.isfinite(out)) and np.all(out >= 0)):
        wrong.append("rows are not finite")
    elif np.abs(out.sum(axis=1) - 1).max() > 1e-12:
        wrong.append("rows do not sum to one")
    if again.tobytes() != out.tobytes():
        wrong.append("a loaded model predicts otherwise")
    if not np.isfinite(report.objective):
        wrong.append(f"objective {report.objective}")
    if not (report.converged or any(word in note for note in report.notes for word in LIMITS)):
        wrong.append(f"violation {report.violation} after {report.rounds} rounds")
    return wrong


def try_many(seeds, directory):
    found = {}
    for seed in seeds:
        setting = SETTINGS[seed % len(SETTINGS)]
        wrong = try_one(setting, draw(seed), directory)
        if wrong:
            found[seed] = (setting[0].__name__, wrong)
    return found


@pytest.mark.parametrize("n_sets", [150, pytest.param(20_000, marks=pytest.mark.slow)])
def test_extreme_input_ends_well(n_sets, tmp_path):
    assert try_many(range(n_sets), tmp_path) == {}
