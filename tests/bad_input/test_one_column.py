"""What is refused of one column of two classes, and the remedy that is named."""

import numpy as np
import pandas as pd
import pytest

import calibrant
from bad_input.promises import few_rows, refused
from calibrant import errors, metrics
from calibrant._cli.main import run
from calibrant.export._pipeline import check_input
from conftest import simulate

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
        *("(120, 1)", "scores='positive'", "scores='decision'", "np.zeros_like(z)"),
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
@pytest.mark.parametrize("action", ["fit", "partial_fit", "predict_proba", "predict"])
def test_scores_are_refused(case, action):
    given, kind, error, *parts = case
    made = calibrant.TemperatureScaling(scores=kind)
    if action in ("fit", "partial_fit"):
        with refused(error, *parts):
            getattr(made, action)(given, Y)
        return
    good = {"probabilities": np.column_stack([1 - P, P]), "positive": P}
    margins = {"logits": np.column_stack([-MARGINS, MARGINS]), "decision": MARGINS}
    made.fit((good | margins)[kind], Y)
    with refused(error, *parts):
        getattr(made, action)(given)


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
        with refused(errors.LabelError, "3 distinct labels", "one column", "column per class"):
            fit(P, y)
    with refused(errors.LabelError, "3 distinct labels", "y_proba has one column"):
        metrics.evaluate(y, P)
    with refused(errors.ParameterError, "classes", "(3,)"):
        calibrant.TemperatureScaling(scores="positive", classes=[0, 1, 2]).fit(P, Y)


FILES = {
    "labels that do not tell": ("score,label", WORDS, [], "--positive 'yes' or --positive 'no'"),
    "another label": ("score,label", WORDS, ["--positive", "maybe"], "--positive maybe is not"),
    "three labels": ("score,label", np.arange(120) % 3, ["--positive", "1"], "--positive 1"),
    "one column as several": (
        *("score,label", Y, ["--scores", "probabilities"]),
        "one column of scores, 'score'",
    ),
    "several columns as one": (
        *("a,b,label", Y, ["--scores", "positive"]),
        "2 columns of scores, but --scores positive needs one number",
    ),
    "sums of one column": ("score,label", Y, ["--normalize"], "--normalize is for probabilities"),
    "the name of the other class": (
        *("no,label", WORDS, ["--positive", "yes"]),
        "named 'no', which says 'no', but is read as the column of 'yes'",
    ),
    "whole numbers": ("fold,label", Y, [], "'fold', of whole numbers"),
    "margins": ("margin,label", Y, [], "--scores decision"),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_files_are_refused(case, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    head, y, options, words = case
    first = {"fold": np.arange(120) % 2, "margin": 4 * P - 2}.get(head.split(",")[0], P)
    names = head.split(",")[:-1]
    columns = dict(zip(names, (first, 1 - P), strict=False))
    pd.DataFrame({**columns, "label": y}).to_csv(tmp_path / "p.csv", index=False)
    for command in (["evaluate"], ["fit", "-o", str(tmp_path / "m.calibrant"), "-m", "ts"]):
        assert run([*command, str(tmp_path / "p.csv"), *options]) in (2, 3)
        assert words in " ".join(capsys.readouterr().err.split())


def test_an_export_takes_no_column_that_the_map_cannot_read():
    made = calibrant.TemperatureScaling().fit(*simulate(120, 3))
    with refused(errors.ExportError, "input='positive'", "input='probabilities'"):
        check_input(made, "positive")
    margins = calibrant.VectorScaling(scores="decision").fit(MARGINS, Y)
    with refused(errors.ExportError, "input='decision'"):
        check_input(margins, "logits")
