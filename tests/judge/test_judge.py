"""A judge against humans: the estimate by hand, its interval, agreement, and what is refused."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from calibrant._cli import main
from calibrant.errors import DataError, LabelError, ShapeError
from calibrant.judge import calibrate_judge
from calibrant.judge._interval import estimate_mean
from conftest import refuses

pytestmark = pytest.mark.filterwarnings("always::calibrant.errors.CalibrantWarning")


def simulate(n_rows=1000, seed=0):
    """Human grades from 1 to 5, and those of a judge who is kinder."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(0, 1, n_rows)
    human = 1 + np.digitize(quality + rng.normal(0, 0.5, n_rows), [-1.2, -0.4, 0.4, 1.2])
    logits = -3 * (0.6 + quality + rng.normal(0, 0.5, n_rows))[:, None] + np.zeros(5)
    logits = -3 * (logits / -3 - np.linspace(-1.6, 1.6, 5)) ** 2
    judge = np.exp(logits - logits.max(axis=1, keepdims=True))
    return human, 1 + judge.argmax(axis=1), judge / judge.sum(axis=1, keepdims=True)


HUMAN, GRADES, JUDGE = simulate()
CLASSES = np.arange(1, 6)


def width(estimate):
    return estimate.high - estimate.low


def bootstrap_of(rest, limits, level, n_fitted):
    """Ends of the interval by simulation: rows weighted at random, and 0.7 unseen ones each side.

    Half-widths are stretched as Student's are, in the limit of many draws of symmetric rows.
    """
    e, n, span = rest - rest.mean(), len(rest), 8.0
    size = np.sqrt((np.sum(e**4) + 0.05 * span**4) / (np.sum(e**2) + 0.05 * span**2))
    ends = max(limits[0], rest.mean() - size), min(limits[1], rest.mean() + size)
    shapes = np.append(np.ones(n), [0.7, 0.7])
    weights = np.random.default_rng(0).standard_gamma(shapes, (100_000, n + 2))
    means = weights @ np.append(rest, ends) / weights.sum(axis=1)
    score = stats.t.ppf(0.5 + level / 2, n - n_fitted) * (n + 1.4) / np.sqrt(n * (n - n_fitted))
    return np.quantile(means, stats.norm.cdf([-score, score]))


def test_the_estimate_is_that_of_the_formula():
    rng = np.random.default_rng(1)
    y, f, g = rng.normal(3, 1, 40), rng.normal(3, 1, 40), rng.normal(3, 1, 160)
    f += y
    numbers = np.array([-1.0, 7.0])
    tuned, plain, power = estimate_mean(y, f, g, "rows", 0.9, numbers)
    slope, intercept = np.polyfit(f, y, 1)
    assert power == pytest.approx(slope)
    rest = y - slope * f
    value = 0.2 * y.mean() + 0.8 * (slope * g.mean() + rest.mean())
    assert intercept == pytest.approx(rest.mean())
    np.testing.assert_allclose(tuned.value, value)
    both = np.r_[f, g]
    limits = -1 - slope * both.max(), 7 - slope * both.min()
    ends = bootstrap_of(rest, limits, 0.9, 2) - rest.mean()
    np.testing.assert_allclose(tuned[1:] - value, np.sqrt(0.8) * ends, rtol=0.03)
    own = np.sqrt(0.8) * (bootstrap_of(y, (-1, 7), 0.9, 1) - y.mean())
    np.testing.assert_allclose(np.array(plain[1:]) - y.mean(), own, rtol=0.03)
    wider, alone, _ = estimate_mean(y, f, g, "population", 0.9, numbers)
    of_rows = stats.t.ppf(0.95, 39) ** 2 * y.var(ddof=1) / 200
    halves = np.sqrt((np.array(plain[1:]) - plain.value) ** 2 + of_rows)
    np.testing.assert_allclose(width(alone), halves.sum())
    assert width(tuned) < width(wider) < width(alone)


def test_the_interval_of_many_rows_is_that_of_student():
    y = np.random.default_rng(0).normal(0, 1, 4000)
    plain = estimate_mean(y, 0 * y, y[:0], "population", 0.95, np.array([-6.0, 6.0]))[1]
    student = stats.t.interval(0.95, 3999, y.mean(), y.std(ddof=1) / np.sqrt(4000))
    np.testing.assert_allclose(plain[1:], student, atol=0.0005)
    cut = estimate_mean(y, 0 * y, y, "rows", 0.95, np.array([-6.0, 6.0]))[1]
    np.testing.assert_allclose(width(cut), np.diff(student)[0] / np.sqrt(2), rtol=0.02)


