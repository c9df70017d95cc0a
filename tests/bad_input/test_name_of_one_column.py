"""The name of a single column of two classes is kept, and says whose probability it is."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bad_input.promises import refused
from calibrant import TemperatureScaling, errors, metrics, model_file
from calibrant._gate._columns import names_other_class
from calibrant.monitor import CalibrationMonitor

RNG = np.random.default_rng(0)
P = RNG.random(300)
Y = (RNG.random(300) < P).astype(int)

VALUES = {"positive": P, "decision": 8 * P - 4}

HOLDERS = {
    "series": lambda name, values: pd.Series(values, name=name),
    "frame": lambda name, values: pd.DataFrame({name: values}),
    "polars series": pl.Series,
    "polars frame": lambda name, values: pl.DataFrame({name: values}),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", ["positive", "decision"])
def test_another_name_than_at_the_fit_is_refused(holder, kind):
    values = VALUES[kind]

    def hold(name):
        return HOLDERS[holder](name, values)

    fitted = TemperatureScaling(scores=kind).fit(hold("p"), Y)
    assert fitted.feature_names_in_.tolist() == ["p"]
    loaded = model_file.loads(model_file.dumps(fitted))
    assert loaded.feature_names_in_.tolist() == ["p"]
    for own in (fitted, loaded):
        for predict in (own.predict_proba, own.predict):
            with refused(errors.ColumnNameError, "'utilisation'", "'p'", "rename it", "to_numpy()"):
                predict(hold("utilisation"))
        wanted = own.predict_proba(values)
        unnamed = values, values.tolist(), values[:, None], pd.Series(values)
        for given in (hold("p"), *unnamed):
            assert np.array_equal(own.predict_proba(given), wanted)


def test_a_fit_without_a_name_takes_any():
    fitted = TemperatureScaling(scores="positive").fit(P, Y)
    assert not hasattr(fitted, "feature_names_in_")
    for name in ("p", "utilisation"):
        assert len(fitted.predict_proba(pd.Series(P, name=name))) == 300


SAID = {
    (0, 1): {
        **dict.fromkeys(["p0", "prob_no", "prob_0", "class_0", "P(y=0)", "no", "0", "p_false"], 1),
        **dict.fromkeys(["p1", "prob_yes", "probability_of_1", "positive", "score1"], 0),
        **dict.fromkeys(["p", "utilisation", "x0", "no_claims", "notice", "p10"], 0),
    },
    ("False", "True"): {"p_false": 1, "True": 0},
    ("bad", "good"): {"prob_bad": 1, "BAD": 1, "p(good)": 0, "goodness": 0, "p0": 0},
    ("n", "y"): {"p_n": 1, "prob_y": 0, "y": 0, "no": 0},
    (-1, 1): {"-1": 1, "1": 0, "neg": 1, "p1": 0},
}


@pytest.mark.parametrize("classes", SAID, ids=str)
def test_a_name_may_say_the_other_class(classes):
    for name, said in SAID[classes].items():
        assert names_other_class(name, np.array(classes)) == bool(said), name


@pytest.mark.parametrize("name", ["p0", "prob_no", "prob_0", "class_0"])
def test_a_name_of_the_negative_class_is_not_taken_for_the_positive_one(name):
    column = pd.Series(1 - P, name=name)
    parts = (errors.ColumnNameError, name, "says 0", "the column of 1", "rename")
    made = TemperatureScaling(scores="positive")
    for fit in (made.fit, made.partial_fit):
        with refused(*parts, "classes=[1, 0]"):
            fit(column, Y)
    with refused(*parts):
        made.fit(P, Y).predict_proba(column)
    with refused(*parts, "pos_label=0"):
        metrics.brier_score(Y, column)
    with refused(*parts):
        CalibrationMonitor().update(column, Y)
    told = TemperatureScaling(scores="positive", classes=[1, 0]).fit(column, Y)
    assert told.predict_proba(column)[:, 1] == pytest.approx(made.predict_proba(P)[:, 0])
    assert metrics.brier_score(Y, column, pos_label=0) == pytest.approx(metrics.brier_score(Y, P))
