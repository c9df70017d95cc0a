"""What ``--json`` prints: one object with a version, as docs/guides/cli.md has it."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrant.datasets import simulated_scores
from conftest import needs_pages

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "cli.md"
NAMES = ["ant", "bee", "cow"]
SCORES, Y = simulated_scores(900)
FRAME = pd.DataFrame(SCORES, columns=NAMES).assign(label=np.array(NAMES)[Y])

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


@pytest.fixture
def home(tmp_path):
    """A directory of two files, and one file."""
    (tmp_path / "days").mkdir()
    FRAME[:400].to_parquet(tmp_path / "days" / "a.parquet")
    FRAME[400:].to_parquet(tmp_path / "days" / "b.parquet")
    FRAME.to_csv(tmp_path / "all.csv", index=False)
    return tmp_path


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
        found = call(*words, "--json")
        assert "NaN" not in found.out
        found = found.json
        assert found["version"] == 1
        assert documented(words[0]) == found.keys() - {"version"}, words[0]
    assert documented("export")
    assert documented("study")
