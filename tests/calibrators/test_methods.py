"""A method is a class: whatever lists methods finds it there."""

import subprocess
import sys
from pathlib import Path

import pytest

import calibrant
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.composition import Composed
from calibrant.calibrators.methods import methods, methods_table, saved_methods
from calibrant.calibrators.parameters import fitted_types

ROOT = Path(__file__).parents[2]
NAMES = (
    *("na-fir", "scir", "fir", "ir-ovr", "ts", "vs", "ms", "dirichlet"),
    *("platt-ovr", "beta-ovr", "hb-ovr", "bbq-ovr", "scw", "m2b-hb", "m2b-ir"),
    *("structured", "spline", "auto"),
)


def test_methods_have_their_names_in_the_order_of_tables():
    assert tuple(methods()) == NAMES
    assert set(saved_methods()) - set(NAMES) == {"chain", "mixture"}


def test_every_public_calibrator_is_a_method():
    public = [getattr(calibrant, name) for name in calibrant.__all__]
    classes = [c for c in public if isinstance(c, type) and issubclass(c, Calibrator)]
    assert set(classes) == set(saved_methods().values())


def test_the_table_of_readme_is_that_of_the_methods():
    assert methods_table() in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("cls", saved_methods().values())
def test_a_method_tells_what_it_is(cls):
    assert cls.title
    assert not cls.stands_alone or (cls.summary and cls.good_for)
    assert {"map_", "solver_report_"} <= fitted_types(cls).keys()
    assert issubclass(cls, Composed) or not fitted_types(cls)["map_"].__abstractmethods__


@pytest.mark.parametrize("cls", saved_methods().values())
def test_the_way_in_is_the_same_for_all(cls):
    for name in ("fit", "predict_proba", "predict", "transform"):
        assert getattr(cls, name) is getattr(Calibrator, name)


def test_a_new_method_needs_one_class():
    """The script defines one, and finds it wherever methods are listed, saved, drawn or run."""
    script = Path(__file__).with_name("toy_method.py")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
