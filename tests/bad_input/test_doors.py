"""Calibrators check their input in common, so that one of them stands for all that is refused."""

from __future__ import annotations

from inspect import isfunction

from bad_input.promises import CALIBRATORS
from calibrant._calibrators.base import Calibrator

CHECKS = {"simplex", "to_matrix", "column_order", "column_names", "check_is_fitted"}
DOORS = [
    name
    for name, value in vars(Calibrator).items()
    if isfunction(value) and (CHECKS & {*value.__code__.co_names} or not name.startswith("_"))
]


def _subclasses(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def test_no_calibrator_has_a_way_in_of_its_own():
    """Each checks by ``fit``, ``predict_proba`` and the like of ``Calibrator``, and no other."""
    assert {"fit", "predict_proba", "predict", "transform", "predict_log_proba"} <= {*DOORS}
    ours = {cls for cls in _subclasses(Calibrator) if cls.__module__.startswith("calibrant.")}
    found = {*ours, *CALIBRATORS}  # the latter so that all are loaded, and no other test's own
    assert len(found) > 20
    for calibrator in found:
        for name in DOORS:
            assert getattr(calibrator, name) is getattr(Calibrator, name), (calibrator, name)
