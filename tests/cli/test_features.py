"""Columns beside the scores: ``--features`` of files."""

import numpy as np
import pandas as pd
import pytest

from calibrant import FeatureCalibrator, model_file

ONE = ["--columns", "confidence", "--label-column", "right", "--positive", "1"]
ONE += ["--scores", "positive"]


def make(n_rows=1500, seed=0):
    """Return answers whose chance of being right depends on the tokens and on the subject."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"confidence": rng.choice([0.8, 0.9, 0.95, 1.0], n_rows)})
    table["tokens"] = rng.integers(20, 900, n_rows).astype(float)
    table["subject"] = rng.choice(["law", "physics", "7"], n_rows)
    chance = 0.8 * table["confidence"] - 0.0005 * table["tokens"]
    table["right"] = (rng.random(n_rows) < chance - 0.3 * (table["subject"] == "law")).astype(int)
    table.loc[::40, "tokens"] = np.nan
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory, quiet):
    path = tmp_path_factory.mktemp("features")
    make().to_csv(path / "val.csv", index=False)
    make(seed=1).to_csv(path / "new.csv", index=False)
    make(seed=1).to_parquet(path / "new.parquet", index=False)
    words = ["fit", path / "val.csv", "-o", path / "m.calibrant", *ONE]
    quiet(*words, "--features", "tokens,subject")
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_fit_and_apply_give_what_python_does(folder, suffix, call):
    """Apply finds the columns of the model."""
    table, new, out = make(), make(seed=1), folder / f"out.{suffix}"
    fitted = FeatureCalibrator(scores="positive", classes=[0, 1])
    fitted.fit(table["confidence"], table["right"], features=table[["tokens", "subject"]])
    expected = fitted.predict_proba(new["confidence"], new[["tokens", "subject"]])
    assert model_file.load(folder / "m.calibrant").share_ == fitted.share_ > 0.5
    call("apply", folder / "m.calibrant", folder / f"new.{suffix}", "-o", out)
    found = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    np.testing.assert_allclose(found["confidence"], expected[:, 1], rtol=1e-12)


def test_a_file_without_such_a_column_is_refused(folder, call):
    make(seed=1).drop(columns="subject").to_csv(folder / "short.csv", index=False)
    words = "apply", folder / "m.calibrant", folder / "short.csv", "-o", folder / "none.csv"
    told = call(*words, code=3).err
    assert "has no column 'subject' (the model was fitted with --features)" in told
    assert not (folder / "none.csv").exists()


def test_evaluate_lists_segments(folder, call):
    words = ["evaluate", folder / "new.csv", *ONE, "--features", "tokens,subject"]
    assert "subject = law" in call(*words).out
    found = call(*words, "--json").json["segments"]
    assert found["segments"][0]["observed"] < found["segments"][0]["predicted"]


def test_fit_says_what_the_features_gained(folder, call):
    words = ["fit", folder / "val.csv", "-o", folder / "x.calibrant", *ONE]
    words += ["--features", "tokens,subject"]
    told = call(*words).out
    assert "auto and tokens, subject fitted to 1,500 rows" in told
    assert "With the features the NLL is" in " ".join(told.split())
    found = call(*words, "--json").json["features"]
    assert found["nll"] < found["score_nll"]
    assert {*found["importances"]} == {"tokens", "subject"}


@pytest.mark.parametrize("parts", [("val.csv", "new.csv"), ("val.csv", "--split", "0.6")])
def test_compare_tries_features(folder, parts, call):
    page = folder / "page.html"
    files = [str(folder / part) if part.endswith(".csv") else part for part in parts]
    words = ["compare", *files, *ONE, "--features", "tokens,subject"]
    found = call(*words, "--methods", "auto,features", "--report", page, "--json").json
    assert "features" in str(found)
    text = page.read_text(encoding="utf-8")
    assert "--features tokens,subject" in text
    before, after = text.partition('id="segments"')[2].partition("</section>")[0].split("<h3>")[1:]
    assert before.startswith("<bdi>uncalibrated")
    assert "<bdi>subject = law</bdi>" in before
    assert after.startswith("<bdi>features")
    assert "by chance" in after


def test_decide_reads_features(folder, call):
    (folder / "costs.csv").write_text("label,ask,trust\n0,1,5\n1,1,0\n")
    words = ["decide", folder / "m.calibrant", folder / "new.csv", "-o", folder / "decided.csv"]
    call(*words, "--costs", folder / "costs.csv")
    assert "ask" in set(pd.read_csv(folder / "decided.csv")["decision"])
