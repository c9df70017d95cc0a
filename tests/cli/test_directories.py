"""Commands on directories of tables, and on large files."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from calibrant import model_file
from calibrant._files import formats
from calibrant.datasets import simulated_scores
from calibrant.scale import Chunks

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


def predictions(path):
    """What a model file predicts."""
    return model_file.load(path).predict_proba(FRAME[NAMES])


def test_a_sample_is_told(days, tmp_path, call, monkeypatch):
    monkeypatch.setitem(Chunks.sample.__kwdefaults__, "max_cells", 600)
    out = tmp_path / "model"
    told = f"ts fitted to 200 of 1,500 rows of {days}, sampled by content"
    assert told in call("fit", days, "-m", "ts", "-o", out).out
    assert "fitted to 200 of 1,500 rows, sampled by content" in call("inspect", out).out
    found = call("fit", days, "-m", "ts", "-o", out, "--json").json
    assert (found["rows"], found["rows_read"]) == (200, 1500)
    (days / "notes.txt").touch()
    told = call("evaluate", days)
    assert "5 tables read; ignored 'notes.txt'" in told.err
    text = " ".join(told.out.split())
    assert "1500 rows, 3 classes" in text
    assert "intervals of errors are of 200 rows, sampled by content." in text


@pytest.mark.parametrize("name", ["all.csv", "days"])
def test_what_needs_all_rows_reads_them_at_once(tmp_path, call, monkeypatch, name):
    monkeypatch.setattr(formats, "LARGE_BYTES", 0)
    path, out = tmp_path / name, tmp_path / "model"
    frame = FRAME.assign(region=np.array(["north", "south"])[np.arange(1500) % 2])
    if name == "days":
        path.mkdir()
        frame[:700].to_parquet(path / "a.parquet")
        frame[700:].to_csv(path / "b.csv", index=False)
    else:
        frame.to_csv(path)
    call("fit", path, "-m", "ts", "-o", out, "--groups", "region")
    assert model_file.load(out).groups_.tolist() == ["north", "south"]
    found = call("evaluate", path, "--groups", "region", "--json").json
    assert len(found["by_group"]["rows"]) == 2
    words = ["compare", path, "--split", "0.5", "--ignore", "region", "--methods", "ts", "--json"]
    assert call(*words).json["methods"][0]["n_rows"] == 750


def test_a_bad_row_leaves_nothing_half_written(days, tmp_path, call):
    bad = FRAME[:300].assign(bee=FRAME.bee.mask(FRAME.index == 37))
    bad.to_parquet(days / "7.parquet")
    out = tmp_path / "model"
    for words in (("fit", days, "-m", "fir", "-o", out), ("evaluate", days)):
        assert "7.parquet, row 37 (from 0), column 'bee' is nan" in call(*words, code=3).err
    assert not out.exists()
    (days / "7.parquet").unlink()
    call("fit", days, "-m", "fir", "-o", out)
    call("apply", out, days, "-o", tmp_path / "done")
    bad.to_parquet(days / "7.parquet")
    call("apply", out, days, "-o", tmp_path / "broken", code=3)
    assert not (tmp_path / "broken").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_apply_to_a_directory_checks_the_scores_of_all_files_together(days, tmp_path, call):
    out, done = tmp_path / "model", tmp_path / "done"
    call("fit", days, "-m", "ts", "-o", out)
    words = ["apply", out, days, "--check", "-o"]
    text = call(*words, done).out
    assert "1,500 rows\nno alarm: The new scores look like" in text
    found = pd.concat(pd.read_parquet(done / f"{i}.parquet") for i in range(5))
    assert (found[NAMES].to_numpy() == predictions(out)).all()
    assert found["label"].tolist() == FRAME["label"].tolist()
    assert "File exists" in call("apply", out, days, "-o", done, code=3).err
    found = call(*words, tmp_path / "again", "--json").json["check"]
    check = model_file.load(out).check(FRAME[NAMES])
    assert found == pytest.approx(check.to_dict(), rel=1e-9)
    (days / "0.parquet").unlink()
    sure = FRAME[FRAME[NAMES].max(axis=1) > 0.8]
    sure.to_parquet(days / "1.parquet")
    assert call(*words, tmp_path / "sure", "--json").json["check"]["alarm"]
    few = tmp_path / "few.csv"
    FRAME[:1].to_csv(few, index=False)
    found = call("apply", out, few, "--check", "-o", tmp_path / "one.csv", "--json").json
    assert found["check"] is None


MEMORY = """
import resource, sys
from calibrant._cli.main import run
from calibrant.scale import Chunks
Chunks.sample.__kwdefaults__["max_cells"] = 1 << 20
peaks = []
for place, path in enumerate(sys.argv[2:]):
    model = sys.argv[1]
    assert run(["fit", path, "-m", "ts", "-o", model]) == 0
    assert run(["apply", model, path, "-o", f"{path}-{place}"]) == 0
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
print(peaks[1] - peaks[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB here")
def test_memory_does_not_grow_with_the_rows_of_a_directory(tmp_path):
    """Beyond the sample, 8 MiB here: 64 MB of scores, and 512 MB in groups of any size."""
    rng = np.random.default_rng(0)
    for name, n_files in (("few", 2), ("many", 16)):
        (tmp_path / name).mkdir()
        for i in range(n_files):
            rows = rng.dirichlet(np.ones(4), 1_000_000)
            frame = pd.DataFrame(rows, columns=[*NAMES, "dog"]).assign(label=Y[i % 9])
            frame.loc[:9, "label"] = np.arange(10) % 4
            frame["label"] = np.array([*NAMES, "dog"])[frame["label"]]
            frame.to_parquet(tmp_path / name / f"{i}.parquet", row_group_size=1_000_000)
    command = [sys.executable, "-c", MEMORY, *(tmp_path / own for own in ("model", "few", "many"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # malloc keeps some tens of megabytes more or less, by what came in which order.
    assert int(done.stdout.splitlines()[-1]) < 100
