"""skops loads whatever was fitted, with the types that are listed and no others."""

import importlib
import json
import zipfile
from functools import cache
from io import BytesIO

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant
from calibrant import errors, model_file, study
from calibrant._calibrators.methods import saved_methods
from calibrant.datasets import simulated_scores
from calibrant.export import trusted_types
from conftest import methods_alone

sio = pytest.importorskip("skops.io")

SCORES, Y = simulated_scores(600)
PARTS = [calibrant.TemperatureScaling(), calibrant.FlattenedIsotonic()]
ISOTONIC, CLASSIFIER = calibrant.NormalizationAwareIsotonic, calibrant.CalibratedClassifier
FROZEN = FrozenEstimator(GaussianNB().fit(SCORES, Y))
PIPELINE = make_pipeline(StandardScaler(), LogisticRegression())
EVERYTHING = {
    **{name: cls() for name, cls in methods_alone().items()},
    "annealing": study.Annealing(),
    **{name: cls() for name, cls in saved_methods(study=True).items() if name.endswith("-paper")},
    "chain": calibrant.Chain(PARTS),
    "mixture": calibrant.Mixture(PARTS),
    "prior-shift": calibrant.PriorShift(),
    "masked": calibrant.MaskedCalibrator(),
    "grouped": calibrant.GroupedCalibrator(calibrant.TemperatureScaling()),
    "features": calibrant.FeatureCalibrator(cv=2),
    "sampled": calibrant.FlattenedIsotonic(),
    "text": calibrant.TemperatureScaling(),
    "objects": calibrant.TemperatureScaling(),
    "classifier": CLASSIFIER(),
    "isotonic": CLASSIFIER(GaussianNB(), "fir", cv=2),
    "one": CLASSIFIER(LogisticRegression(), "spline", cv=2, ensemble=False),
    "frozen": CLASSIFIER(FROZEN, "vs"),
    "pipeline": CLASSIFIER(PIPELINE, cv=2),
}
GROUPS = {"groups": np.array(["north", "south"] * 300)}
FEATURES = {"features": Y + np.random.default_rng(0).normal(0.0, 1.0, 600)}
BY_ROW = {"grouped": GROUPS, "features": FEATURES}
LABELS = {"text": np.array([*"abc"])[Y], "objects": np.array([*"abc"], "O")[Y]}


@cache
def fitted(name):
    model = clone(EVERYTHING[name])
    if name == "sampled":
        model.partial_fit(SCORES, Y)
        del model.sample_  # which skops does not trust
        return model
    if name in BY_ROW:
        return model.fit(SCORES, Y, **BY_ROW[name])
    n_rows = 120 if getattr(model, "solver", None) else len(Y)
    return model.fit(SCORES[:n_rows], LABELS.get(name, Y)[:n_rows])


@pytest.mark.parametrize("name", EVERYTHING)
def test_what_is_loaded_predicts_the_same_to_the_bit(name):
    model = fitted(name)
    loaded = sio.loads(sio.dumps(model), trusted=trusted_types())
    assert type(loaded) is type(model)
    own = BY_ROW.get(name, {})
    for method in ("predict_proba", "predict"):
        wanted = getattr(model, method)(SCORES, **own)
        np.testing.assert_array_equal(getattr(loaded, method)(SCORES, **own), wanted)


def test_the_list_is_what_is_asked_for_and_no_more():
    asked = {
        name
        for what in EVERYTHING
        for name in sio.get_untrusted_types(data=sio.dumps(fitted(what)))
    }
    others = {"calibrant._solvers.report.Binning"}  # which only earlier fits have
    slow = ("Penalty", "ProjectedGradient", "SLSQP", "TrustConstr")  # of the same form as annealing
    others |= {f"calibrant.study._searches.{name}" for name in slow}
    assert asked | others == {*trusted_types()}


def test_the_list_has_classes_of_this_package_alone(monkeypatch):
    """A function in it could be called with whatever a file says."""

    class Foreign(calibrant.TemperatureScaling):
        """Not of this package."""

    monkeypatch.setitem(calibrant.TemperatureScaling._registered, "foreign", Foreign)
    for name in trusted_types():
        module, _, attribute = name.rpartition(".")
        assert module.startswith("calibrant.")
        assert isinstance(getattr(importlib.import_module(module), attribute), type)
    with pytest.raises(TypeError, match="TemperatureMap"):
        sio.loads(sio.dumps(fitted("ts")))


def test_trees_are_for_the_user_to_trust():
    """They are no types of ours; a forged one can make scikit-learn read outside of it."""
    forest = calibrant.CalibratedClassifier(RandomForestClassifier(3, random_state=0), cv=2)
    data = sio.dumps(forest.fit(SCORES, Y))
    with pytest.raises(TypeError, match="Tree"):
        sio.loads(data, trusted=trusted_types())
    loaded = sio.loads(data, trusted=[*trusted_types(), "sklearn.tree._tree.Tree"])
    np.testing.assert_array_equal(loaded.predict_proba(SCORES), forest.predict_proba(SCORES))


def forge(data, change):
    """Bytes of skops with another schema."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema)
            new.writestr(name, content)
    return out.getvalue()


def node_of(state, name):
    """The node of a class, wherever it is in a schema."""
    if isinstance(state, dict) and state.get("__class__") == name:
        return state
    children = state.values() if isinstance(state, dict) else state
    found = (node_of(child, name) for child in children if isinstance(child, dict | list))
    return next((node for node in found if node is not None), None)


def test_a_forged_map_is_refused():
    def shorten(schema):  # fewer values than thresholds: compiled code would read beyond their end
        values = node_of(schema, "StepFunction")["content"]["content"][1]
        values["file"] = schema["content"]["content"]["classes_"]["file"]

    def by_state(schema):  # by no constructor
        node = node_of(schema, "TemperatureMap")
        node["__loader__"] = "ObjectNode"
        node["content"]["content"][0]["content"] = "-1.0"

    for name, change in (("fir", shorten), ("ts", by_state)):
        with pytest.raises(errors.ParameterError):
            sio.loads(forge(sio.dumps(fitted(name)), change), trusted=trusted_types())


def test_the_rows_of_partial_fit_are_not_trusted():
    calibrator = calibrant.FlattenedIsotonic().partial_fit(SCORES, Y)
    with pytest.raises(sio.exceptions.UntrustedTypesFoundException, match="RowSample"):
        sio.loads(sio.dumps(calibrator), trusted=trusted_types())
    fit_alone = model_file.loads(model_file.dumps(calibrator))
    loaded = sio.loads(sio.dumps(fit_alone), trusted=trusted_types())
    np.testing.assert_array_equal(loaded.predict_proba(SCORES), calibrator.predict_proba(SCORES))
