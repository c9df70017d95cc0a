"""What ``--json`` prints: one object with a version, as docs/guides/cli.md has it."""

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
from conftest import needs_pages

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "cli.md"
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
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def documented(command):
    """Fields that the page names for a command."""
    head = "| command | fields |"
    table = DOCS.read_text().split(head)[1].split("\n\n")[0]  # an empty line ends it
    line = next(li for li in table.splitlines() if li.startswith(f"| `{command}` |"))
    return set(re.findall(r"`(\w+)`", line.split("|")[2]))


@needs_pages
def test_every_command_prints_what_the_page_says(home, call):
    model = home / "m.calibrant"
    for words in (
        ("fit", home / "all.csv", "-m", "vs", "-o", model),
        ("evaluate", home / "all.csv"),
        ("apply", model, home / "all.csv", "-o", home / "out.csv"),
        ("compare", home / "all.csv", "--split", "0.5", "--methods", "ts"),
        ("inspect", model),
        ("monitor", model, home / "all.csv", "--state", home / "state.json"),
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
    monkeypatch.setattr("calibrant.scale._kept_rows.FEWEST_ROWS", 100)
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
    assert re.search(r"\d+ rows stand for 900\n", shown)
    assert "all 900 rows were read" in shown


def test_an_error_has_no_other_fields_and_its_line_for_people_stays(home, call):
    code, out, err = call("evaluate", home / "nowhere.csv")
    message = f"{home / 'nowhere.csv'} does not exist"
    told = {"type": "PredictionFileError", "message": message, "exit_code": 3}
    assert strict(out) == {"version": 1, "error": told}
    assert (code, err) == (3, f"calibrant: {message}\n")


def test_where_rows_take_standard_output_all_else_goes_to_the_other(home, call):
    model = home / "m.calibrant"
    assert call("fit", home / "all.csv", "-m", "ts", "-o", model)[0] == 0
    code, out, err = call("apply", model, home / "nowhere.csv", "-o", "-")
    assert (code, out) == (3, "")
    assert strict(err)["error"]["exit_code"] == 3
