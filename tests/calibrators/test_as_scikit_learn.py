"""scikit-learn's own tests of ``CalibratedClassifierCV``, of the installed version, on ours."""

import os
import subprocess
import sys
from collections import defaultdict
from fnmatch import fnmatch
from xml.etree import ElementTree as ET

import pytest

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
