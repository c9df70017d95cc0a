"""Grades that the labels lack, and labels that come by document: what the interval must hold."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from calibrant.errors import LabelError, ShapeError
from calibrant.judge import calibrate_judge
from conftest import refuses
from judge.test_judge import run, width


def simulate_rare(rng, rate=0.012, n_rows=2000):
    """Few bad answers, of which the judge finds most."""
    bad = rng.random(n_rows) < rate
    return bad.astype(int), np.where(bad, rng.random(n_rows) < 0.8, rng.random(n_rows) < 0.01)


def simulate_documents(rng, n_documents=80, size=12, alike=0.5):
    """Grades from 1 to 5 of which some 1 are rare, and what people and judge share by document."""
    document = np.repeat(np.arange(n_documents), size)
    rows = len(document)

    def draw():
        own = rng.normal(0, np.sqrt(1 - alike), rows)
        return rng.normal(0, np.sqrt(alike), n_documents)[document] + own

    quality = draw()
    human = 3 + np.digitize(quality + 0.7 * draw(), [-0.8, 0.3])
    human[rng.random(rows) < 0.01] = 1
    judged = 3 + np.digitize(quality + rng.normal(0.4, 0.5, rows), [-0.8, 0.3])
    return document, human, judged


@pytest.mark.parametrize("n_labels", [50, 100, 300])
def test_grades_that_the_labels_lack_are_within_the_interval(n_labels):
    hits = 0
    for draw in range(40):
        rng = np.random.default_rng([n_labels, draw])
        human, judged = simulate_rare(rng)
        judged = judged.astype(int)
        parts = human[:n_labels], judged[:n_labels], judged[n_labels:]
        result = calibrate_judge(*parts, classes=[0, 1])
        hits += result.mean.low <= human.mean() <= result.mean.high
        assert width(result.mean) > 0
        # Not much wider than an exact binomial interval of the labels alone.
        exact = stats.binomtest(int(human[:n_labels].sum()), n_labels).proportion_ci()
        assert width(result.labelled_mean) <= 1.1 * (exact.high - exact.low)
    assert hits >= stats.binom.ppf(1e-3, 40, 0.95)


def test_a_scale_of_one_grade_is_refused():
    with refuses("human", LabelError):
        calibrate_judge([0] * 30, [0] * 30, [0] * 100)
    result = calibrate_judge([0] * 30, [0] * 30, [0] * 100, classes=[0, 1])
    assert result.mean.high > 0.08


def measure_clusters(n_labels, is_told, n_draws=30):
    hits = 0
    for draw in range(n_draws):
        document, human, judged = simulate_documents(np.random.default_rng([n_labels, draw]))
        own, rest = slice(n_labels), slice(n_labels, None)
        told = {"clusters": document[own]} if is_told else {}
        told["classes"] = [1, 3, 4, 5]
        result = calibrate_judge(human[own], judged[own], judged[rest], random_state=draw, **told)
        hits += result.mean.low <= human.mean() <= result.mean.high
    return hits / n_draws


@pytest.mark.parametrize("n_labels", [48, 100, 300])
def test_labels_that_come_by_document(n_labels):
    assert measure_clusters(n_labels, is_told=True) >= stats.binom.ppf(1e-3, 30, 0.95) / 30
    assert measure_clusters(n_labels, is_told=False) < 0.87


def test_clusters_of_one_row_are_rows_and_those_of_equal_rows_are_one():
    rng = np.random.default_rng(0)
    human, judged = rng.integers(1, 6, 240), rng.integers(1, 6, 240)
    rows = calibrate_judge(human[:60], judged[:60], judged[60:])
    single = calibrate_judge(human[:60], judged[:60], judged[60:], clusters=np.arange(60))
    assert width(single.labelled_mean) == pytest.approx(width(rows.labelled_mean), rel=0.01)
    assert (rows.n_clusters, single.n_clusters) == (None, 60)
    assert "(of 60 clusters)" in repr(single)
    copied = np.repeat(human[:60], 4), np.repeat(judged[:60], 4), judged[:1]
    one = calibrate_judge(*copied, target="population", clusters=np.repeat(np.arange(60), 4))
    none = calibrate_judge(*copied, target="population")
    assert width(one.labelled_mean) == pytest.approx(2 * width(none.labelled_mean), rel=0.1)


def test_folds_have_whole_clusters():
    """A judge whose grade is the number of the document says nothing about other documents."""
    rng = np.random.default_rng(1)
    of_document = rng.integers(1, 6, 15)
    document = np.repeat(np.arange(15), 10)
    given = of_document[document], document, np.arange(15)
    classes = np.unique(of_document)
    assert calibrate_judge(*given, classes=classes, clusters=document).kappa_after < 0.3
    assert calibrate_judge(*given, classes=classes).kappa_after > 0.9


@pytest.mark.parametrize(
    ("clusters", "error", "argument"),
    [
        (np.arange(9), ShapeError, "clusters"),
        (["a"] * 40, ShapeError, "clusters"),
        ([None, *range(39)], LabelError, "y"),
    ],
)
def test_clusters_that_are_refused(clusters, error, argument):
    with refuses(argument, error):
        calibrate_judge([1, 2] * 20, [1, 2] * 20, [1, 2] * 20, clusters=clusters)


def test_the_command_declares_grades_and_clusters(tmp_path):
    document, human, judged = simulate_documents(np.random.default_rng(0))
    table = pd.DataFrame({"judge": judged, "human": human, "document": document})
    table[:96].to_csv(tmp_path / "a.csv", index=False)
    table[96:].drop(columns="human").to_json(tmp_path / "b.jsonl", orient="records", lines=True)
    words = ["judge", tmp_path / "a.csv", tmp_path / "b.jsonl", "--grade", "judge", "--json"]
    words += ["--label-column", "human", "--classes", "1,2,3,4,5", "--clusters", "document"]
    code, out, _ = run(*words)
    result = calibrate_judge(
        human[:96], judged[:96], judged[96:], classes=range(1, 6), clusters=document[:96]
    )
    shown = json.loads(out)
    assert (code, shown["classes"], shown["n_clusters"]) == (0, [1, 2, 3, 4, 5], 8)
    assert shown["mean"]["high"] == pytest.approx(result.mean.high)
    assert run(*words[:-1], "documents")[0] == 3
