"""One-hot data frames of labels are read by the names of their columns."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bad_input.promises import refused
from calibrant import FlattenedIsotonic, TemperatureScaling, errors, metrics

NAMES = ["dog", "ant", "cat"]
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, 300)
LOGITS = RNG.normal(size=(300, 3)) + 2 * np.eye(3)[CODES]
P = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
TEXT = np.array(NAMES)[CODES]
SCORES = pd.DataFrame(P, columns=NAMES)
HOT = pd.get_dummies(pd.Series(TEXT))

in_another_order = pytest.mark.filterwarnings(
    "ignore:columns are named after:calibrant.errors.ColumnOrderWarning"
)

FORMS = {
    "dummies": HOT,
    "as the scores": HOT[NAMES],
    "numbers": HOT.astype(float),
    "with a prefix": pd.get_dummies(pd.DataFrame({"species": TEXT})),
    "polars": pl.Series("species", TEXT).to_dummies(),
    "polars without a prefix": pl.DataFrame(
        {name: (name == TEXT).astype(int) for name in ["ant", "cat", "dog"]}
    ),
}


@in_another_order
@pytest.mark.parametrize("form", FORMS)
def test_a_fit_keeps_the_names_of_classes_and_matches_them_with_the_scores(form):
    for calibrator in (TemperatureScaling(), FlattenedIsotonic()):
        plain = calibrator.fit(SCORES, TEXT).predict_proba(SCORES)
        own = calibrator.fit(SCORES, FORMS[form])
        assert own.classes_.tolist() == ["ant", "cat", "dog"]
        assert np.array_equal(own.predict_proba(SCORES), plain)
        told = type(calibrator)(classes=NAMES).fit(P, FORMS[form])
        assert told.classes_.tolist() == NAMES
        assert np.array_equal(told.predict(P), own.predict(SCORES))


@in_another_order
@pytest.mark.parametrize("form", FORMS)
def test_metrics_are_those_of_the_labels(form):
    plain = metrics.brier_score(TEXT, SCORES)
    assert metrics.brier_score(FORMS[form], SCORES) == plain
    assert metrics.brier_score(FORMS[form], P, classes=NAMES) == plain


def test_a_class_without_a_label_is_told_by_its_column():
    absent = CODES != 0
    hot = HOT[absent].assign(dog=False)
    fitted = TemperatureScaling().fit(SCORES[["ant", "cat", "dog"]][absent], hot)
    assert fitted.classes_.tolist() == ["ant", "cat", "dog"]


def test_names_that_do_not_match_are_refused():
    made = TemperatureScaling
    with refused(errors.LabelError, "'a', 'b', 'c'", "not among the classes"):
        made(classes=["a", "b", "c"]).fit(P, HOT)
    with refused(errors.ColumnNameError, "'dog', 'ant', 'cat'", "sorted order", "pass classes="):
        made().fit(P, HOT[NAMES])
    with refused(errors.ColumnNameError, "'ant' is named after a class but 'wolf' is not"):
        made().fit(SCORES.rename(columns={"dog": "wolf"}), HOT)
    with refused(errors.ColumnNameError, "y_true", "'dog', 'ant', 'cat'", "pass classes="):
        metrics.brier_score(HOT[NAMES], P)
    with refused(errors.ShapeError, "2 columns", "scores has 3", "idxmax(axis=1)"):
        made().fit(P, HOT[["ant", "cat"]])


def test_frames_without_names_are_read_by_place():
    unnamed = pd.DataFrame(np.eye(3)[CODES])
    fitted = TemperatureScaling(classes=NAMES).fit(P, unnamed)
    assert fitted.classes_.tolist() == NAMES
    assert TemperatureScaling().fit(P, unnamed).classes_.tolist() == [0, 1, 2]
    numbers = pd.get_dummies(CODES)  # whose names are the classes, in whatever order these are
    turned = TemperatureScaling(classes=[2, 0, 1]).fit(P[:, [2, 0, 1]], numbers)
    assert turned.temperature_ == pytest.approx(fitted.temperature_)
