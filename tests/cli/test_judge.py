"""``calibrant judge``: one file with blank labels, groups, pairs and plans."""

import numpy as np
import pandas as pd
import pytest

from calibrant.judge import calibrate_judge, compare_judged, judge_pairs, plan_labels


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Answers of two models, some graded, as a table, as lines, and as two files."""
    rng, home = np.random.default_rng(0), tmp_path_factory.mktemp("judge")
    n = 400
    grade = rng.integers(1, 6, n)
    frame = pd.DataFrame({"model": np.repeat(["a", "b"], n // 2)})
    frame["question"] = np.tile(np.arange(n // 2), 2)
    frame["text"] = [f"answer {i}, in words" for i in range(n)]
    frame["judge"] = np.clip(grade + rng.integers(-1, 2, n), 1, 5)
    is_graded = rng.random(n) < 0.3
    frame["human"] = pd.Series(grade, dtype="Int64").where(is_graded)
    frame.to_csv(home / "all.csv", index=False)
    frame.to_parquet(home / "all.parquet")
    frame.to_json(home / "all.jsonl", orient="records", lines=True)
    frame[is_graded].to_csv(home / "graded.csv", index=False)
    frame[~is_graded].to_csv(home / "others.csv", index=False)
    return home


def columns(home):
    frame = pd.read_csv(home / "all.csv")
    return frame["human"].to_numpy(), frame["judge"].to_numpy(), frame


USUAL = ("--grade", "judge", "--label-column", "human", "--classes", "1,2,3,4,5")


@pytest.mark.parametrize("name", ["all.csv", "all.parquet", "all.jsonl"])
def test_one_file_with_blank_labels_is_as_good_as_two(home, tmp_path, call, name):
    two = call("judge", home / "graded.csv", home / "others.csv", *USUAL)
    one = call("judge", home / name, *USUAL, "-o", tmp_path / "out.csv")
    assert one.out == two.out
    human, judged, _ = columns(home)
    exact = calibrate_judge(human, judged, classes=[1, 2, 3, 4, 5])
    assert one.out.strip() == repr(exact)
    assert len(pd.read_csv(tmp_path / "out.csv")) == exact.n_unlabelled
    by_question = call("judge", home / name, *USUAL, "--clusters", "question", "--json").json
    assert by_question["n_clusters"] == len({*columns(home)[2]["question"][~np.isnan(human)]})


def test_scores_may_have_blank_labels(tmp_path, call):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), 300).round(4)
    p[:, 0] = (1.0 - p[:, 1:].sum(axis=1)).round(4)
    names = np.array(["bad", "good", "poor"])
    label = names[[rng.choice(3, p=row) for row in p / p.sum(axis=1, keepdims=True)]]
    label = np.where(np.arange(300) % 4 == 0, label, None)
    frame = pd.DataFrame(p, columns=names).assign(label=label)
    frame.to_csv(tmp_path / "all.csv", index=False)
    records = pd.DataFrame({"probs": frame[names].to_dict("records"), "label": label})
    records.to_json(tmp_path / "all.jsonl", orient="records", lines=True)
    words = ["--values", "0,1,0.5", "--json"]
    found = [call("judge", tmp_path / f"all.{own}", *words).json for own in ("csv", "jsonl")]
    assert found[0]["n_labelled"] == 75
    assert found[0]["mean"] == found[1]["mean"]
    exact = calibrate_judge(label, p, classes=names, values=[0, 1, 0.5])
    assert found[0]["mean"]["value"] == pytest.approx(exact.mean.value, abs=1e-9)
    frame.assign(label=None).to_csv(tmp_path / "none.csv", index=False)
    assert "no row has a label" in call("judge", tmp_path / "none.csv", code=3).err


def test_groups_are_compared_on_the_same_questions(home, tmp_path, call):
    words = (*USUAL, "--groups", "model", "--items", "question")
    found = call("judge", home / "all.csv", *words, "-o", tmp_path / "means.csv")
    human, judged, frame = columns(home)
    items, classes = frame["question"], [1, 2, 3, 4, 5]
    exact = compare_judged(human, judged, frame["model"], items=items, classes=classes)
    assert found.out.strip() == repr(exact)
    means = pd.read_csv(tmp_path / "means.csv")
    assert means["mean"].tolist() == pytest.approx([mean.value for mean in exact.means])
    shown = call("judge", home / "all.csv", *words, "--json").json
    assert shown["pairs"] == [list(exact.pairs[0])]
    assert shown["differences"][0] == pytest.approx(exact.differences[0]._asdict())
    frame.assign(model="a").to_csv(tmp_path / "one.csv", index=False)
    one = call("judge", tmp_path / "one.csv", *words).out
    assert "difference" not in one  # of a single group there are none
    assert len(one.splitlines()) == 2


def test_pairs_are_calibrated_and_ranked(tmp_path, call):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 300)
    second = (first + rng.integers(1, 3, 300)) % 3
    truth = np.where(rng.random(300) < 1 / (1 + np.exp(second - first)), "A", "B").astype(object)
    truth[::9] = "tie"
    names = np.array(list("xyz"))
    frame = pd.DataFrame({"left": names[first], "right": names[second]})
    frame["judge"] = np.where(rng.random(300) < 0.7, truth, "A")
    frame["human"] = np.where(rng.random(300) < 0.4, truth, None)
    frame.to_csv(tmp_path / "pairs.csv", index=False)
    words = ("--grade", "judge", "--label-column", "human", "--pairs", "left,right")
    found = call("judge", tmp_path / "pairs.csv", *words, "-o", tmp_path / "out.csv")
    exact = judge_pairs(frame["left"], frame["right"], frame["human"], frame["judge"])
    assert found.out.strip() == repr(exact)
    written = pd.read_csv(tmp_path / "out.csv")["win_probability"]
    np.testing.assert_allclose(written, exact.win_probability)


def test_probabilities_of_pairs_may_stand_in_any_order(tmp_path, call):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 200)
    p = rng.dirichlet([2, 2, 1], 200)  # A, B, tie
    p = np.column_stack([p[:, :2].round(4), 1 - p[:, :2].round(4).sum(axis=1)])
    human = np.array([rng.choice(["A", "B", "tie"], p=row) for row in p], dtype=object)
    human[60:] = None
    frame = pd.DataFrame({"tie": p[:, 2], "B": p[:, 1], "A": p[:, 0], "human": human})
    frame["left"], frame["right"] = np.array(["x", "y"])[first], np.array(["y", "x"])[first]
    frame.to_csv(tmp_path / "pairs.csv", index=False)
    words = ("--label-column", "human", "--columns", "A,B,tie", "--pairs", "left,right", "--json")
    found = call("judge", tmp_path / "pairs.csv", *words).json
    exact = judge_pairs(frame["left"], frame["right"], human, p)
    assert found["models"] == list(exact.models)
    assert found["strengths"][0] == pytest.approx(exact.strengths[0]._asdict(), abs=1e-6)
    again = call("judge", tmp_path / "pairs.csv", *words[:3], "tie,B,A", *words[4:]).json
    assert again["strengths"][0] == pytest.approx(found["strengths"][0], abs=1e-9)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_a_plan_writes_the_rows_to_grade(home, tmp_path, call, suffix):
    out = tmp_path / f"rows.{suffix}"
    found = call("judge", home / f"all.{suffix}", *USUAL, "--plan", "0.1", "-o", out)
    human, judged, frame = columns(home)
    exact = plan_labels(human, judged, 0.1, classes=[1, 2, 3, 4, 5])
    assert found.out.strip() == repr(exact)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}
    rows = read[suffix](out) if suffix in read else pd.read_json(out, lines=True)
    assert rows["text"].tolist() == frame["text"].iloc[exact.rows].tolist()
    assert rows["human"].isna().all()
    other = tmp_path / ("rows.jsonl" if suffix == "csv" else "rows.txt")
    refused = call("judge", home / f"all.{suffix}", *USUAL, "--plan", "0.1", "-o", other, code=3)
    assert "can be written to" in refused.err


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("graded.csv", "others.csv", "--groups", "model"), "--groups is for one file"),
        (("all.csv", "--groups", "model", "--plan", "1"), "--groups and --plan answer different"),
        (("all.csv", "--groups", "model", "--clusters", "text"), "--items names what is alike"),
        (("all.csv", "--items", "question"), "--items is for --groups and --pairs"),
        (("all.csv", "--pairs", "model"), "--pairs names two columns"),
    ],
)
def test_options_that_do_not_go_together_are_refused(home, call, words, match):
    paths = [home / word if word.endswith(".csv") else word for word in words]
    assert match in call("judge", *paths, *USUAL, code=2).err


def test_a_grade_that_is_wrong_is_found_on_its_line(home, tmp_path, call):
    lines = (home / "all.csv").read_text().splitlines()
    row = next(i for i, line in enumerate(lines[1:], 1) if not line.endswith(","))
    lines[row] = lines[row].rpartition(",")[0] + ",9"
    (tmp_path / "bad.csv").write_text("\n".join(lines))
    told = call("judge", tmp_path / "bad.csv", *USUAL, code=3).err
    assert "9" in told
    (tmp_path / "none.csv").write_text("judge,human\n1,\n2,\n")
    assert "no row has a grade" in call("judge", tmp_path / "none.csv", *USUAL, code=3).err
