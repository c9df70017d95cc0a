"""Columns beside the scores: ``--features`` of files."""

import json

import numpy as np
import pandas as pd
import pytest

from calibrant import FeatureCalibrator, model_file
from calibrant._cli.main import run

ONE = ["--columns", "confidence", "--label-column", "right", "--positive", "1"]
ONE += ["--scores", "positive"]


def make(n_rows=1500, seed=0):
    """Return answers whose chance of being right depends on the tokens and on the subject."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "confidence": rng.choice([0.8, 0.9, 0.95, 1.0], n_rows),
            "tokens": rng.integers(20, 900, n_rows).astype(float),
            "subject": rng.choice(["law", "physics", "7"], n_rows),
        }
    )
    chance = (
        0.8 * table["confidence"] - 0.0005 * table["tokens"] - 0.3 * (table["subject"] == "law")
    )
    table["right"] = (rng.random(n_rows) < chance).astype(int)
    table.loc[::40, "tokens"] = np.nan
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("features")
    make().to_csv(path / "val.csv", index=False)
    make(seed=1).to_csv(path / "new.csv", index=False)
    make(seed=1).to_parquet(path / "new.parquet", index=False)
    words = ["fit", path / "val.csv", "-o", path / "m.calibrant", *ONE]
    assert run([*map(str, words), "--features", "tokens,subject"]) == 0
    return path


def test_the_model_is_that_of_python(folder):
    loaded, table = model_file.load(folder / "m.calibrant"), make()
    fitted = FeatureCalibrator(scores="positive", classes=[0, 1])
    fitted.fit(table["confidence"], table["right"], features=table[["tokens", "subject"]])
    new = make(seed=1)
    rows = new["confidence"], new[["tokens", "subject"]]
    assert loaded.share_ > 0.5
    np.testing.assert_array_equal(loaded.predict_proba(*rows), fitted.predict_proba(*rows))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_apply_finds_the_columns_of_the_model(folder, suffix, capsys):
    out = folder / f"out.{suffix}"
    assert (
        run(["apply", str(folder / "m.calibrant"), str(folder / f"new.{suffix}"), "-o", str(out)])
        == 0
    )
    found = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    new = make(seed=1)
    expected = model_file.load(folder / "m.calibrant").predict_proba(
        new["confidence"], new[["tokens", "subject"]]
    )
    np.testing.assert_allclose(found["confidence"], expected[:, 1], rtol=1e-12)
    capsys.readouterr()


def test_a_file_without_such_a_column_is_refused(folder, capsys):
    make(seed=1).drop(columns="subject").to_csv(folder / "short.csv", index=False)
    words = "apply", folder / "m.calibrant", folder / "short.csv", "-o", folder / "none.csv"
    assert run([*map(str, words)]) == 3
    assert (
        "has no column 'subject' (the model was fitted with --features)" in capsys.readouterr().err
    )
    assert not (folder / "none.csv").exists()


def test_evaluate_lists_segments(folder, capsys):
    words = ["evaluate", str(folder / "new.csv"), *ONE, "--features", "tokens,subject"]
    assert run(words) == 0
    assert "subject = law" in capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["segments"]
    assert found["segments"][0]["observed"] < found["segments"][0]["predicted"]


def test_fit_says_what_the_features_gained(folder, capsys):
    words = ["fit", str(folder / "val.csv"), "-o", str(folder / "x.calibrant"), *ONE]
    words += ["--features", "tokens,subject"]
    assert run(words) == 0
    told = capsys.readouterr().out
    assert "auto and tokens, subject fitted to 1,500 rows" in told
    assert "With the features the NLL is" in " ".join(told.split())
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["features"]
    assert found["nll"] < found["score_nll"]
    assert {*found["importances"]} == {"tokens", "subject"}


def test_options_that_exclude_each_other(folder, capsys):
    words = ["fit", str(folder / "val.csv"), "-o", str(folder / "x.calibrant"), *ONE]
    assert run([*words, "--features", "tokens", "--groups", "subject"]) == 2
    assert "name the group a feature" in capsys.readouterr().err
    assert run([*words, "--features", "nothing"]) == 3
    assert "has no column 'nothing' (--features)" in capsys.readouterr().err


@pytest.mark.parametrize("parts", [("val.csv", "new.csv"), ("val.csv", "--split", "0.6")])
def test_compare_tries_features(folder, parts, capsys):
    page = folder / "page.html"
    files = [str(folder / part) if part.endswith(".csv") else part for part in parts]
    words = ["compare", *files, *ONE, "--features", "tokens,subject"]
    assert run([*words, "--methods", "auto,features", "--report", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "features" in json.dumps(found)
    text = page.read_text(encoding="utf-8")
    assert "--features tokens,subject" in text
    before, after = text.partition('id="segments"')[2].partition("</section>")[0].split("<h3>")[1:]
    assert before.startswith("<bdi>uncalibrated")
    assert "<bdi>subject = law</bdi>" in before
    assert after.startswith("<bdi>features")
    assert "by chance" in after


def test_decide_reads_features(folder, capsys):
    (folder / "costs.csv").write_text("label,ask,trust\n0,1,5\n1,1,0\n")
    words = ["decide", folder / "m.calibrant", folder / "new.csv", "-o", folder / "decided.csv"]
    assert run([*map(str, words), "--costs", str(folder / "costs.csv")]) == 0, capsys.readouterr()
    assert "ask" in set(pd.read_csv(folder / "decided.csv")["decision"])
