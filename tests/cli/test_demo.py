"""The demo: the verdict first, methods that can be told apart, and commands that work."""

import io
import json
import re
import shlex
from contextlib import redirect_stdout

import numpy as np
import pytest

from calibrant._cli.main import run
from calibrant._cli.studies import COMMANDS
from calibrant.datasets import naive_bayes


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(home):
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.chdir(home)
        patch.setenv("COLUMNS", "80")
        assert run(["demo"]) == 0
    return out.getvalue()


def test_it_shows_every_method_and_the_verdict(printed, home):
    assert "over-confident by" in printed
    rows = re.findall(r"^([a-z-]+) +\d\d\.\d\d[ *] ", printed, re.MULTILINE)
    assert set(rows) >= {"uncalibrated", "na-fir", "scir", "ir-ovr", "ts", "auto"}
    assert "failed" not in printed
    assert (home / "calibrant-demo.html").as_uri() in printed
    lines = [line for line in printed.splitlines() if not line.startswith("Report:")]
    assert max(map(len, lines)) <= 80


def test_it_ends_with_commands_that_work(printed, home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    lines = printed.rstrip().splitlines()[-2:]
    assert [line.strip() for line in lines] == [*COMMANDS]
    for line, name in zip(lines, ("fit", "apply"), strict=True):
        words = shlex.split(line)
        assert run(words[words.index(name) :]) == 0
        assert line.strip() in (home / "calibrant-demo.html").read_text()
    capsys.readouterr()
    errors = []
    for name in ("calibrant-demo-test.csv", "calibrated.csv"):
        assert run(["evaluate", name, "--json", "--resamples", "0"]) == 0
        errors.append(json.loads(capsys.readouterr().out)["confidence_ece"]["value"])
    assert errors[0] > 0.1
    assert errors[1] < 0.02


def test_its_files_hold_the_predictions(printed, home):
    assert printed
    scores, y, new_scores, new_y = naive_bayes()
    for name, p, labels in (("val", scores, y), ("test", new_scores, new_y)):
        table = np.loadtxt(home / f"calibrant-demo-{name}.csv", delimiter=",", skiprows=1)
        assert np.array_equal(table[:, :-1], p)
        assert np.array_equal(table[:, -1], labels)
