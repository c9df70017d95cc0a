"""Calibration sets that are hard but legal: a sound map comes out of every method."""

import numpy as np
import pytest

import calibrant
from calibrant import study
from calibrant.study._searches import PaperSearch
from calibrators.catalogue import CALIBRATORS, QUICK, make
from conftest import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

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
