"""Files as people have them: columns in any order, other columns, other formats, other words."""

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
from calibrant._cli.main import cli
from calibrant._cli.options import OutputPath
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("always::calibrant.errors.CalibrantWarning")

CLASSES = np.array(["cat", "dog", "emu"])
P, Y = simulate(300, 3, 0)
NEW, NEW_Y = simulate(200, 3, 1)


def write(path, p=P, y=Y, names=("prob_cat", "prob_dog", "prob_emu"), classes=CLASSES, **more):
    """Write a table with labels last."""
    table = pd.DataFrame(p, columns=list(names)).assign(**more)
    table = table if y is None else table.assign(label=classes[y])
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return path


def read(path):
    """Columns of a text table by name."""
    return pd.read_csv(path, dtype=str).to_dict("list")


@pytest.fixture(scope="module")
def home(tmp_path_factory, quiet):
    """A model of temperature scaling, fitted by the command to a table with a prefix."""
    home = tmp_path_factory.mktemp("tables")
    write(home / "val.csv")
    quiet("fit", home / "val.csv", "-m", "ts", "-o", home / "m.calibrant")
    return home


@pytest.fixture(scope="module")
def expected():
    """What Python gives."""
    return TemperatureScaling().fit(P, CLASSES[Y]).predict_proba(NEW)


def test_permuted_columns_are_put_in_order_by_their_names(home, expected, call):
    loaded = model_file.load(home / "m.calibrant")
    assert loaded.classes_.tolist() == CLASSES.tolist()
    assert loaded.feature_names_in_.tolist() == ["prob_cat", "prob_dog", "prob_emu"]
    names = ["prob_emu", "prob_cat", "prob_dog"]
    mixed = write(home / "mixed.csv", NEW[:, [2, 0, 1]], NEW_Y, names)
    told = call("apply", home / "m.calibrant", mixed, "-o", home / "o.csv").err
    assert "calibrant: warning: columns are named after the classes" in told
    found = pd.read_csv(home / "o.csv")
    np.testing.assert_allclose(found[[f"prob_{c}" for c in CLASSES]], expected, rtol=1e-15)
    assert found["label"].tolist() == CLASSES[NEW_Y].tolist()


def test_names_that_the_model_does_not_know_are_refused(home, call):
    other = write(home / "other.csv", NEW, None, ["prob_cat", "prob_cow", "prob_emu"])
    np.savez(home / "classes.npz", probs=NEW, classes=["cow", "dog", "emu"])
    for path in (other, home / "classes.npz"):
        told = call("apply", home / "m.calibrant", path, "-o", home / "none.csv", code=3).err
        assert "named after a class" in told
    assert not (home / "none.csv").exists()


def test_classes_of_an_archive_are_respected(tmp_path, expected, call):
    order = [2, 0, 1]
    np.savez(tmp_path / "val.npz", probs=P[:, order], labels=CLASSES[Y], classes=CLASSES[order])
    call("fit", tmp_path / "val.npz", "-m", "ts", "-o", tmp_path / "m.calibrant")
    assert model_file.load(tmp_path / "m.calibrant").classes_.tolist() == CLASSES[order].tolist()
    np.savez(tmp_path / "new.npz", probs=NEW, labels=NEW_Y, classes=CLASSES)
    out = tmp_path / "out.npz"
    call("apply", tmp_path / "m.calibrant", tmp_path / "new.npz", "-o", out)
    with np.load(out) as found:
        assert found["classes"].tolist() == CLASSES[order].tolist()
        assert found["labels"].tolist() == CLASSES[NEW_Y].tolist()
        np.testing.assert_allclose(found["probs"], expected[:, order], rtol=1e-12)