def test_a_judge_that_knows_nothing_costs_nothing():
    rng = np.random.default_rng(0)
    y, f = rng.normal(0, 1, 30), rng.normal(0, 1, 30)
    f -= y * (f @ y) / (y @ y)
    g, numbers = rng.normal(0, 1, 300), np.array([-3.0, 3.0])
    tuned, plain, power = estimate_mean(y, f - f.mean(), g, "rows", 0.95, numbers)
    assert width(tuned) <= width(plain)
    assert power == 0.0 or width(tuned) < width(plain)
    ones = np.ones(30)
    same = estimate_mean(ones, ones, np.ones(9), "rows", 0.95, ones[:1])
    assert same == ((1, 1, 1), (1, 1, 1), 0.0)


def test_labels_that_are_all_equal_leave_the_rule_of_three():
    """50 zeros: 5 % of samples have none of a grade that 3 of 50 rows have."""
    found = calibrate_judge([0] * 50, [0, 1] * 25, [0, 1] * 50_000, classes=[0, 1])
    assert found.mean[:2] == (0.0, 0.0)
    assert -np.log(0.05) / 50 <= found.mean.high <= -1.1 * np.log(0.05) / 50


def test_the_mean_is_within_the_grades_however_rare_one_is():
    human = np.r_[1, np.zeros(49, int)]
    found = calibrate_judge(human, human, np.r_[np.ones(100, int), np.zeros(1900, int)])
    assert 0 <= found.power <= 1
    assert 0 <= found.mean.low < 101 / 2050 < found.mean.high < 0.2


@pytest.mark.parametrize(("judged", "n_draws"), [(GRADES, 60), (JUDGE, 16)])
def test_the_interval_holds_and_is_narrower(judged, n_draws):
    """Over draws of labels from the same rows; ``benchmarks/judge.py`` has 500 of each kind."""
    rng, hits, narrow = np.random.default_rng(0), 0, 0
    for draw in range(n_draws):
        order = rng.permutation(1000)
        own, others = order[:60], order[60:]
        found = calibrate_judge(
            HUMAN[own], judged[own], judged[others], classes=CLASSES, random_state=draw
        )
        hits += found.mean.low <= HUMAN.mean() <= found.mean.high
        narrow += width(found.mean) <= width(found.labelled_mean)
    assert hits >= stats.binom.ppf(1e-3, n_draws, 0.95)
    assert narrow >= 0.95 * n_draws


@pytest.mark.parametrize("judged", [GRADES, JUDGE], ids=["grades", "probabilities"])
def test_probabilities_of_the_rest_are_calibrated(judged):
    found = calibrate_judge(HUMAN[:300], judged[:300], judged[300:], classes=CLASSES)
    rows = found.probabilities
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    shares = np.bincount(HUMAN[300:] - 1, minlength=5) / 700
    np.testing.assert_allclose(rows.mean(axis=0), shares, atol=0.06)
    own = rows[np.arange(700), HUMAN[300:] - 1]
    assert -np.log(own).mean() < 1.35  # of five grades log 5 is 1.61
    assert abs(found.mean.value - HUMAN.mean()) < abs(found.judge_mean - HUMAN.mean()) / 3


def test_agreement_is_that_of_the_labelled_rows():
    found = calibrate_judge(HUMAN[:200], GRADES[:200], GRADES[200:])
    assert found.kappa_before == pytest.approx(cohen_kappa_score(HUMAN[:200], GRADES[:200]))
    assert found.kappa_after > found.kappa_before
    assert found.judge_mean == GRADES.mean()
    same = calibrate_judge([1] * 30, [1] * 30, [1] * 9, classes=[1, 2])
    assert np.isnan(same.kappa_before)


def test_grades_may_be_on_any_scale():
    """Words, other numbers, and grades that no labelled row has."""
    words = np.array(["bad", "poor", "fair", "good", "great"])[GRADES - 1]
    as_text = calibrate_judge(HUMAN[:100], words[:100], words[100:], classes=CLASSES)
    assert np.isnan(as_text.kappa_before)
    assert np.isnan(as_text.judge_mean)
    right = HUMAN >= 4
    judged, others = GRADES[:100] * 2.5, np.r_[GRADES[100:] * 2.5, 99.0]
    found = calibrate_judge(right[:100], judged, others, classes=[False, True])
    assert found.mean.low < right.mean() < found.mean.high
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0)
    valued = np.where(right, "yes", "no")
    same = calibrate_judge(valued[:100], judged, others, classes=["no", "yes"], values=[0, 1])
    assert same.mean == found.mean
    with refuses("judged", DataError):
        calibrate_judge(right[:100], judged, others)


def test_half_grades_and_scores_with_fractions():
    """Half grades are those doubled; scores of many values say as much as grades do."""
    half = calibrate_judge(HUMAN[:100] / 2, GRADES[:100], GRADES[100:], classes=CLASSES / 2)
    whole = calibrate_judge(HUMAN[:100], GRADES[:100], GRADES[100:])
    np.testing.assert_allclose(np.array(half.mean) * 2, whole.mean)
    assert half.classes.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]
    scores = np.round(JUDGE @ np.linspace(0, 1, 5), 3)
    found = calibrate_judge(HUMAN[:100] / 2, scores[:100], scores[100:], classes=CLASSES / 2)
    assert found.mean.low < HUMAN.mean() / 2 < found.mean.high
    assert width(found.mean) < 0.8 * width(found.labelled_mean)


