"""Files as people have them: columns in any order, other columns, other formats, other words."""

import json
import re
import shlex

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from calibrant import TemperatureScaling, model_file
from calibrant._cli.main import cli, run
from calibrant._cli.options import OutputPath
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("always::calibrant.errors.CalibrantWarning")

CLASSES = np.array(["cat", "dog", "emu"])
P, Y = simulate(300, 3, 0)
NEW, NEW_Y = simulate(200, 3, 1)


def call(*arguments):
    return run([str(a) for a in arguments])


def write(path, p=P, y=Y, names=("prob_cat", "prob_dog", "prob_emu"), classes=CLASSES, **more):
    """Write a table with labels last."""
    table = pd.DataFrame(p, columns=list(names)).assign(**more)
    table = table if y is None else table.assign(label=classes[y])
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return path


def read(path):
    """Columns of a text table by name."""
    return pd.read_csv(path, dtype=str).to_dict("list")


def numbers(path, names=("prob_cat", "prob_dog", "prob_emu")):
    return np.array([read(path)[name] for name in names], dtype=float).T


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model of temperature scaling, fitted by the command to a table with a prefix."""
    home = tmp_path_factory.mktemp("tables")
    write(home / "val.csv")
    assert call("fit", home / "val.csv", "-m", "ts", "-o", home / "m.calibrant") == 0
    return home


@pytest.fixture(scope="module")
def expected():
    """What Python gives."""
    return TemperatureScaling().fit(P, CLASSES[Y]).predict_proba(NEW)


def test_permuted_columns_are_put_in_order_by_their_names(home, expected, capsys):
    loaded = model_file.load(home / "m.calibrant")
    assert loaded.classes_.tolist() == CLASSES.tolist()
    assert loaded.feature_names_in_.tolist() == ["prob_cat", "prob_dog", "prob_emu"]
    names = ["prob_emu", "prob_cat", "prob_dog"]
    mixed = write(home / "mixed.csv", NEW[:, [2, 0, 1]], NEW_Y, names)
    assert call("apply", home / "m.calibrant", mixed, "-o", home / "o.csv") == 0
    assert "calibrant: warning: columns are named after the classes" in capsys.readouterr().err
    np.testing.assert_allclose(numbers(home / "o.csv"), expected, rtol=1e-15)
    assert read(home / "o.csv")["label"] == CLASSES[NEW_Y].tolist()


def test_names_that_the_model_does_not_know_are_refused(home, capsys):
    for names in (["prob_cat", "prob_cow", "prob_emu"], ["a", "b", "c"]):
        other = write(home / "other.csv", NEW, None, names)
        assert call("apply", home / "m.calibrant", other, "-o", home / "none.csv") == 3
        assert re.search("other.csv.*columns are 'a'|named after a class", capsys.readouterr().err)
    np.savez(home / "classes.npz", probs=NEW, classes=["cow", "dog", "emu"])
    assert call("apply", home / "m.calibrant", home / "classes.npz", "-o", home / "none.csv") == 3
    assert not (home / "none.csv").exists()


def test_classes_of_an_archive_are_respected(tmp_path, expected):
    order = [2, 0, 1]
    np.savez(tmp_path / "val.npz", probs=P[:, order], labels=CLASSES[Y], classes=CLASSES[order])
    assert call("fit", tmp_path / "val.npz", "-m", "ts", "-o", tmp_path / "m.calibrant") == 0
    assert model_file.load(tmp_path / "m.calibrant").classes_.tolist() == CLASSES[order].tolist()
    np.savez(tmp_path / "new.npz", probs=NEW, labels=NEW_Y, classes=CLASSES)
    out = tmp_path / "out.npz"
    assert call("apply", tmp_path / "m.calibrant", tmp_path / "new.npz", "-o", out) == 0
    with np.load(out) as found:
        assert found["classes"].tolist() == CLASSES[order].tolist()
        assert found["labels"].tolist() == CLASSES[NEW_Y].tolist()
        np.testing.assert_allclose(found["probs"], expected[:, order], rtol=1e-12)


@pytest.mark.parametrize("name", ["new.csv", "new.csv.gz", "new.parquet", "new.npz"])
def test_labels_reach_an_archive_and_can_be_judged(home, tmp_path, capsys, name):
    if name == "new.npz":
        np.savez(tmp_path / name, probs=NEW, labels=CLASSES[NEW_Y])
    else:
        write(tmp_path / name, NEW, NEW_Y)
    out = tmp_path / "out.npz"
    assert call("apply", home / "m.calibrant", tmp_path / name, "-o", out) == 0
    with np.load(out) as found:
        assert found["labels"].tolist() == CLASSES[NEW_Y].tolist()
    capsys.readouterr()
    assert call("evaluate", out, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["accuracy"]["value"] == np.mean(NEW.argmax(1) == NEW_Y)


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_other_columns_are_carried_along(home, tmp_path, name):
    more = {"note": [f"a,{i}" for i in range(200)], "id": np.arange(200)}
    new = write(tmp_path / "new.csv", NEW, NEW_Y, **more)
    out = tmp_path / name
    assert call("apply", home / "m.calibrant", new, "-o", out, "--ignore", "id") == 0
    columns = pq.read_table(out).to_pydict() if name == "out.parquet" else read(out)
    assert list(columns) == ["prob_cat", "prob_dog", "prob_emu", "note", "id", "label"]
    assert columns["note"] == more["note"]
    assert columns["id"] == [str(i) for i in range(200)]
    assert columns["label"] == CLASSES[NEW_Y].tolist()


def test_other_numbers_are_refused_by_name(home, tmp_path, capsys):
    val = write(tmp_path / "val.csv", fold=np.arange(300) % 5)
    for arguments in (["evaluate", val], ["fit", val, "-o", tmp_path / "m"], ["compare", val, val]):
        split = ["--split", "0.5"] if arguments[0] == "compare" else []
        assert call(*arguments, *split) == 3
        assert "val.csv: columns 'fold' match no label" in capsys.readouterr().err
    assert call("apply", home / "m.calibrant", val, "-o", tmp_path / "o.csv") == 3
    assert "columns 'fold' are not classes of the model" in capsys.readouterr().err
    assert call("evaluate", val, "--ignore", "fold") == 0
    assert call("evaluate", val, "--columns", "prob_*") == 0


def test_lines_and_options_in_messages(home, tmp_path, capsys):
    p = P.copy()
    p[4] = [0.5, 0.9, 0.1]
    val = write(tmp_path / "val.csv", p)
    for arguments in (
        ["evaluate", val],
        ["fit", val, "-o", tmp_path / "m"],
        ["apply", home / "m.calibrant", val, "-o", tmp_path / "o.csv"],
        ["compare", val, home / "val.csv"],
        ["compare", home / "val.csv", val],
    ):
        assert call(*arguments) == 3
        assert re.search(
            r"val\.csv, line 6 sums to 1\.5, not 1; --normalize", capsys.readouterr().err
        )
    assert call("fit", val, "-m", "ts", "-o", tmp_path / "m", "--normalize") == 0
    assert model_file.load(tmp_path / "m").normalize == "rows"
    assert call("evaluate", val, "--normalize") == 0
    assert call("apply", home / "m.calibrant", val, "-o", tmp_path / "o.csv", "--normalize") == 0
    assert call("compare", val, home / "val.csv", "--normalize", "--methods", "ts") == 0
    capsys.readouterr()
    percent = write(tmp_path / "percent.csv", 100 * P)
    assert call("evaluate", percent) == 3
    assert re.search("percent.*--normalize", capsys.readouterr().err)
    assert call("evaluate", percent, "--normalize") == 0
    capsys.readouterr()
    logits = write(tmp_path / "logits.csv", np.log(P))
    assert call("evaluate", logits) == 3
    assert "--scores logits" in capsys.readouterr().err


def accuracy(capsys, *arguments):
    capsys.readouterr()
    assert call("compare", *arguments, "--methods", "ts", "--json") == 0
    return json.loads(capsys.readouterr().out)["methods"][0]["accuracy"]["value"]


def test_compare_never_judges_on_the_rows_it_fitted_to(home, tmp_path, capsys):
    for arguments in ([home / "val.csv"], [home / "val.csv", home / "val.csv"]):
        assert call("compare", *arguments, "--methods", "ts") == 3
        assert "draw rows by --split 0.5" in capsys.readouterr().err
    page = tmp_path / "page.html"
    options = ["--methods", "ts", "--split", "0.5", "--report", page]
    assert call("compare", home / "val.csv", *options) == 0
    text = page.read_text()
    assert "150 of 300 rows, drawn at random (seed 0)" in text
    assert "the other 150 rows" in text
    np.savez(tmp_path / "one.npz", val_probs=P, val_labels=Y)
    assert call("compare", tmp_path / "one.npz") == 3
    assert "no test_probs" in capsys.readouterr().err


def test_compare_takes_labels_of_npy_files(tmp_path, capsys):
    for name, p, y in (("val", P, Y), ("test", NEW, NEW_Y)):
        np.save(tmp_path / f"{name}.npy", p)
        np.save(tmp_path / f"{name}_labels.npy", y)
    labels = ["--labels", tmp_path / "val_labels.npy"]
    both = [*labels, "--test-labels", tmp_path / "test_labels.npy"]
    value = accuracy(capsys, tmp_path / "val.npy", tmp_path / "test.npy", *both)
    assert value == np.mean(NEW.argmax(1) == NEW_Y)
    assert call("compare", tmp_path / "val.npy", "--split", "0.4", "--methods", "ts", *labels) == 0
    assert call("compare", tmp_path / "val.npy", tmp_path / "test.npy", *labels) == 3
    assert "--test-labels" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["my test.csv", "new.csv.gz", "new.parquet"])
def test_the_report_prints_commands_that_work_on_these_files(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    ids = {"id": np.arange(300), "name": [f"n{i}" for i in range(300)]}
    write(tmp_path / "val.csv", 3 * P, **ids)
    write(tmp_path / name, 2 * NEW, NEW_Y, **{k: v[:200] for k, v in ids.items()})
    options = ["--ignore", "id", "--normalize", "--label-column", "label", "--methods", "ts"]
    assert call("compare", "val.csv", name, *options, "--report", "page.html") == 0
    lines = re.findall(
        r"^calibrant .*$|(?<=>)calibrant (?:fit|apply) .*$",
        (tmp_path / "page.html").read_text(),
        re.MULTILINE,
    )
    lines = [re.sub("<.*", "", line).replace("&#39;", "'").replace("&#34;", '"') for line in lines]
    assert len(lines) == 2
    for line in lines:
        assert run(shlex.split(line)[1:]) == 0, line
    suffix = name.partition(".")[2]
    assert (tmp_path / f"calibrated.{suffix}").exists()


@pytest.mark.parametrize(
    "command",
    [
        "fit v.npz -o v.npz",
        "fit v.npz -o link.npz",
        "fit s.npy --labels y.npy -o y.npy",
        "apply m.calibrant v.npz -o v.npz",
        "apply m.calibrant v.npz -o m.calibrant",
        "compare v.npz t.npz --report v.npz",
        "compare v.npz t.npz --report t.npz",
        "study . -o .",
        "apply m.calibrant v.npz -o missing/../v.npz",
        "decide m.calibrant v.npz -o missing/../c.json --costs c.json",
        "decide m.calibrant v.npz -o missing/../v.npz --costs c.json",
        "judge v.npz t.npz -o t.npz",
        "monitor m.calibrant v.npz --state state.json --page v.npz",
        "monitor m.calibrant v.npz --state state.json --page m.calibrant",
        "monitor m.calibrant v.npz --state missing/../v.npz",
        "export m.calibrant --behind net.onnx -o net.onnx",
        "fit days -o days/1.csv",
        "fit days -o days/deep/2.csv",
    ],
)
def test_no_input_is_written_over(home, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    np.savez("v.npz", probs=P, labels=Y)
    np.savez("t.npz", probs=NEW, labels=NEW_Y)
    np.save("s.npy", P)
    np.save("y.npy", Y)
    (tmp_path / "link.npz").symlink_to("v.npz")
    (tmp_path / "m.calibrant").write_bytes((home / "m.calibrant").read_bytes())
    for name in ("c.json", "net.onnx"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "days" / "deep").mkdir(parents=True)
    for name in ("days/1.csv", "days/deep/2.csv"):
        write(tmp_path / name)
    before = contents(tmp_path)
    assert run(command.split()) == 3
    assert "is also an input" in capsys.readouterr().err
    assert contents(tmp_path) == before


def contents(home):
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "monitor m.calibrant v.csv --state s.json --page s.json",
        "monitor m.calibrant v.csv --state s.json --page missing/../s.json",
    ],
)
def test_no_output_is_written_over_by_another(home, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days").mkdir()
    write(tmp_path / "v.csv")
    write(tmp_path / "days" / "1.csv")
    (tmp_path / "m.calibrant").write_bytes((home / "m.calibrant").read_bytes())
    before = contents(tmp_path)
    assert run(command.split()) == 3
    assert re.search(r"is also written by --\w+; write to another file", capsys.readouterr().err)
    assert contents(tmp_path) == before


def test_a_model_beside_its_tables_can_be_written_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days").mkdir()
    write(tmp_path / "days" / "1.csv")
    for _ in range(2):
        assert run(["fit", "days", "-m", "ts", "-o", "days/model.calibrant"]) == 0


def test_every_path_that_a_command_writes_to_is_known_as_such():
    names = {
        param.name
        for command in cli.commands.values()
        for param in command.params
        if isinstance(param.type, OutputPath)
    }
    assert names == {"output", "report", "page", "state"}
    for command in cli.commands.values():
        for param in command.params:
            says_so = re.search("[Ww]rite|Keep|Table of", getattr(param, "help", None) or "")
            is_path = isinstance(param.type, click.Path)
            assert isinstance(param.type, OutputPath) == bool(is_path and says_so) or (
                param.name == "state"
            )


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_the_index_of_pandas_stays_one(home, tmp_path, suffix):
    frame = pd.DataFrame(NEW, columns=["prob_cat", "prob_dog", "prob_emu"]).sample(50)
    path, out = tmp_path / f"new.{suffix}", tmp_path / f"out.{suffix}"
    schema = pa.Schema.from_pandas(frame, preserve_index=True)
    table = pa.Table.from_pandas(frame, schema)
    assert "__index_level_0__" in table.column_names
    pq.write_table(table, path) if suffix == "parquet" else feather.write_feather(table, path)
    assert call("apply", home / "m.calibrant", path, "-o", out) == 0
    written = (pd.read_parquet if suffix == "parquet" else pd.read_feather)(out)
    assert written.columns.tolist() == frame.columns.tolist()
    assert written.index.equals(frame.index)


def test_compare_reads_the_names_of_both_files(home, tmp_path, capsys):
    truth = np.mean(NEW.argmax(1) == NEW_Y)
    mixed = write(
        tmp_path / "mixed.csv", NEW[:, [2, 1, 0]], NEW_Y, ["prob_emu", "prob_dog", "prob_cat"]
    )
    assert accuracy(capsys, home / "val.csv", mixed) == truth
    rolled = {"probs": NEW[:, [1, 2, 0]], "classes": ["dog", "emu", "cat"]}
    for labels in (CLASSES[NEW_Y], np.array([2, 0, 1])[NEW_Y]):  # names, or places of names
        np.savez(tmp_path / "test.npz", labels=labels, **rolled)
        assert accuracy(capsys, home / "val.csv", tmp_path / "test.npz") == truth
    np.savez(tmp_path / "val.npz", probs=P, labels=Y, classes=CLASSES)
    assert accuracy(capsys, tmp_path / "val.npz", tmp_path / "test.npz") == truth
    val = write(tmp_path / "val.csv", names=["x", "y", "z"], classes=np.arange(3))
    test = write(tmp_path / "test.csv", NEW, NEW_Y, ["z", "y", "x"], np.arange(3))
    assert call("compare", val, test) == 3
    assert "same order" in capsys.readouterr().err
    np.savez(tmp_path / "test.npz", logits=np.log(NEW), labels=NEW_Y, classes=CLASSES)
    assert call("compare", tmp_path / "val.npz", tmp_path / "test.npz") == 3
    assert re.search("val.npz holds probabilities, but .*test.npz logits", capsys.readouterr().err)
