"""``calibrant study`` and ``demo`` from outside."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout

import numpy as np
import pytest

from calibrant._cli.main import run
from calibrant._cli.studies import COMMANDS
from calibrant.datasets import naive_bayes
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A directory of two classifiers; cells are computed in this process."""
    data = tmp_path / "predictions"
    data.mkdir()
    for name, seed in (("toy_a", 0), ("toy_b", 1)):
        p, y = simulate(400, 3, seed)
        np.savez(
            data / f"{name}.npz",
            val_probs=p[:100],
            val_labels=y[:100],
            test_probs=p[100:],
            test_labels=y[100:],
        )
    monkeypatch.setattr("calibrant.study._run.count_threads", lambda _: 0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments):
    return run(["study", *map(str, arguments)])


def test_the_table_alone(home, capsys):
    assert call("--methods", "ts", "-o", "first", "predictions", "--table-only") == 0
    assert "first: 2 classifiers x 2 methods in 0:00:0" in capsys.readouterr().out
    assert (home / "first" / "study.parquet").exists()
    assert call("run", "predictions", "-o", "first") == 2


def test_outputs_of_a_small_study_are_written(home, capsys):
    assert call("predictions", "-o", "out", "--methods", "ts,fir", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["classifiers"] == 2
    assert result["methods"] == ["uncalibrated", "fir", "ts"]
    assert result["failures"] == []
    assert any(path.endswith("index.html") for path in result["written"])
    assert all((home / path).exists() for path in result["written"])


def test_failures_are_told_and_end_well(home, capsys):
    p, y = simulate(40, 3)
    bad = np.full_like(p, np.nan)
    np.savez("predictions/bad_x.npz", val_probs=bad, val_labels=y, test_probs=p, test_labels=y)
    assert call("predictions", "-o", "out", "--methods", "ts", "--table-only") == 0
    shown = capsys.readouterr()
    assert "1 of 6 cells failed: see study.log" in shown.out
    assert "calibrant: bad_x: ts failed: NonFiniteError" in shown.err
    assert "bad_x: ts failed" in (home / "out" / "study.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_keep_finished_cells(home, number):
    """Sent to the whole group, as a terminal does, after the first cell."""
    command = [sys.executable, "-m", "calibrant", "study", "predictions", "-o", "out"]
    process = subprocess.Popen(
        [*command, "--jobs", "2", "--methods", "all"],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        while not list(home.glob("out/cells/*.json")) and process.poll() is None:
            time.sleep(0.005)
        os.killpg(process.pid, number)
        err = process.stderr.read().decode()
    assert process.returncode == -number
    assert "Traceback" not in err
    cells = list(home.glob("out/cells/*"))
    assert cells
    assert all(json.loads(path.read_text())["format"] == 1 for path in cells)
    assert not (home / "out" / "study.csv").exists()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(demo):
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.chdir(demo)
        patch.setenv("COLUMNS", "80")
        assert run(["demo"]) == 0
    return out.getvalue()


def test_it_shows_every_method_and_the_verdict(printed, demo):
    assert "over-confident by" in printed
    rows = re.findall(r"^([a-z-]+) +\d\d\.\d\d[ *] ", printed, re.MULTILINE)
    assert set(rows) >= {"uncalibrated", "na-fir", "scir", "ir-ovr", "ts", "auto"}
    assert "failed" not in printed
    assert (demo / "calibrant-demo.html").as_uri() in printed
    lines = [line for line in printed.splitlines() if not line.startswith("Report:")]
    assert max(map(len, lines)) <= 80


def test_it_ends_with_commands_that_work(printed, demo, monkeypatch, capsys):
    monkeypatch.chdir(demo)
    lines = printed.rstrip().splitlines()[-2:]
    assert [line.strip() for line in lines] == [*COMMANDS]
    for line, name in zip(lines, ("fit", "apply"), strict=True):
        words = shlex.split(line)
        assert run(words[words.index(name) :]) == 0
        assert line.strip() in (demo / "calibrant-demo.html").read_text()
    capsys.readouterr()
    errors = []
    for name in ("calibrant-demo-test.csv", "calibrated.csv"):
        assert run(["evaluate", name, "--json", "--resamples", "0"]) == 0
        errors.append(json.loads(capsys.readouterr().out)["confidence_ece"]["value"])
    assert errors[0] > 0.1
    assert errors[1] < 0.02


def test_its_files_hold_the_predictions(printed, demo):
    assert printed
    scores, y, new_scores, new_y = naive_bayes()
    for name, p, labels in (("val", scores, y), ("test", new_scores, new_y)):
        table = np.loadtxt(demo / f"calibrant-demo-{name}.csv", delimiter=",", skiprows=1)
        assert np.array_equal(table[:, :-1], p)
        assert np.array_equal(table[:, -1], labels)
