"""Costs, groups, sets and priors by the command, beside the same calls in Python."""

import json

import numpy as np
import pandas as pd
import pytest

from calibrant import Chain, PriorShift, TemperatureScaling, model_file
from calibrant.decisions import CostSensitive, expected_cost
from calibrant.metrics import evaluate
from calibrant.report import compare

COSTS = "true,refuse,pay\nno,0,1\nyes,20,0\n"


@pytest.fixture(scope="module")
def credit(tmp_path_factory):
    """Two tables of 1,200 rows with 8 % positives, in two regions, and their arrays."""
    rng = np.random.default_rng(0)
    z = rng.normal(-3, 1.5, 2400)
    y = np.where(rng.random(2400) < 1 / (1 + np.exp(-z)), "yes", "no")
    p = 1 / (1 + np.exp(-1.7 * z))
    region = np.where(rng.random(2400) < 0.5, "north", "south")
    frame = pd.DataFrame({"no": 1 - p, "yes": p, "label": y, "region": region})
    home = tmp_path_factory.mktemp("credit")
    frame[:1200].to_csv(home / "val.csv", index=False)
    frame[1200:].to_csv(home / "test.csv", index=False)
    (home / "costs.csv").write_text(COSTS)
    return home, frame[:1200], frame[1200:]


def scores(frame):
    return frame[["no", "yes"]]


def test_evaluate_tells_costs_and_groups(credit, call):
    home, _, test = credit
    words = ["--costs", home / "costs.csv", "--groups", "region"]
    found = call("evaluate", home / "test.csv", *words, "--json").json
    y, p = test["label"], scores(test)
    own = expected_cost(y, p, [[0, 1], [20, 0]])
    assert found["cost"] == json.loads(json.dumps(own.to_dict()))
    by_group = evaluate(y, p, groups=test["region"], n_resamples=200).by_group
    assert found["by_group"]["worst"] == by_group.worst
    text = call("evaluate", home / "test.csv", *words).out
    assert "Mean cost per decision" in text
    assert "Worst group" in text


def test_compare_tells_costs_and_groups(credit, call, tmp_path):
    home, val, test = credit
    page = tmp_path / "report.html"
    words = ["compare", home / "val.csv", home / "test.csv", "--methods", "ts,grouped"]
    words += ["--costs", home / "costs.csv", "--groups", "region"]
    found = call(*words, "--report", page, "--json").json
    own = compare(
        val["label"],
        scores(val),
        test["label"],
        scores(test),
        ["ts", "grouped"],
        costs=[[0, 1], [20, 0]],
        groups_val=val["region"],
        groups_test=test["region"],
    )
    assert found["decisions"] == json.loads(json.dumps(own.decisions.to_dict()))
    assert found["by_group"].keys() == own.by_group.keys()
    text = page.read_text()
    assert '<section id="worth"' in text
    assert own.decisions.describe()[0] in text
    shown = call(*words).out
    assert "in 1,000 decisions" in shown.replace("\n", " ")
    assert "Worst group" in shown
    # Whichever method was best, the column of groups is no score.
    assert "--groups region" in text or "--ignore region" in text


def test_decide_wants_the_groups_of_the_fit_and_no_others(credit, call, tmp_path):
    home, _, _ = credit
    grouped, pooled = tmp_path / "grouped.calibrant", tmp_path / "pooled.calibrant"
    fit = ["fit", home / "val.csv", "-m", "ts", "-o"]
    call(*fit, grouped, "--groups", "region")
    call(*fit, pooled, "--ignore", "region")
    words = [home / "test.csv", "-o", tmp_path / "out.csv", "--coverage", "0.9"]
    words += ["--calibration", home / "val.csv"]
    for model, option in ((grouped, "--ignore"), (pooled, "--groups")):
        assert "--groups" in call(*["decide", model, *words, option, "region"], code=2).err
    call("decide", grouped, *words, "--groups", "region")


def test_priors_are_given(credit, call, tmp_path):
    home, val, test = credit
    model = tmp_path / "m.calibrant"
    call("fit", home / "val.csv", "-m", "ts", "-o", model, "--priors", "no=0.5,yes=0.5")
    chain = Chain([TemperatureScaling(), PriorShift(to_priors=[0.5, 0.5])])
    chain.fit(scores(val), val["label"])
    p = scores(test)
    np.testing.assert_allclose(model_file.load(model).predict_proba(p), chain.predict_proba(p))


def test_decisions_are_written(credit, call, tmp_path):
    home, _, test = credit
    model, out = tmp_path / "m.calibrant", tmp_path / "decisions.csv"
    call("fit", home / "val.csv", "-m", "auto", "-o", model, "--ignore", "region")
    words = ["decide", model, home / "test.csv", "-o", out, "--ignore", "region"]
    by = ["--costs", home / "costs.csv", "--coverage", "0.95", "--calibration", home / "val.csv"]
    found = call(*words, *by, "--json").json
    p = model_file.load(model).predict_proba(scores(test))
    costs = pd.DataFrame([[0, 1], [20, 0]], ["no", "yes"], ["refuse", "pay"])
    policy = CostSensitive(costs, classes=["no", "yes"])
    written = pd.read_csv(out)
    assert written["decision"].tolist() == policy.predict(p).tolist()
    assert found["expected_cost"] == pytest.approx(np.minimum(20 * p[:, 1], p[:, 0]).mean())
    assert set(written["set"].fillna("")) <= {"", "no", "yes", "no;yes"}
    # The columns of the file, with calibrated scores, so that each decision has its row.
    assert [*written] == [*test, "decision", "cost", "set"]
    for name in set(test) - set(scores(test)):
        assert written[name].tolist() == test[name].tolist()
    np.testing.assert_allclose(written[[*scores(test)]], p, atol=1e-12)


