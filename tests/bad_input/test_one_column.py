"""One column of two classes: what is refused, and what its name says."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant
from bad_input.promises import few_rows, refused
from calibrant import errors, metrics, model_file
from calibrant._gate._columns import names_other_class
from calibrant.monitor import CalibrationMonitor

pytestmark = few_rows

RNG = np.random.default_rng(0)
P = RNG.random(120)
MARGINS = 8 * P - 4
Y = (RNG.random(120) < P).astype(int)
WORDS = np.where(Y, "yes", "no")
TOLD = {"classes": ["no", "yes"]}


def put(row, value):
    return np.where(np.arange(len(P)) == row, value, P)


SCORES = {
    "a vector of nobody knows what": (
        *(P, "probabilities", errors.ShapeError),
        *("(120,)", "scores='positive'", "scores='decision'", "np.column_stack([1 - p, p])"),
    ),
    "a column of nobody knows what": (
        *(P[:, None], "logits", errors.ShapeError),
        *("scores='positive'", "scores='decision'", "np.zeros_like(z)"),
    ),
    "two columns as one": (
        *(np.column_stack([1 - P, P]), "positive", errors.ShapeError),
        *("(120, 2)", "one number per row", "pass column 1", "scores='probabilities'"),
    ),
    "two columns as margins": (
        *(np.column_stack([1 - P, P]), "decision", errors.ShapeError),
        *("(120, 2)", "one number per row", "pass column 1", "scores='logits'"),
    ),
    "an image as one column": (P[:, None, None], "positive", errors.ShapeError, "(120, 1, 1)"),
    "margins as probabilities": (
        *(put(7, -2.5), "positive", errors.RangeError),
        *("scores[7]", "-2.5", "[0, 1]", "scores='decision'"),
    ),
    "percent": (put(7, 31.0), "positive", errors.RangeError, "scores[7]", "31.0", "by 100"),
    "NaN": (put(7, np.nan), "positive", errors.NonFiniteError, "scores[7]", "nan", "repair"),
    "infinity": (put(7, np.inf), "positive", errors.NonFiniteError, "scores[7]", "inf"),
    "NaN among margins": (put(7, np.nan), "decision", errors.NonFiniteError, "scores[7]"),
    "margins out of all reason": (put(7, 1e200), "decision", errors.RangeError, "scores[7]"),
    "text": (WORDS, "positive", errors.ContainerError, "scores", "numbers"),
    "rows of several lengths": ([[0.5], [0.5, 0.5]], "positive", errors.ShapeError, "lengths"),
}


@pytest.mark.parametrize("case", SCORES.values(), ids=SCORES)
def test_scores_are_refused_at_fit_and_at_predict(case):
    given, kind, error, *parts = case
    made = calibrant.TemperatureScaling(scores=kind)
    for fit in (made.fit, made.partial_fit):
        with refused(error, *parts):
            fit(given, Y)
    good = {"probabilities": np.column_stack([1 - P, P]), "positive": P}
    margins = {"logits": np.column_stack([-MARGINS, MARGINS]), "decision": MARGINS}
    made.fit((good | margins)[kind], Y)
    with refused(error, *parts):
        made.predict_proba(given)


def test_labels_that_do_not_tell_the_positive_class_are_refused():
    for kind in ("positive", "decision"):
        made = calibrant.TemperatureScaling(scores=kind)
        remedies = ("classes=['no', 'yes'] if it is 'yes'", "else classes=['yes', 'no']")
        for fit in (made.fit, made.partial_fit):
            with refused(errors.LabelError, "one column", "'no', 'yes'", *remedies):
                fit(P, WORDS)
    with refused(errors.LabelError, "one column", "pos_label='yes'", "pos_label='no'"):
        metrics.brier_score(WORDS, P)


def test_more_than_two_labels_are_refused():
    y = np.arange(120) % 3
    made = calibrant.TemperatureScaling(scores="positive")
    for fit in (made.fit, made.partial_fit):
        with refused(errors.LabelError, "3 distinct labels", "2 classes", "column per class"):
            fit(P, y)
    with refused(errors.LabelError, "3 distinct labels", "y_proba is for 2 classes"):
        metrics.evaluate(y, P)
    with refused(errors.ParameterError, "classes", "(3,)"):
        calibrant.TemperatureScaling(scores="positive", classes=[0, 1, 2]).fit(P, Y)


VALUES = {"positive": P, "decision": MARGINS}

COLUMNS = {
    "series": lambda name, values: pd.Series(values, name=name),
    "frame": lambda name, values: pd.DataFrame({name: values}),
    "polars series": pl.Series,
    "polars frame": lambda name, values: pl.DataFrame({name: values}),
}


@pytest.mark.parametrize("holder", COLUMNS)
@pytest.mark.parametrize("kind", ["positive", "decision"])
def test_another_name_than_at_the_fit_is_refused(holder, kind):
    values = VALUES[kind]

    def hold(name):
        return COLUMNS[holder](name, values)

    fitted = calibrant.TemperatureScaling(scores=kind).fit(hold("p"), Y)
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
    fitted = calibrant.TemperatureScaling(scores="positive").fit(P, Y)
    assert not hasattr(fitted, "feature_names_in_")
    for name in ("p", "utilisation"):
        assert len(fitted.predict_proba(pd.Series(P, name=name))) == 120


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
    made = calibrant.TemperatureScaling(scores="positive")
    for fit in (made.fit, made.partial_fit):
        with refused(*parts, "classes=[1, 0]"):
            fit(column, Y)
    with refused(*parts):
        made.fit(P, Y).predict_proba(column)
    with refused(*parts, "pos_label=0"):
        metrics.brier_score(Y, column)
    with refused(*parts):
        CalibrationMonitor().update(column, Y)
    told = calibrant.TemperatureScaling(scores="positive", classes=[1, 0]).fit(column, Y)
    assert told.predict_proba(column)[:, 1] == pytest.approx(made.predict_proba(P)[:, 0])
    assert metrics.brier_score(Y, column, pos_label=0) == pytest.approx(metrics.brier_score(Y, P))
