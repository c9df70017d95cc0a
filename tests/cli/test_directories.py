"""Commands on directories of tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant import model_file
from calibrant._atomic_file import only_one
from calibrant._cli import main
from calibrant.datasets import simulated_scores

NAMES = ["ant", "bee", "cow"]
SCORES, Y = simulated_scores(1500)
FRAME = pd.DataFrame(SCORES, columns=NAMES).assign(label=np.array(NAMES)[Y])


@pytest.fixture
def days(tmp_path):
    """Five files of 300 rows."""
    (tmp_path / "days").mkdir()
    for i in range(5):
        FRAME[300 * i : 300 * (i + 1)].to_parquet(tmp_path / "days" / f"{i}.parquet")
    return tmp_path / "days"


@pytest.fixture
def run(capsys):
    """A command, which returns what it wrote."""

    def call(*words, code=0):
        found = main.run([str(word) for word in words])
        out, err = capsys.readouterr()
        assert found == code, err
        return out + err

    return call


def predictions(path):
    """What a model file predicts."""
    return model_file.load(path).predict_proba(FRAME[NAMES])


def test_fit_a_directory(days, tmp_path, run):
    out = tmp_path / "model.calibrant"
    text = run("fit", days, "-m", "na-fir", "-o", out)
    assert "na-fir fitted to 1,500 rows of" in text
    near = calibrant.NormalizationAwareIsotonic().fit(FRAME[NAMES], FRAME["label"])
    assert (predictions(out) == near.predict_proba(FRAME[NAMES])).all()


def test_a_table_in_chunks(tmp_path, run):
    FRAME.to_parquet(tmp_path / "all.parquet")
    run("fit", tmp_path / "all.parquet", "--chunks", "-m", "fir", "-o", tmp_path / "a")
    run("fit", tmp_path / "all.parquet", "-m", "fir", "-o", tmp_path / "b")
    assert (predictions(tmp_path / "a") == predictions(tmp_path / "b")).all()


def test_one_night_after_the_other(days, tmp_path, run):
    kept, out = tmp_path / "kept", tmp_path / "model"
    late = tmp_path / "late.parquet"
    (days / "4.parquet").rename(late)
    options = "-m", "fir", "--statistics", kept, "--json"
    assert json.loads(run("fit", days, "-o", out, *options))["rows"] == 1200
    late.rename(days / "4.parquet")
    (days / "0.parquet").unlink()  # what was counted may go
    assert json.loads(run("fit", days, "-o", out, *options))["rows"] == 1500
    near = calibrant.FlattenedIsotonic().fit(FRAME[NAMES], FRAME["label"])
    assert (predictions(out) == near.predict_proba(FRAME[NAMES])).all()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--part", "val"], "--part is for npz files"),
        (["--labels", "x.npy"], "--labels is for npy files"),
        (["--scores", "logits", "--normalize"], "--normalize is for probabilities"),
        (["-m", "ms", "--statistics", "kept"], "ms has none"),
        (["--decay", "2"], "0<=x<=1"),
    ],
)
def test_options_that_do_not_go_with_directories(days, tmp_path, words, told, run):
    text = run("fit", days, "-o", tmp_path / "model", *words, code=2)
    assert told in text
    assert not (tmp_path / "model").exists()
    words = "--statistics", tmp_path / "kept", "-m", "fir"
    text = run("fit", days / "0.parquet", "-o", tmp_path / "model", *words, code=2)
    assert "--statistics needs a directory" in text


def test_a_bad_row_leaves_nothing_half_written(days, tmp_path, run):
    bad = FRAME[:300].assign(bee=FRAME.bee.mask(FRAME.index == 37))
    bad.to_parquet(days / "7.parquet")
    kept, out = tmp_path / "kept", tmp_path / "model"
    text = run("fit", days, "-m", "fir", "-o", out, "--statistics", kept, code=3)
    assert "7.parquet, row 37 (from 0), column 'bee'" in text
    assert not out.exists()
    (days / "7.parquet").unlink()
    text = run("fit", days, "-m", "fir", "-o", out, "--statistics", kept)
    assert "'7.parquet' is missing: the interrupted run" in text
    run("apply", out, days, "-o", tmp_path / "done")
    bad.to_parquet(days / "7.parquet")
    run("apply", out, days, "-o", tmp_path / "broken", code=3)
    assert not (tmp_path / "broken").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_apply_to_a_directory(days, tmp_path, run):
    out = tmp_path / "model"
    run("fit", days, "-m", "ts", "-o", out)
    text = run("apply", out, days, "-o", tmp_path / "done")
    assert "1,500 rows" in text
    found = pd.concat(pd.read_parquet(tmp_path / "done" / f"{i}.parquet") for i in range(5))
    assert (found[NAMES].to_numpy() == predictions(out)).all()
    assert found["label"].tolist() == FRAME["label"].tolist()
    assert "File exists" in run("apply", out, days, "-o", tmp_path / "done", code=3)


def test_two_runs_at_once_do_not_mix(days, tmp_path, run):
    kept, out = tmp_path / "kept", tmp_path / "model"
    words = "fit", days, "-m", "fir", "-o", out, "--statistics", kept
    with only_one(kept):
        text = run(*words, code=3)
    assert f"{kept}: another run is using it (process {os.getpid()} on " in text
    assert "name another file" in text
    assert not out.exists()
    assert not kept.exists()
    run(*words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["days", "kept", "model"]


def test_the_lock_of_a_killed_run_locks_nobody_out(days, tmp_path, run):
    kept, out = tmp_path / "kept", tmp_path / "model"
    code = f"import os; from calibrant._atomic_file import only_one; o = only_one({str(kept)!r});"
    code += "o.__enter__(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / "kept.lock").exists()
    run("fit", days, "-m", "fir", "-o", out, "--statistics", kept)
    assert not (tmp_path / "kept.lock").exists()


def test_evaluate_a_directory(days, tmp_path, run):
    FRAME.to_parquet(tmp_path / "all.parquet")
    far = json.loads(run("evaluate", days, "--json"))
    near = json.loads(run("evaluate", tmp_path / "all.parquet", "--json"))
    assert far.keys() == near.keys()
    for name in ("accuracy", "negative_log_likelihood", "brier_score", "thresholded_ece"):
        assert far[name]["value"] == pytest.approx(near[name]["value"], rel=1e-12)
        assert far[name]["low"] < far[name]["value"] < far[name]["high"]
    assert far["n_rows"] == 1500
    in_chunks = json.loads(run("evaluate", tmp_path / "all.parquet", "--chunks", "--json"))
    assert in_chunks["accuracy"]["value"] == far["accuracy"]["value"]
    assert "p = 0.0" in run("evaluate", days)