@pytest.mark.parametrize("name", ["new.csv", "new.csv.gz", "new.parquet", "new.npz"])
def test_labels_reach_an_archive_and_can_be_judged(home, tmp_path, call, name):
    if name == "new.npz":
        np.savez(tmp_path / name, probs=NEW, labels=CLASSES[NEW_Y])
    else:
        write(tmp_path / name, NEW, NEW_Y)
    out = tmp_path / "out.npz"
    call("apply", home / "m.calibrant", tmp_path / name, "-o", out)
    with np.load(out) as found:
        assert found["labels"].tolist() == CLASSES[NEW_Y].tolist()
    found = call("evaluate", out, "--json").json["accuracy"]["value"]
    assert found == np.mean(NEW.argmax(1) == NEW_Y)


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_other_columns_are_carried_along(home, tmp_path, call, name):
    more = {"note": [f"a,{i}" for i in range(200)], "id": np.arange(200)}
    new = write(tmp_path / "new.csv", NEW, NEW_Y, **more)
    out = tmp_path / name
    call("apply", home / "m.calibrant", new, "-o", out, "--ignore", "id")
    columns = pq.read_table(out).to_pydict() if name == "out.parquet" else read(out)
    assert list(columns) == ["prob_cat", "prob_dog", "prob_emu", "note", "id", "label"]
    assert columns["note"] == more["note"]
    assert columns["id"] == [str(i) for i in range(200)]
    assert columns["label"] == CLASSES[NEW_Y].tolist()


def test_columns_and_rows_that_are_mended_by_options(home, tmp_path, call):
    """The other columns are ignored or others chosen, and rows divided by their sums."""
    val = write(tmp_path / "val.csv", 100 * P, fold=np.arange(300) % 5)
    for choice in (["--ignore", "fold"], ["--columns", "prob_*"]):
        words = [*choice, "--normalize"]
        call("evaluate", val, *words)
        call("fit", val, "-m", "ts", "-o", tmp_path / "m", *words)
        assert model_file.load(tmp_path / "m").normalize == "rows"
        call("apply", home / "m.calibrant", val, "-o", tmp_path / "o.csv", *words)
        call("compare", val, home / "val.csv", "--normalize", "--columns", "prob_*", "--methods=ts")


def accuracy(call, *arguments):
    return call("compare", *arguments, "--methods", "ts", "--json").json["methods"][0]["accuracy"][
        "value"
    ]


def test_compare_draws_rows_of_one_file_or_of_one_part(home, tmp_path, call):
    page, words = tmp_path / "page.html", ["--methods", "ts", "--split", "0.5"]
    call("compare", home / "val.csv", *words, "--report", page)
    text = page.read_text()
    assert "150 of 300 rows, drawn at random (seed 0)" in text
    assert "the other 150 rows" in text
    np.savez(tmp_path / "both.npz", val_probs=P, val_labels=Y, test_probs=NEW, test_labels=NEW_Y)
    call("compare", tmp_path / "both.npz", *words, "--part", "val", "--report", page)
    assert "calibrant fit" in page.read_text()
    assert "--part val" in page.read_text()


def test_compare_takes_labels_of_npy_files(tmp_path, call):
    for name, p, y in (("val", P, Y), ("test", NEW, NEW_Y)):
        np.save(tmp_path / f"{name}.npy", p)
        np.save(tmp_path / f"{name}_labels.npy", y)
    labels = ["--labels", tmp_path / "val_labels.npy"]
    both = [*labels, "--test-labels", tmp_path / "test_labels.npy"]
    value = accuracy(call, tmp_path / "val.npy", tmp_path / "test.npy", *both)
    assert value == np.mean(NEW.argmax(1) == NEW_Y)
    call("compare", tmp_path / "val.npy", "--split", "0.4", "--methods", "ts", *labels)
    told = call("compare", tmp_path / "val.npy", tmp_path / "test.npy", *labels, code=3).err
    assert "--test-labels" in told


@pytest.mark.parametrize("name", ["my test.csv", "new.csv.gz", "new.parquet"])
def test_the_report_prints_commands_that_work_on_these_files(tmp_path, monkeypatch, call, name):
    monkeypatch.chdir(tmp_path)
    ids = {"id": np.arange(300), "name": [f"n{i}" for i in range(300)]}
    write(tmp_path / "val.csv", 3 * P, **ids)
    write(tmp_path / name, 2 * NEW, NEW_Y, **{k: v[:200] for k, v in ids.items()})
    options = ["--ignore", "id", "--normalize", "--label-column", "label", "--methods", "ts"]
    call("compare", "val.csv", name, *options, "--report", "page.html")
    lines = re.findall(
        r"^calibrant .*$|(?<=>)calibrant (?:fit|apply) .*$",
        (tmp_path / "page.html").read_text(),
        re.MULTILINE,
    )
    lines = [re.sub("<.*", "", line).replace("&#39;", "'").replace("&#34;", '"') for line in lines]
    assert len(lines) == 2
    for line in lines:
        call(*shlex.split(line)[1:])
    assert (tmp_path / f"calibrated.{name.partition('.')[2]}").exists()


