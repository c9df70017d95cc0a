"""What users do wrong: every command ends with its code and a line that names the remedy."""

import json

import numpy as np
import pandas as pd
import pytest

from calibrant._cli.main import run
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
NAMES = np.array(["ant", "bee", "cow"])


def records(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small files, good and bad, and models of them."""
    home = tmp_path_factory.mktemp("mistakes")
    p, y = simulate(60, 3)
    p = np.column_stack([p[:, :2].round(4), 1 - p[:, :2].round(4).sum(axis=1)])
    table = pd.DataFrame(p, columns=NAMES).assign(label=NAMES[y])
    two = pd.DataFrame({"bad": p[:, 0], "good": 1 - p[:, 0], "label": np.where(y, "good", "bad")})
    one = two[["bad", "label"]].set_axis(["risk", "label"], axis=1)
    one_hot = table.assign(fold=np.arange(60) % 5)
    text = table.to_csv(index=False)
    lines = text.splitlines()
    for name, frame in {
        "val.csv": table,
        "new.csv": table[NAMES],
        "two.csv": two,
        "one.csv": one,
        "good.csv": two[["good", "label"]],
        "fold.csv": one_hot.set_axis(["p_ant", "p_bee", "p_cow", "label", "fold"], axis=1),
        "unnamed.csv": table.set_axis(["z", "x", "w", "label"], axis=1),
        "percent.csv": table.assign(**{name: 100 * table[name] for name in NAMES}),
        "logits.csv": table.assign(**{name: np.log(table[name] + 1e-6) for name in NAMES}),
        "hundred.csv": one.assign(risk=100 * one["risk"]),
    }.items():
        frame.to_csv(home / name, index=False)
    for name, line, cells in (
        ("cell", 5, "0.1,much,0.3,ant"),
        ("nan", 6, "0.5,,0.5,bee"),
        ("ragged", 7, "0.5,0.5,cow"),
        ("sum", 8, "0.5,0.5,0.5,cow"),
        ("dog", 4, "0.5,0.25,0.25,dog"),
        ("blank", 4, "0.5,0.25,0.25,"),
    ):
        (home / f"{name}.csv").write_text("\n".join([*lines[:line], cells, *lines[line + 1 :]]))
    np.savez(home / "val.npz", probs=p, labels=y)
    np.savez(home / "both.npz", val_probs=p, val_labels=y, test_probs=p, test_labels=y)
    np.savez(home / "half.npz", val_probs=p, val_labels=y)
    np.savez(home / "logits.npz", logits=np.log(p + 1e-9), labels=y)
    np.save(home / "val.npy", p)
    (home / "days").mkdir()
    table.to_parquet(home / "days" / "1.parquet")
    table.drop(columns="bee").to_csv(home / "days" / "2.csv", index=False)
    (home / "none").mkdir()
    (home / "bad.jsonl").write_text(records({"probs": {"A": "x", "B": 0.5}, "label": "A"}))
    (home / "log.jsonl").write_text(records({"probs": {"A": 0.5, "B": 0.5}, "label": "A"}))
    (home / "narrow.jsonl").write_text(
        records(*({"probs": dict(zip("ABC"[:k], [0.4, 0.6, 1e-3], strict=False)), "label": "A"}
                  for k in (2, 3, 3)))
    )  # fmt: skip
    for name, cells in (("costs", "0,3\nbad,5,0"), ("words", "0,x\nbad,5,0"), ("other", "0,1")):
        (home / f"{name}.csv").write_text(f"true,lend,refuse\ngood,{cells}\n")
    (home / "costs.json").write_text('{"false_positive": 1, "false_negative": 5}')
    (home / "words.json").write_text('{"false_positive": 1.5, "false_negative": "x"}')
    (home / "list.json").write_text("[1]")
    for words in ("fit val.csv -m ts -o m", "fit two.csv -m ts -o two", "inspect m"):
        path = [
            home / word if "." in word or word in ("m", "two") else word for word in words.split()
        ]
        assert run([*map(str, path)]) == 0
    words = ["fit", home / "one.csv", "--columns", "risk", "--positive", "bad", "-m", "ts", "-o"]
    assert run([*map(str, words), str(home / "one")]) == 0
    (home / "broken").write_bytes((home / "m").read_bytes()[:-1])
    return home


MISTAKES = {
    "evaluate": (2, "Missing argument 'FILE'"),
    "evaluate nothing.csv": (3, "nothing.csv does not exist"),
    "evaluate cell.csv": (3, "cell.csv, line 6, column 'bee': invalid value 'much'"),
    "evaluate nan.csv": (3, "nan.csv, line 7, column 'bee' is nan"),
    "evaluate ragged.csv": (3, "ragged.csv, line 8: Expected 4 columns, got 3"),
    "evaluate sum.csv": (3, "sum.csv, line 9 sums to 1.5, not 1; leave out columns"),
    "evaluate dog.csv": (3, "line 5: the label 'dog' is not among the classes 'ant'"),
    "evaluate blank.csv": (3, "line 5: the label is missing; fill it"),
    "evaluate percent.csv": (3, "these look like percent: divide them by 100"),
    "evaluate logits.csv": (3, "for logits, use --scores logits"),
    "evaluate logits.npz --scores probabilities": (3, "has no probs, but 'logits'"),
    "evaluate val.csv --scores logits --normalize": (2, "--normalize is for probabilities"),
    "evaluate fold.csv": (3, "columns 'fold' match no label"),
    "evaluate new.csv": (3, "has no labels"),
    "evaluate unnamed.csv": (3, "'z', 'x', 'w' are neither named after the classes"),
    "evaluate unnamed.csv --classes ant,bee": (3, "--classes names 2 classes"),
    "evaluate one.csv": (3, "use --positive 'good' or --positive 'bad'"),
    "evaluate one.csv --positive best": (3, "--positive best is not one of two classes"),
    "evaluate good.csv --positive bad": (3, "the only column is named 'good'"),
    "evaluate hundred.csv --positive bad": (3, "divide percent by 100"),
    "evaluate val.csv --scores positive": (3, "needs one number per row; choose one column"),
    "evaluate val.csv --columns prob_*": (3, "no column 'prob_*' (--columns); it has 'ant'"),
    "evaluate val.csv --ignore x": (3, "no column 'x' (--ignore)"),
    "evaluate val.csv --groups x": (3, "no column 'x' (--groups)"),
    "evaluate val.csv --part val": (3, "has no part 'val'; leave out --part"),
    "evaluate val.csv --unknown": (2, "No such option"),
    "evaluate val.csv --resamples -1": (2, "Invalid value for '--resamples'"),
    "evaluate both.npz --part train": (2, "is not one of 'val', 'test'"),
    "evaluate half.npz": (3, "no test_probs or test_logits, but 'val_probs'"),
    "evaluate val.npy": (3, "npy files --labels FILE"),
    "evaluate none": (3, "is a directory without tables or logs"),
    "evaluate days": (3, "2.csv has no column 'bee'"),
    "evaluate days --part val": (3, "has no part 'val'; leave out --part"),
    "evaluate days --labels x.npy": (3, "is no npy file and no log; leave out --labels"),
    "evaluate days --groups county": (3, "has no column 'county' (--groups)"),
    "evaluate bad.jsonl": (3, "line 1: the score of option 'A' is \"x\""),
    "evaluate log.jsonl --scores positive": (3, "use --scores probabilities"),
    "evaluate log.jsonl --groups x": (3, "the field 'x' is missing"),
    "evaluate two.csv --costs words.csv": (3, "words.csv: 'x' is not a number"),
    "evaluate two.csv --costs words.json": (3, "words.json: 'x' is not a number"),
    "evaluate two.csv --costs list.json": (3, "is neither CSV"),
    "evaluate two.csv --costs other.csv": (3, "other.csv: costs has the rows 'good'"),
    "evaluate two.csv --costs costs.json": (
        3,
        "'bad', 'good' do not tell which of them is positive",
    ),
    "compare val.csv val.npz --groups x": (3, "no column 'x' (--groups)"),
    "fit val.csv -m nothing -o o": (3, "'nothing'"),
    "fit val.csv -o no/such/place": (3, "No such file"),
    "fit val.csv": (2, "Missing option '-o'"),
    "fit two.csv --priors good:1 -o o": (2, "write no=0.98,yes=0.02"),
    "fit val.csv --groups a --features b -o o": (2, "name the group a feature"),
    "fit val.npz --positive 1 -o o": (3, "--positive 1 is not one of two classes"),
    "fit narrow.jsonl -m vs -o o": (3, "VectorScaling does not support absent options"),
    "apply nothing val.csv -o o.csv": (3, "nothing: No such file"),
    "apply val.npz val.csv -o o.csv": (3, "val.npz: the file is not a calibrant model file"),
    "apply m val.csv -o o.xyz": (3, "'.xyz' cannot be written; use .npz"),
    "apply m val.csv -o o.eval": (3, "'.eval' cannot be written"),
    "apply m two.csv -o o.csv": (3, "2 columns of scores, but the model has 3"),
    "apply m fold.csv -o o.csv": (3, "columns 'fold' are not classes of the model"),
    "apply m unnamed.csv -o o.csv": (3, "columns are 'z', 'x', 'w', but the model expects"),
    "apply m nan.csv -o o.csv": (3, "nan.csv, line 7, column 'bee' is nan"),
    "apply m sum.csv -o o.csv": (3, "sum.csv, line 9 sums to 1.5, not 1; leave out columns"),
    "apply m val.csv --groups x -o o.csv": (2, "m was fitted without groups"),
    "apply one good.csv -o o.csv": (3, "read as the column of 'bad'"),
    "apply one val.csv -o o.csv": (3, "needs one number per row"),
    "apply m val.npz --part val -o o.csv": (3, "has no val_probs, but 'probs'"),
    "compare val.csv": (3, "draw rows by --split 0.5"),
    "compare val.csv val.csv": (3, "draw rows by --split 0.5"),
    "compare half.npz": (3, "no test_probs"),
    "compare both.npz --split 0.5": (3, "choose val or test with --part"),
    "compare val.csv two.csv": (3, "2 columns of scores, but the model has 3"),
    "compare val.npz logits.npz": (3, "val.npz holds probabilities, but"),
    "compare val.csv sum.csv": (3, "sum.csv, line 9 sums to 1.5"),
    "compare val.csv new.csv --methods magic": (3, "has no labels"),
    "compare val.csv fold.csv --split 0.5": (3, "--split is for one file; leave out"),
    "decide two two.csv -o o.csv": (2, "say what to decide by: --costs"),
    "decide two two.csv -o o.csv --coverage 0.9": (2, "--calibration FILE go together"),
    "decide m val.csv -o o.csv --coverage 0.9 --calibration new.csv": (3, "has no labels"),
    "decide two two.csv -o o.txt --costs costs.csv": (2, "write it to .csv, .tsv"),
    "judge log.jsonl log.jsonl --grade x": (3, "the field 'label'|the field 'x'"),
    "judge val.csv new.csv --grade x --scores logits": (2, "describe scores"),
    "export m -o model.bin": (2, "model.bin must end with .onnx or .pt2"),
    "export m -o m.pt2 --behind n.onnx": (2, "--behind is for ONNX"),
    "export m -o m.onnx --behind n.onnx --dtype float64": (2, "leave it out"),
    "export broken -o m.onnx": (3, "broken: the file is"),
    "inspect val.csv": (3, "val.csv: the file is not a calibrant model file"),
    "monitor m val.csv": (2, "Missing option '--state'"),
    "monitor m val.csv --state s --time-column x": (3, "no column 'x' (--time-column)"),
    "monitor m val.npz --state s --time-column x": (3, "no array 'x'"),
    "monitor m val.csv --state s --groups label": (2, "leave out --groups"),
    "monitor m val.csv --state list.json": (3, "is not the state of a monitor"),
    "monitor m dog.csv --state s": (3, "line 5: the label 'dog' is not among the classes"),
    "study val.csv -o o": (3, "is not a directory of prediction files"),
    "study none": (2, "Missing option"),
    "study nowhere -o o": (3, "nowhere is not a directory"),
    "study none -o o --methods magic": (3, "'magic'"),
    "study none -o o --jobs 0": (2, "Invalid value"),
    "nonsense": (2, "No such command 'nonsense'"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_with_its_code_and_changes_no_file(folder, monkeypatch, call, words):
    monkeypatch.chdir(folder)
    (code, message), before = MISTAKES[words], sorted(folder.rglob("*[!k]"))
    told = call(*words.split(), "--json", code=code)
    assert any(phrase in " ".join(told.err.split()) for phrase in message.split("|")), told.err
    assert "Traceback" not in told.err
    assert code == 2 or told.err.splitlines()[-1] == f"calibrant: {told.json['error']['message']}"
    assert sorted(folder.rglob("*[!k]")) == before  # but for a lock
