"""scikit-learn's own checks, and each one that cannot apply, again on simplex data.

The checks feed arbitrary matrices, so the calibrators take them as logits; no tag says that a
matrix has one column per class, which is why the listed ones fail.
"""

import os
import subprocess
import sys
from collections import defaultdict
from fnmatch import fnmatch
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrant import (
    AutoCalibrator,
    Chain,
    DirichletCalibration,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrators.catalogue import CALIBRATORS, PERMUTATION_INVARIANT, make, quiet
from conftest import simulate

pytestmark = quiet

each = pytest.mark.parametrize("cls", CALIBRATORS)

COLUMNS = "fits three classes to two columns; a calibrator has one column per class"
FEATURES = "asks for accuracy from features that are not scores of the classes"
ONE_LABEL = "asks a map shared by all classes to predict the only label that it saw"
SPLITS = "passes splits of rows as cv; here it is a number of folds, dealt by content"

EXPECTED = {
    "check_estimators_overwrite_params": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_readonly_memmap_input": COLUMNS,
    "check_classifiers_classes": COLUMNS,
    "check_classifiers_train": FEATURES,
}
SHARED = {"check_classifiers_one_label": ONE_LABEL}
INCREMENTAL = {
    "check_n_features_in_after_fitting": COLUMNS,
    "check_estimators_partial_fit_n_features": COLUMNS,
}
FOLDED = {"check_sample_weight_equivalence_on_dense_data": SPLITS}

# Fewer fits than in other tests.
QUICKER = {"AutoCalibrator": {"candidates": ()}}


def expected_failures(calibrator):
    # AutoCalibrator without candidates is temperature scaling.
    # Vector and matrix scaling are shrunk to it by a thousand rows, and the check has ten.
    shrunk = [VectorScaling, MatrixScaling, DirichletCalibration, Chain]
    is_shared = type(calibrator) in [*PERMUTATION_INVARIANT, AutoCalibrator, *shrunk]
    found = EXPECTED | (SHARED if is_shared else {})
    found |= INCREMENTAL if hasattr(calibrator, "partial_fit") else {}
    return found | (FOLDED if hasattr(calibrator, "cv") else {})


all_checks = parametrize_with_checks(
    [make(cls, scores="logits", **QUICKER.get(cls.__name__, {})) for cls in CALIBRATORS],
    expected_failed_checks=expected_failures,
    xfail_strict=True,
)

# What a class has of its own: parameters, and a fit that is kept. All else is done in common, and
# two calibrators stand for all: one by itself, and one made of others.
OWN = {
    "check_dict_unchanged",
    "check_do_not_raise_errors_in_init_or_set_param",
    "check_dont_overwrite_attributes",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_get_params_invariance",
    "check_methods_subset_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
}


def is_needed(pair):
    estimator, check = getattr(pair, "values", pair)
    name = getattr(check, "func", check).__name__
    return name in OWN or isinstance(estimator, TemperatureScaling | Chain)


@pytest.mark.parametrize(
    all_checks.args[0], [*filter(is_needed, all_checks.args[1])], **all_checks.kwargs
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@each
def test_fit_overwrites_no_parameter_and_returns_itself(cls):
    """As check_estimators_overwrite_params and check_estimators_fit_returns_self."""
    p, y = simulate(200, 3)
    calibrator = make(cls)
    before = calibrator.get_params()
    assert calibrator.fit(p, y) is calibrator
    assert calibrator.get_params() == before


@each
def test_readonly_memory_map(cls, tmp_path):
    """As check_readonly_memmap_input."""
    p, y = simulate(200, 3)
    np.save(tmp_path / "p.npy", p)
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    y.setflags(write=False)
    out = make(cls).fit(mapped, y).predict_proba(mapped)
    assert out.tobytes() == make(cls).fit(p, y).predict_proba(p).tobytes()


@each
def test_classes_keep_their_type(cls):
    """As check_classifiers_classes."""
    p, y = simulate(200, 3)
    names = [b"a", b"b", b"c"]
    labels = np.array(names)[y]
    calibrator = make(cls).fit(p, labels)
    assert calibrator.classes_.tolist() == np.array(names).tolist()
    assert calibrator.predict(p).dtype.kind == labels.dtype.kind
    plain = make(cls).fit(p, y)
    assert calibrator.predict(p).tolist() == np.array(names)[plain.predict(p)].tolist()


@each
def test_trains_on_scores_of_the_classes(cls):
    """As check_classifiers_train: accuracy kept, shapes, predict agrees with predict_proba."""
    p, y = simulate(2000, 4)
    calibrator = make(cls).fit(p, y)
    out = calibrator.predict_proba(p)
    assert out.shape == p.shape
    assert np.all(out[np.arange(len(p)), calibrator.predict(p)] >= out.max(axis=1) * (1 - 1e-14))
    assert calibrator.score(p, y) >= np.mean(p.argmax(axis=1) == y) - 0.02
    with pytest.raises(ValueError, match="4 features"):
        calibrator.predict_proba(p[:, :3])


@each
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_frames_named_after_the_classes(cls, library):
    pytest.importorskip(library)
    p, y = simulate(200, 3)
    labels = np.array(["ant", "bee", "cow"])[y]
    calibrator = make(cls).set_output(transform=library).fit(p, labels)
    frame = calibrator.transform(p)
    assert list(frame.columns) == ["ant", "bee", "cow"]
    assert frame.to_numpy().tobytes() == calibrator.predict_proba(p).tobytes()


SHIM = """
import sklearn.calibration
from calibrant import CalibratedClassifier

sklearn.calibration.CalibratedClassifierCV = CalibratedClassifier


def pytest_collection_modifyitems(items):
    name = "CalibratedClassifierCV"
    items[:] = [item for item in items if name in item.function.__code__.co_names]
"""

UNSHRUNK = "expects a fit without prior: steps without blending, a temperature without its prior"
PRIVATE = "reads `calibrators` and `beta_`, attributes of private classes"
EXCEPTIONS = {
    "test_calibration_ensemble_false[[]isotonic*": UNSHRUNK,
    "test_calibration_ensemble_false[[]temperature*": UNSHRUNK,
    "test_temperature_scaling[[]*": PRIVATE,
    "test_temperature_scaling_array_api*": PRIVATE,  # skipped where no array API is installed
}


@pytest.mark.slow
def test_scikit_learns_tests_pass_but_for_the_named_ones(tmp_path):
    (tmp_path / "shim.py").write_text(SHIM, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    options = ["-p", "shim", "-p", "no:cacheprovider", "-q", "-W", "ignore", "--junitxml=found.xml"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--pyargs", "sklearn.tests.test_calibration", *options],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (tmp_path / "found.xml").exists(), done.stdout + done.stderr
    found = defaultdict(list)
    for case in ET.parse(tmp_path / "found.xml").iter("testcase"):
        outcome = {part.tag for part in case} & {"failure", "error", "skipped"}
        found["".join(outcome) or "passed"].append(case.get("name"))

    def matching(pattern, *outcomes):
        return [one for outcome in outcomes for one in found[outcome] if fnmatch(one, pattern)]

    excepted = {name for pattern in EXCEPTIONS for name in matching(pattern, "failure")}
    assert found["error"] == []
    assert set(found["failure"]) == excepted, done.stdout
    passing = [name for pattern in EXCEPTIONS for name in matching(pattern, "passed")]
    assert passing == []  # no longer exceptions
    assert len(found["passed"]) > 60