INPUTS = """
    fit v.npz -o v.npz
    fit v.npz -o link.npz
    fit s.npy --labels y.npy -o y.npy
    apply m.calibrant v.npz -o v.npz
    apply m.calibrant v.npz -o m.calibrant
    compare v.npz t.npz --report v.npz
    compare v.npz t.npz --report t.npz
    study . -o .
    apply m.calibrant v.npz -o missing/../v.npz
    decide m.calibrant v.npz -o missing/../c.json --costs c.json
    decide m.calibrant v.npz -o missing/../v.npz --costs c.json
    judge v.npz t.npz -o t.npz
    monitor m.calibrant v.npz --state state.json --page v.npz
    monitor m.calibrant v.npz --state state.json --page m.calibrant
    monitor m.calibrant v.npz --state missing/../v.npz
    export m.calibrant --behind net.onnx -o net.onnx
    fit days -o days/1.csv
    fit days -o days/deep/2.csv
"""
OUTPUTS = """
    monitor m.calibrant v.npz --state s.json --page s.json
    monitor m.calibrant v.npz --state s.json --page missing/../s.json
"""


@pytest.mark.parametrize(
    ("command", "also"),
    [
        (command.strip(), also)
        for commands, also in ((INPUTS, "an input"), (OUTPUTS, r"written by --\w+"))
        for command in commands.strip().splitlines()
    ],
)
def test_no_input_and_no_other_output_is_written_over(
    home, tmp_path, monkeypatch, call, command, also
):
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
    assert re.search(f"is also {also}; write to another", call(*command.split(), code=3).err)
    assert contents(tmp_path) == before


def contents(home):
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_a_model_beside_its_tables_can_be_written_again(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days").mkdir()
    write(tmp_path / "days" / "1.csv")
    for _ in range(2):
        call("fit", "days", "-m", "ts", "-o", "days/model.calibrant")


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
def test_the_index_of_pandas_stays_one(home, tmp_path, call, suffix):
    frame = pd.DataFrame(NEW, columns=["prob_cat", "prob_dog", "prob_emu"]).sample(50)
    path, out = tmp_path / f"new.{suffix}", tmp_path / f"out.{suffix}"
    schema = pa.Schema.from_pandas(frame, preserve_index=True)
    table = pa.Table.from_pandas(frame, schema)
    assert "__index_level_0__" in table.column_names
    pq.write_table(table, path) if suffix == "parquet" else feather.write_feather(table, path)
    call("apply", home / "m.calibrant", path, "-o", out)
    written = (pd.read_parquet if suffix == "parquet" else pd.read_feather)(out)
    assert written.columns.tolist() == frame.columns.tolist()
    assert written.index.equals(frame.index)


def test_compare_reads_the_names_of_both_files(home, tmp_path, call):
    truth, names = np.mean(NEW.argmax(1) == NEW_Y), ["prob_emu", "prob_dog", "prob_cat"]
    mixed = write(tmp_path / "mixed.csv", NEW[:, [2, 1, 0]], NEW_Y, names)
    assert accuracy(call, home / "val.csv", mixed) == truth
    rolled = {"probs": NEW[:, [1, 2, 0]], "classes": ["dog", "emu", "cat"]}
    for labels in (CLASSES[NEW_Y], np.array([2, 0, 1])[NEW_Y]):  # names, or places of names
        np.savez(tmp_path / "test.npz", labels=labels, **rolled)
        assert accuracy(call, home / "val.csv", tmp_path / "test.npz") == truth
    np.savez(tmp_path / "val.npz", probs=P, labels=Y, classes=CLASSES)
    assert accuracy(call, tmp_path / "val.npz", tmp_path / "test.npz") == truth
    val = write(tmp_path / "val.csv", names=["x", "y", "z"], classes=np.arange(3))
    test = write(tmp_path / "test.csv", NEW, NEW_Y, ["z", "y", "x"], np.arange(3))
    assert "same order" in call("compare", val, test, code=3).err
