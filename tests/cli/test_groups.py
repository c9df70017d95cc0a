"""Groups of files: they are text, as they stand, in every format and every command."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrant import GroupedCalibrator, TemperatureScaling, model_file
from calibrant._cli.measuring import apply_lines
from calibrant._files.source import Request
from whole_files import ONE_OF_EACH, write_file

N_ROWS = 600
SCORES = ["no", "yes"]


def make(names):
    """Return a frame in which the groups of these names differ."""
    rng = np.random.default_rng(3)
    place = np.arange(N_ROWS) % len(names)
    z = rng.normal(0.0, 2.0, N_ROWS)
    y = np.where(rng.random(N_ROWS) < 1 / (1 + np.exp(-z * (0.3 + place))), "yes", "no")
    p = 1 / (1 + np.exp(-z))
    group = np.array(names, dtype=object)[place]
    return pd.DataFrame({"no": 1 - p, "yes": p, "label": y, "group": group})


def sets_by(path):
    return ["--coverage", "0.8", "--calibration", path]


def fit(call, path, frame, *more):
    frame.to_csv(path / "val.csv", index=False)
    model = path / "m.calibrant"
    call("fit", path / "val.csv", "-m", "ts", "--groups", "group", "-o", model, *more)
    return model


def by_python(frame, names, new=None, new_names=None):
    """Return the same fit in Python, of text, and what it gives for new rows."""
    own = GroupedCalibrator(TemperatureScaling())
    own.fit(frame[SCORES], frame["label"], groups=np.array(names, dtype=str))
    rows, told = (frame, names) if new is None else (new, new_names)
    return own.predict_proba(rows[SCORES], groups=np.array(told, dtype=str))


@pytest.mark.parametrize(
    ("names", "new"),
    [
        *((names, names) for names in (["true", "false"], ["12345678901234567890", "2"])),
        *((names, names) for names in (["1e3", "7"], ["3.5", "4"], ["01", "1"])),
        (["101", "102", "other"], ["101", "102"]),
        (["101", "102"], ["101", "other"]),
    ],
)
def test_apply_finds_the_groups_of_the_fit_whatever_they_look_like(call, tmp_path, names, new):
    """And whatever other groups are there."""
    frame, fresh = make(names), make(new)
    model, path = fit(call, tmp_path, frame), tmp_path / "new.csv"
    assert model_file.load(model).groups_.tolist() == sorted(names)
    fresh.to_csv(path, index=False)
    words = [model, path, "--groups", "group", "-o"]
    call("apply", *words, tmp_path / "out.csv")
    wanted = by_python(frame, frame["group"], fresh, fresh["group"])
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")[SCORES], wanted, rtol=1e-12)
    call("decide", *words, tmp_path / "sets.csv", *sets_by(tmp_path / "val.csv"))
    found = call("evaluate", path, "--groups", "group", "--json").json
    assert {own["group"] for own in found["by_group"]["rows"]} == {*new}


@pytest.mark.parametrize("suffix", [own for own in ONE_OF_EACH if own != ".npy"])
def test_apply_takes_groups_of_every_format(call, tmp_path, suffix):
    frame = make([1, 2])
    frame["group"] = frame["group"].astype(int)
    model, path, out = fit(call, tmp_path, frame), tmp_path / f"new{suffix}", tmp_path / "out.npz"
    write_file(path, frame, SCORES)
    call("apply", model, path, "--groups", "group", "-o", out)
    np.testing.assert_allclose(np.load(out)["probs"], by_python(frame, frame["group"]), rtol=1e-12)
    words = ["decide", model, path, "--groups", "group", *sets_by(tmp_path / "val.csv")]
    call(*words, "-o", f"{out}.csv")


def test_chunks_of_an_archive_have_their_own_groups(call, tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant._files.source.CHUNK_BYTES", 1600)  # 100 rows
    frame = make(["a", "b", "c"]).sort_values("group")
    model, path = fit(call, tmp_path, frame), tmp_path / "new.npz"
    own = {"probs": np.ascontiguousarray(frame[SCORES]), "classes": np.array(SCORES)}
    np.savez(path, group=frame["group"].to_numpy().astype(str), **own)
    call("apply", model, path, "--groups", "group", "-o", tmp_path / "out.npz")
    found = np.load(tmp_path / "out.npz")["probs"]
    np.testing.assert_allclose(found, by_python(frame, frame["group"]), rtol=1e-12)
    np.savez(path, group=np.array(["a", "b"]), **own)
    words = ["apply", model, path, "--groups", "group", "-o", tmp_path / "o.npz"]
    assert "600 rows, but 'group' has 2" in call(*words, code=3).err


def test_a_field_of_groups_in_records_is_no_class(call, tmp_path):
    frame = make([1, 2])
    frame["group"] = frame["group"].astype(int)
    path, model = tmp_path / "val.jsonl", tmp_path / "m.calibrant"
    write_file(path, frame, SCORES, "scores")
    words = [path, "--scores", "logits", "--groups", "group"]
    call("fit", *words, "-m", "ts", "-o", model)
    assert model_file.load(model).classes_.tolist() == SCORES
    frame.to_csv(tmp_path / "val.csv", index=False)
    found = call("evaluate", *words, "--json").json
    table = [tmp_path / "val.csv", *words[1:]]
    wanted = call("evaluate", *table, "--json").json
    assert found | {"source": ""} == wanted | {"source": ""}


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("ts", "--ignore group,age --method ts"),
        ("grouped", "--ignore age --groups group --method auto"),
        ("features", "--ignore group --features age --method auto"),
    ],
)
def test_commands_of_a_report_ignore_columns_that_the_method_does_not_read(method, words):
    request = Request(groups="group", features=("age",))
    fit, apply = apply_lines(method, Path("val.csv"), None, request)
    assert fit == f"calibrant fit val.csv {words} --output model.calibrant"
    assert ("--groups group" in apply) == (method == "grouped")


@pytest.mark.parametrize("names", [[7, 11], [7.0, 11.0], [True, False]])
def test_groups_of_a_model_made_in_python_may_be_numbers(call, tmp_path, names):
    frame = make(names)
    own = GroupedCalibrator(TemperatureScaling())
    groups = np.array(frame["group"].tolist())
    own.fit(frame[SCORES], frame["label"], groups=groups)
    model_file.save(own, model := tmp_path / "m.calibrant")
    fresh = frame.assign(group=frame["group"].astype(str))
    fresh.loc[:4, "group"] = "elsewhere"
    fresh.to_csv(tmp_path / "new.csv", index=False)
    words = [model, tmp_path / "new.csv", "--groups", "group", "-o"]
    call("apply", *words, tmp_path / "out.csv")
    wanted = own.predict_proba(frame[SCORES], groups=groups)
    wanted[:5] = own.for_group(None).predict_proba(frame[SCORES][:5])
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")[SCORES], wanted, rtol=1e-12)
    call("decide", *words, tmp_path / "sets.csv", *sets_by(tmp_path / "new.csv"))


@pytest.mark.parametrize("command", ["fit", "apply", "decide", "evaluate"])
def test_a_row_without_a_group_is_named(call, tmp_path, command):
    frame = make(["a", "b"])
    model = fit(call, tmp_path, frame)
    frame.loc[1, "group"] = None
    frame.to_csv(path := tmp_path / "new.csv", index=False)
    more = {"fit": ["-o", tmp_path / "n.calibrant"], "apply": ["-o", tmp_path / "o.csv"]}
    more["decide"] = ["-o", tmp_path / "o.csv", *sets_by(path)]
    words = [model, path] if command in ("apply", "decide") else [path]
    words = [command, *words, "--groups", "group", *more.get(command, [])]
    assert f"{path}, line 3: the group is missing" in call(*words, code=3).err


def test_a_fit_by_group_is_monitored_by_group(call, tmp_path):
    model = fit(call, tmp_path, make(["a", "b"]))
    words = ["monitor", model, tmp_path / "val.csv", "--ignore", "group", "--state"]
    assert "--groups" in call(*words, tmp_path / "state.json", code=2).err
