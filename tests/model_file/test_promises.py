"""What every loaded map promises, for all rows that validation lets through."""

import copy

import numpy as np
import pytest

from calibrant._maps import ClasswiseCurves
from calibrant.model_file import dumps, loads
from calibrant.model_file._fields import stored_types
from hostile_files.frame import take_apart
from hostile_files.judge import assert_on_the_simplex, extreme_rows
from model_file.catalogue import (
    CLASS_OF,
    KINDS,
    METHODS,
    assert_same_calibrator,
    fitted,
    make,
    quietly,
)
from model_file.catalogue import scores_of as some_scores

LOGGED = [m for m in METHODS if "zero_logit_" in stored_types(CLASS_OF[m])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_extreme_rows_stay_on_the_simplex(method, kind):
    calibrator = loads(dumps(fitted(method, kind)))
    assert_on_the_simplex(calibrator, extreme_rows(calibrator))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", LOGGED)
def test_no_reading_of_zeros_leaves_the_simplex(method, kind):
    for zero_logit in (-1e150, -1e5, -0.5, -0.0, 0.0):
        for steep in (False, True):
            frame = take_apart(dumps(fitted(method, kind)))
            numbers = frame.part()["fitted"]
            numbers["zero_logit_"] = zero_logit
            if steep and "inverse_temperature_" in numbers:
                numbers["inverse_temperature_"] = 1e6
            calibrator = loads(frame.assemble())
            assert_on_the_simplex(calibrator, extreme_rows(calibrator))


def test_structured_scaling_of_any_scale():
    frame = take_apart(dumps(fitted("structured", "logits")))
    frame.part()["fitted"]["scale_"] = 1e300
    calibrator = loads(frame.assemble())
    assert_on_the_simplex(calibrator, [[1e9, 0.0, 0.0], [1e100, -1e100, 1.0]])


@pytest.mark.parametrize("method", ["fir", "na-fir", "hb-ovr", "scw", "m2b-hb", "auto"])
@pytest.mark.parametrize("scale", [1.0, 1e-110, 1e110])
def test_a_fit_to_extreme_weights_can_be_saved(method, scale):
    rng = np.random.default_rng(0)
    scores, y = some_scores()
    weight = 10.0 ** rng.uniform(-12, 12, len(y)) * scale
    calibrator = quietly(make(method).fit, scores, y, weight)
    assert_same_calibrator(calibrator, loads(dumps(calibrator)))


@pytest.mark.parametrize("n_groups", [1, 3, 40])
def test_maps_of_groups_are_found_however_the_classes_are_grouped(n_groups):
    rng = np.random.default_rng(0)
    shared, k = copy.deepcopy(fitted("scw")), 40
    shared.classes_, shared.n_features_in_ = np.arange(k), k
    groups = np.append(n_groups - 1, rng.integers(n_groups, size=k - 1))  # some may be empty
    curves = tuple(shared.curves_[g % 2] for g in range(n_groups))
    shared.map_ = ClasswiseCurves(groups, curves)
    rows = rng.dirichlet(np.ones(k), 5)
    mapped = np.column_stack([shared.curves_[g](rows[:, j]) for j, g in enumerate(shared.groups_)])
    mapped /= mapped.sum(axis=1, keepdims=True)
    found = loads(dumps(shared)).predict_proba(rows)
    np.testing.assert_allclose(found, mapped, rtol=1e-9, atol=1e-11)
