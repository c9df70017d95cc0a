"""A method is a class: whatever lists methods finds it there."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import study
from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.composition import Composed
from calibrant._calibrators.methods import methods, saved_methods
from calibrant._calibrators.parameters import fitted_types
from calibrant._maps import MixtureMap, Stage
from calibrant.datasets import simulated_scores
from calibrant.errors import ContainerError, ParameterError
from conftest import methods_alone, needs_pages
from model_file.catalogue import quietly

ROOT = Path(__file__).parents[2]
NAMES = (
    *("na-fir", "scir", "fir", "ir-ovr", "ts", "vs", "ms", "dirichlet"),
    *("platt-ovr", "beta-ovr", "structured", "spline", "two-class", "auto"),
)
IN_STUDY = (
    *("hb-ovr", "bbq-ovr", "scw", "m2b-hb", "m2b-ir", "na-fir-annealing", "na-fir-penalty"),
    *("na-fir-projected-gradient", "na-fir-slsqp", "na-fir-trust-constr"),
    *("na-fir-paper", "scir-paper", "ir-ovr-paper", "ts-paper", "vs-paper", "ms-paper"),
)


def test_methods_have_their_names_in_the_order_of_tables():
    assert tuple(method for method in methods() if method in NAMES) == NAMES
    named = {"chain", "features", "grouped", "masked", "mixture", "prior-shift"}
    assert set(saved_methods()) - set(methods()) == named
    assert {*methods(study=True)} - {*methods()} == {*IN_STUDY}


def test_every_public_calibrator_is_a_method():
    public = [getattr(calibrant, name) for name in calibrant.__all__]
    classes = [c for c in public if isinstance(c, type) and issubclass(c, Calibrator)]
    assert set(classes) == set(saved_methods().values())


@needs_pages
def test_the_table_of_the_page_is_that_of_the_methods():
    table = runpy.run_path(str(ROOT / "tools" / "write_methods.py"))["methods_table"]
    docs = ROOT / "docs"
    assert table() in (docs / "start" / "methods.md").read_text(encoding="utf-8")
    assert table(study=True) in (docs / "guides" / "study.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("cls", saved_methods(study=True).values())
def test_a_method_tells_what_it_is(cls):
    assert cls.title
    assert not cls.stands_alone or (cls.summary and cls.good_for)
    assert {"map_", "solver_report_"} <= fitted_types(cls).keys()
    assert issubclass(cls, Composed) or not fitted_types(cls)["map_"].__abstractmethods__


def test_methods_of_the_study_are_imported_when_they_are_asked_for():
    """And importing them changes nothing for who does not name them."""
    code = (
        "import sys\n"
        "from calibrant._calibrators.methods import find_method, make_calibrator, methods\n"
        "known = [*methods()]\n"
        "assert find_method('ts') and 'calibrant.study' not in sys.modules\n"
        "print(make_calibrator('bbq-ovr'), 'calibrant.study' in sys.modules, [*methods()] == known)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["OneVsRestBBQ()", "True", "True"]
    with pytest.raises(AttributeError):
        _ = calibrant.OneVsRestBBQ


def test_a_new_method_needs_one_class():
    """The script defines one, and finds it wherever methods are listed, saved, drawn or run."""
    script = Path(__file__).with_name("toy_method.py")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("calibrator", "changed"),
    [
        (calibrant.TemperatureScaling(), {"scores": "logits"}),
        (calibrant.StructuredScaling(), {"bound": 0.5}),
        (study.TopLabelIsotonic(), {"per_class": True}),
        (study.SharedClasswise(), {"normalize_output": False}),
    ],
)
def test_parameters_that_are_set_after_a_fit_wait_for_the_next(calibrator, changed):
    scores, y = simulated_scores(300)
    before = calibrator.fit(scores, y).predict_proba(scores)
    after = calibrator.set_params(**changed).predict_proba(scores)
    assert before.tobytes() == after.tobytes()


def test_a_fit_cannot_be_tampered_with():
    scores, y = simulated_scores(300)
    calibrator = calibrant.VectorScaling().fit(scores, y)
    with pytest.raises(AttributeError):
        calibrator.coef_ = [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        calibrator.coef_[0] = 2.0
    with pytest.raises(AttributeError):
        calibrator.map_.coef = calibrator.coef_


@pytest.mark.parametrize("cls", [c for c in methods_alone().values() if c.method != "auto"])
def test_a_map_refuses_rows_that_were_not_checked(cls):
    """Kernels read the bits of doubles: of other numbers they would make wrong ones."""
    scores, y = simulated_scores(300)
    scores = np.column_stack([scores[:, :2], scores[:, 2] / 2, scores[:, 2] / 2])  # an even number
    found = quietly(cls(classes=range(4)).fit, scores, y).map_
    for rows in (scores.astype(np.float32), scores.astype(np.float16), scores.tolist(), scores[0]):
        with pytest.raises(ContainerError):
            found(rows)
    with pytest.raises(ContainerError):
        MixtureMap((Stage(found, 0.0),), [1.0])(scores.astype(np.float32))


def test_a_name_that_is_taken_is_refused_where_the_class_is_defined():
    with pytest.raises(ParameterError, match="TemperatureScaling"):

        class Mine(calibrant.TemperatureScaling):
            method = "ts"

    assert methods()["ts"] is calibrant.TemperatureScaling
