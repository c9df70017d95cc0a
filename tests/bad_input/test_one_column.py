"""What is refused of one column of two classes, and the remedy that is named."""

import numpy as np
import pytest

import calibrant
from bad_input.promises import few_rows, refused
from calibrant import errors, metrics

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