@pytest.fixture(scope="module")
def risks(tmp_path_factory):
    """Tables of a rare class whose name sorts first, and its costs by name and as a table."""
    rng = np.random.default_rng(1)
    z = rng.normal(-2, 1.5, 1200)
    y = np.where(rng.random(1200) < 1 / (1 + np.exp(-z)), "bad", "good")
    p = 1 / (1 + np.exp(-1.7 * z))
    home = tmp_path_factory.mktemp("risks")
    frame = pd.DataFrame({"bad": p, "good": 1 - p, "label": y})
    frame[:600].to_csv(home / "val.csv", index=False)
    frame[600:].to_csv(home / "test.csv", index=False)
    (home / "costs.json").write_text('{"false_positive": 1, "false_negative": 20}')
    (home / "costs.csv").write_text("true,good,bad\ngood,0,1\nbad,20,0\n")
    return home


def test_costs_by_name_want_to_know_the_positive_class(risks, call, tmp_path):
    model = tmp_path / "m.calibrant"
    call("fit", risks / "val.csv", "-m", "ts", "-o", model)
    commands = {
        "cost": ["evaluate", risks / "test.csv"],
        "decisions": ["compare", risks / "val.csv", risks / "test.csv", "--methods", "ts"],
        "expected_cost": ["decide", model, risks / "test.csv", "-o", tmp_path / "out.csv"],
    }
    cost_of = {
        "cost": lambda found: found["realised"]["value"],
        "decisions": lambda found: found["value"]["per_row"]["value"],
        "expected_cost": float,
    }
    for field, words in commands.items():
        words = [*words, "--json", "--costs"]
        told = call(*words, risks / "costs.json", code=3).err
        assert "'bad', 'good'" in told
        assert "--positive" in told
        by_name = call(*words, risks / "costs.json", "--positive", "bad").json
        by_table = call(*words, risks / "costs.csv").json
        values = [cost_of[field](found[field]) for found in (by_name, by_table)]
        assert values[0] == pytest.approx(values[1], rel=1e-9)
        assert values[0] != 0.0
    decided = pd.read_csv(tmp_path / "out.csv")["decision"]
    call(*words, risks / "costs.json", "--positive", "good")
    assert (pd.read_csv(tmp_path / "out.csv")["decision"] != decided).any()
    assert "'fair'" in call(*words, risks / "costs.json", "--positive", "fair", code=3).err


@pytest.mark.filterwarnings("always::calibrant.errors.SmallSampleWarning")
def test_options_that_a_row_lacks_are_not_decided(call, tmp_path):
    """Also by a model that knows of no absent ones: the best of the others is."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet([1, 1, 3], 300)
    y = [rng.choice([*"ABC"], p=row) for row in rows]
    val = [
        {"scores": dict(zip("ABC", row, strict=True)), "label": label}
        for row, label in zip(rows.tolist(), y, strict=True)
    ]
    new = [val[0] | {"scores": {"A": 0.3, "B": 0.7}, "label": "B"}, *val[1:40]]
    for name, records in (("val", val), ("new", new)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    model, out = tmp_path / "m.calibrant", tmp_path / "out.csv"
    call("fit", tmp_path / "val.jsonl", "-m", "ts", "-o", model)
    words = ["--coverage", "0.999", "--calibration", tmp_path / "val.jsonl"]
    words = ["decide", model, tmp_path / "new.jsonl", "-o", out, *words]
    assert "so every set has all classes" in call(*words, code=0).err
    assert pd.read_csv(out)["set"][0] == "A;B"


def test_a_column_that_decide_writes_is_not_there_before(risks, call, tmp_path):
    model, new = tmp_path / "m.calibrant", tmp_path / "new.csv"
    call("fit", risks / "val.csv", "-m", "ts", "-o", model)
    pd.read_csv(risks / "test.csv").assign(cost="?").to_csv(new, index=False)
    words = ["decide", model, new, "-o", tmp_path / "o.csv", "--costs", risks / "costs.csv"]
    assert "has a column 'cost', which decide writes; rename it" in call(*words, code=2).err


def test_rows_that_are_drawn_keep_their_groups(credit, call):
    home, _, _ = credit
    words = ["compare", home / "val.csv", "--split", "0.5", "--methods", "ts"]
    found = call(*words, "--groups", "region", "--json").json
    rows = found["by_group"]["uncalibrated"]["rows"]
    assert sum(own["n_rows"] for own in rows) == 600
