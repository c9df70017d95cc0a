"""What ``--json`` prints: one object with a version, as docs/cli.md has it, also of an error."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrant._cli.main import run
from calibrant.datasets import simulated_scores
from calibrant.scale import _statistics as statistics

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
NAMES = ["ant", "bee", "cow"]
SCORES, Y = simulated_scores(900)
FRAME = pd.DataFrame(SCORES, columns=NAMES).assign(label=np.array(NAMES)[Y])

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


@pytest.fixture
def call(capsys):
    """A command with ``--json``: its exit code, and what it printed on both outputs."""

    def of(*words):
        code = run([*map(str, words), "--json"])
        out, err = capsys.readouterr()
        return code, out, err

    return of


@pytest.fixture
def home(tmp_path):
    """A directory of two files, and one file."""
    (tmp_path / "days").mkdir()
    FRAME[:400].to_parquet(tmp_path / "days" / "a.parquet")
    FRAME[400:].to_parquet(tmp_path / "days" / "b.parquet")
    FRAME.to_csv(tmp_path / "all.csv", index=False)
    return tmp_path


def strict(text):
    """Read JSON that any reader understands: without NaN."""

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def documented(command):
    """Fields that the page names for a command."""
    head = "| command | fields |"
    table = DOCS.read_text().split(head)[1].split("\n\n")[0]  # an empty line ends it
    line = next(li for li in table.splitlines() if li.startswith(f"| `{command}` |"))
    return set(re.findall(r"`(\w+)`", line.split("|")[2]))


def test_every_command_prints_what_the_page_says(home, call):
    model = home / "m.calibrant"
    for words in (
        ("fit", home / "all.csv", "-m", "vs", "-o", model),
        ("evaluate", home / "all.csv"),
        ("apply", model, home / "all.csv", "-o", home / "out.csv"),
        ("compare", home / "all.csv", "--split", "0.5", "--methods", "ts"),
        ("inspect", model),
    ):
        code, out, err = call(*words)
        assert code == 0, err
        found = strict(out)
        assert found["version"] == 1
        assert documented(words[0]) == found.keys() - {"version"}, words[0]
    assert documented("export")
    assert documented("study run")


def test_fit_tells_the_rows_that_the_method_saw(home, call, capsys, monkeypatch):
    monkeypatch.setattr(statistics, "FEWER_CELLS", 300)
    monkeypatch.setattr("calibrant.scale._kept_rows.FEWEST", 100)
    out = home / "m.calibrant"
    _, text, err = call("fit", home / "days", "-m", "ms", "-o", out)
    found = strict(text)
    assert (found["rows"], found["rows_read"]) == (100, 900)
    assert any("100 of 900" in told for told in found["warnings"])
    assert "100 of 900" in err
    _, text, _ = call("fit", home / "days", "-m", "fir", "-o", out)
    assert (strict(text)["rows"], strict(text)["rows_read"]) == (900, 900)
    _, text, _ = call("fit", home / "days", "-m", "auto", "-o", out)
    assert (strict(text)["rows"], strict(text)["rows_read"]) == (900, 900)
    assert run(["fit", str(home / "days"), "-m", "ms", "-o", str(out)]) == 0
    assert "ms fitted to 100 of 900 rows of" in capsys.readouterr().out


@pytest.mark.parametrize(("method", "n_rows"), [("ts", 100), ("fir", 900), ("scir", 900)])
def test_a_night_that_decays_tells_the_rows_that_were_kept(home, call, monkeypatch, method, n_rows):
    """Rows of older nights weigh less than their files say, so these are not read again."""
    monkeypatch.setattr(statistics, "usual_limit", lambda *_: 100)
    out, whole, last = home / "m.calibrant", home / "days", home / "nights"
    last.mkdir()
    files = sorted(whole.iterdir())
    options = "-m", method, "-o", out, "--statistics", home / "kept", "--decay", "0.9"
    for some in (files[:1], files[1:]):
        for file in some:
            shutil.copy(file, last)
        code, text, err = call("fit", last, *options)
        assert code == 0, err
    assert (strict(text)["rows"], strict(text)["rows_read"]) == (n_rows, 900)


def test_inspect_shows_every_note(home, call, capsys, monkeypatch):
    monkeypatch.setattr(statistics, "usual_limit", lambda *_: 100)
    out = home / "noted.calibrant"
    code, _, err = call("fit", home / "days", "-m", "ts", "-o", out)
    assert code == 0, err
    capsys.readouterr()
    assert run(["inspect", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "100 rows stand for 900" in shown
    assert "in all" not in shown


@pytest.mark.parametrize(
    ("words", "code", "kind", "message"),
    [
        (("evaluate", "nowhere.csv"), 3, "PredictionFileError", "nowhere.csv does not exist"),
        (("evaluate", "HOME/bad.csv"), 3, "PredictionFileError", "line 2, column 'bee'"),
        (("evaluate",), 2, "MissingParameter", "FILE"),
        (("fit", "HOME/all.csv", "-o", "HOME/m", "--decay", "2"), 2, "BadParameter", "decay"),
        (("inspect", "HOME/all.csv"), 4, "MagicError", "not a calibrant model file"),
    ],
)
def test_errors_are_json_with_the_same_exit_code(home, call, words, code, kind, message):
    (home / "bad.csv").write_text("label,ant,bee\nant,0.5,much\nbee,0.5,0.5\n")
    found, out, err = call(*(word.replace("HOME", str(home)) for word in words))
    assert found == code
    told = strict(out)
    assert told.keys() == {"version", "error"}
    assert told["error"].keys() == {"type", "message", "exit_code"}
    assert (told["version"], told["error"]["exit_code"]) == (1, code)
    assert told["error"]["type"] == kind
    assert message in told["error"]["message"]
    assert message in err  # the line that people read is there as well


def test_not_converged_is_json_too(home, call, monkeypatch):
    from calibrant._solvers.report import SolverReport
    from calibrant.errors import ConvergenceWarning

    stuck = property(lambda _: ConvergenceWarning("vs: optimality violated"))
    monkeypatch.setattr(SolverReport, "complaint", stuck)
    monkeypatch.setattr(SolverReport, "converged", property(lambda _: False))
    out = home / "m.calibrant"
    code, text, _ = call("fit", home / "all.csv", "-m", "vs", "-o", out, "--strict")
    assert code == 5
    assert strict(text)["error"]["type"] == "NotConvergedError"
    assert not out.exists()


def test_where_rows_take_standard_output_all_else_goes_to_the_other(home, call):
    model = home / "m.calibrant"
    assert call("fit", home / "all.csv", "-m", "ts", "-o", model)[0] == 0
    code, out, err = call("apply", model, home / "nowhere.csv", "-o", "-")
    assert (code, out) == (3, "")
    assert strict(err)["error"]["exit_code"] == 3