def test_frames_and_lists_are_taken_and_results_are_read_only():
    plain = calibrate_judge(HUMAN[:100], JUDGE[:100], JUDGE[100:], classes=CLASSES)
    human, judged = HUMAN[:100].tolist(), pd.DataFrame(JUDGE[:100])
    same = calibrate_judge(human, judged, JUDGE[100:].tolist(), classes=CLASSES)
    assert same.mean == plain.mean
    assert "mean human grade" in repr(plain)
    assert plain.to_dict()["mean"]["value"] == plain.mean.value
    with pytest.raises(ValueError, match="read-only"):
        plain.probabilities[0, 0] = 1.0


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("target", {"target": "all"}),
        ("confidence_level", {"confidence_level": 2}),
        ("confidence_level", {"confidence_level": 1.0}),
        ("scores", {"human": HUMAN[:49]}),
        ("human", {"human": HUMAN[:9], "judged": GRADES[:9]}),
        ("values", {"human": HUMAN[:50].astype(str), "classes": CLASSES.astype(str)}),
        ("values", {"values": [1, 2]}),
        ("values", {"values": [1, 2, 3, 4, np.nan]}),
        ("judged", {"judged": np.r_[np.nan, GRADES[1:50]]}),
        ("judged", {"judged": [None, *GRADES[1:50]]}),
        ("unlabelled", {"judged": JUDGE[:50], "unlabelled": np.full((9, 4), 0.25)}),
        ("scores", {"judged": JUDGE[:50], "unlabelled": JUDGE[50:] * 2}),
        ("unlabelled", {"unlabelled": [1, 2, "no"]}),
        ("unlabelled", {"unlabelled": GRADES[50:].astype(str)}),
        ("y", {"human": [None, *HUMAN[1:50]]}),
        ("y", {"human": HUMAN[:50] / 2, "classes": [0.5, 1.0]}),
        ("y", {"classes": [1, 2, 3]}),
    ],
)
def test_what_is_refused(argument, options):
    given = {"human": HUMAN[:50], "judged": GRADES[:50], "unlabelled": GRADES[50:]}
    with refuses(argument, ValueError):
        calibrate_judge(**given | {"classes": CLASSES} | options)


def run(*words):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def test_the_command_is_the_function(tmp_path):
    table = pd.DataFrame({"judge": GRADES, "human": HUMAN})
    lines = {"orient": "records", "lines": True}
    table[:100].to_csv(tmp_path / "a.csv", index=False)
    table[100:].drop(columns="human").to_parquet(tmp_path / "b.parquet")
    table[:100].to_json(tmp_path / "a.jsonl", **lines)
    table[100:].to_json(tmp_path / "b.jsonl", **lines)
    found = calibrate_judge(HUMAN[:100], GRADES[:100], GRADES[100:])
    for files in (("a.csv", "b.parquet"), ("a.jsonl", "b.jsonl")):
        words = [tmp_path / name for name in files]
        words += ["--grade", "judge", "--label-column", "human", "-o", tmp_path / "o.csv"]
        code, out, _ = run("judge", *words, "--json")
        assert code == 0
        shown = json.loads(out)
        assert shown["mean"]["low"] == pytest.approx(found.mean.low, abs=1e-12)
        made = pd.read_csv(tmp_path / "o.csv")
        assert made.columns.tolist() == ["1", "2", "3", "4", "5", "mean"]
        np.testing.assert_allclose(made.to_numpy()[:, :5], found.probabilities)
    assert run("judge", *words)[1] == f"{found!r}\n"


def test_the_command_on_probabilities(tmp_path):
    for name, rows, human in (("a", JUDGE[:100], HUMAN[:100]), ("b", JUDGE[100:], None)):
        table = pd.DataFrame(rows, columns=[f"p{c}" for c in CLASSES])
        table = table[table.columns[::-1]] if human is None else table.assign(label=human)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    found = calibrate_judge(HUMAN[:100], JUDGE[:100], JUDGE[100:], classes=CLASSES)
    code, out, _ = run("judge", tmp_path / "a.csv", tmp_path / "b.csv", "--json")
    assert code == 0
    assert json.loads(out)["mean"]["value"] == pytest.approx(found.mean.value, abs=1e-9)


BY_GRADE = ["--grade", "judge", "--label-column", "human"]


@pytest.mark.parametrize(
    ("options", "code", "fault"),
    [
        (["--grade", "human", "--values", "a,b"], 2, "'--values'"),
        ([*BY_GRADE, "--columns", "1,2"], 2, "describe scores"),
        ([*BY_GRADE, "--classes", "good,bad"], 3, "human[0] is 2"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path, options, code, fault):
    path = tmp_path / "a.csv"
    path.write_text("judge,human\n1,2\n2,2\n")
    found, _, err = run("judge", path, path, *options)
    assert (found, fault in err) == (code, True), err


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
