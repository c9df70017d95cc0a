"""Calibration sets that are hard or extreme but legal: a sound map comes out of every method."""

import warnings

import numpy as np
import pytest

import calibrant
from calibrant import study
from calibrant.errors import CalibrantWarning, ConvergenceWarning
from calibrant.model_file import load, save
from calibrant.study._searches import PaperSearch
from calibrators.catalogue import CALIBRATORS, QUICK, make, quiet
from conftest import simulate

pytestmark = quiet

P, Y = simulate(150, 4)
TURN = np.arange(150) % 4


def spread(n_rows=150):
    """Probabilities down to 1e-300."""
    rng = np.random.default_rng(5)
    rows = 10.0 ** rng.uniform(-300, 0, (n_rows, 4))
    return rows / rows.sum(axis=1, keepdims=True), rng.integers(0, 4, n_rows)


def with_zeros():
    rows = np.where(P < 0.05, 0.0, P)
    return rows / rows.sum(axis=1, keepdims=True), Y


CASES = {
    "one label": (P, np.full(150, 1)),
    "every prediction right": (P, P.argmax(axis=1)),
    "every prediction wrong": (P, P.argmin(axis=1)),
    "all scores equal": (np.full((150, 4), 0.25), Y),
    "one row": (P[:1], Y[:1]),
    "two equal rows with different labels": (np.array([[0.7, 0.3], [0.7, 0.3]]), np.array([0, 1])),
    "certain": (np.eye(4)[P.argmax(axis=1)], Y),
    "certain and right": (np.eye(4)[TURN], TURN),
    "certain and wrong": (np.eye(4)[TURN], (TURN + 1) % 4),
    "zeros that turn out true": with_zeros(),
    "down to 1e-300": spread(),
    "subnormal": (np.tile([[1.0, 5e-324, 0.0]], (100, 1)), np.arange(100) % 3),
    "a class never seen": (P, np.where(Y == 3, 0, Y)),
    "half precision": (P.astype(np.float16), Y),
    "more classes than rows": simulate(20, 60),
}
VARIANTS = [
    *((cls, {}) for cls in CALIBRATORS),
    (calibrant.NormalizationAwareIsotonic, {"prior_strength": 0}),
    (calibrant.NormalizationAwareIsotonic, {"prior_strength": 20.0}),
    (calibrant.SortedCumulativeIsotonic, {"prior_share": 0.0}),
    (calibrant.SortedCumulativeIsotonic, {"prior_share": 1.0}),
    (calibrant.StructuredScaling, {"form": "diagonal"}),
    (study.SharedClasswise, {"map": "isotonic", "n_groups": 2}),
    (study.SharedClasswise, {"normalize_output": False}),
    (study.TopLabelHistogram, {"per_class": True}),
    (study.TopLabelIsotonic, {"per_class": True}),
]


def name_of(variant):
    cls, parameters = variant
    return " ".join([cls.__name__, *(f"{k}={v}" for k, v in parameters.items())])


def assert_sound(calibrator, p, name):
    """Finite, on the simplex, in order where that is promised; the solver says that it is done."""
    may_stop = type(calibrator).__name__ in QUICK  # after few rounds
    may_stop |= isinstance(calibrator, PaperSearch)  # on the blocks of PAVA
    assert may_stop or calibrator.solver_report_.converged, name
    k = p.shape[1]
    new = np.vstack([np.random.default_rng(1).dirichlet(np.ones(k), 20), np.eye(k)])
    for rows in (p, new):
        out = calibrator.predict_proba(rows)
        assert out.dtype == (np.float32 if rows.dtype == np.float16 else np.float64), name
        assert np.all((out >= 0.0) & (out <= 1.0)), name
        sums = out.sum(axis=1, dtype=np.float64)
        off = np.abs(sums - 1.0).max() if calibrator.map_.sums_to_one else 0.0
        assert off <= (1e-6 if out.itemsize == 4 else 1e-13), name
        order = np.argsort(rows, axis=1, kind="stable")
        gaps = np.diff(np.take_along_axis(out, order, axis=1), axis=1)
        assert not calibrator.map_.keeps_order or gaps.min() >= 0.0, name


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_a_sound_map_comes_out(variant):
    cls, parameters = variant
    for name, (p, y) in CASES.items():
        calibrator = make(cls, classes=np.arange(p.shape[1]), **parameters)
        assert_sound(calibrator.fit(p, y), p, name)


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
