"""``calibrant monitor``: files in, a state, a table, a page and an exit code out."""

import json
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from browser import Visit
from calibrant import TemperatureScaling
from calibrant._cli.main import run
from calibrant._drawing import RED
from calibrant.model_file import save
from calibrant.monitor import CalibrationMonitor
from monitor.streams import calibrated, shifted

NAMES = np.array(["ant", "bee", "cow"])

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


@pytest.fixture
def home(tmp_path):
    """A model, and days of which the last is wrong."""
    rng = np.random.default_rng(0)
    p, y = calibrated(rng, 20_000, 3)
    save(TemperatureScaling().fit(p, NAMES[y]), tmp_path / "model.calibrant")
    for day, power in (("monday", 1.0), ("tuesday", 1.0), ("wednesday", 0.4)):
        p, y = shifted(rng, 1500, 3, power=power)
        table = pd.DataFrame(p, columns=NAMES).assign(label=NAMES[y])
        table["region"] = rng.choice(["north", "south"], 1500)
        table["when"] = pd.date_range("2026-01-05", periods=1500, freq="min")
        table.to_parquet(tmp_path / f"{day}.parquet")
        table.drop(columns="label").to_csv(tmp_path / f"{day}-unlabelled.csv", index=False)
        np.savez(tmp_path / f"{day}.npz", probs=p, labels=y, classes=NAMES)
    return tmp_path


@pytest.fixture
def call(home, capsys):
    """A run with ``--json``: its exit code and what it printed."""

    def of(day, *words):
        files = [home / "model.calibrant", home / day, "--state", home / "state.json"]
        code = run(["monitor", *map(str, (*files, *words)), "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out), err

    return of


def test_days_are_counted_and_the_wrong_one_is_an_alarm(call, home):
    told = ("--ignore", "region", "--time-column", "when")
    code, found, _ = call("monday.parquet", *told, "--alpha", "0.02")
    assert (code, found["n_rows"], found["alarm"], found["alpha"]) == (0, 1500, False, 0.02)
    code, found, _ = call("tuesday.parquet", *told)
    assert (code, found["n_rows"]) == (0, 3000)
    code, found, _ = call("wednesday.parquet", *told)
    assert (code, found["n_rows"], found["alarm"]) == (6, 4500, True)
    assert 3000 < found["alarm_row"] < 4500
    assert found["power"] < 0.8
    assert found["metrics"]["calibrant_alarm"] == 1.0
    monitor = CalibrationMonitor.load(home / "state.json")
    assert monitor.status().log_e_value == found["log_e_value"]


def test_a_file_sorted_by_label_is_no_alarm(call, home):
    table = pd.read_parquet(home / "monday.parquet").drop(columns=["region", "when"])
    table.sort_values("label").to_parquet(home / "sorted.parquet")
    code, by_label, _ = call("sorted.parquet")
    assert (code, by_label["alarm"], by_label["change_row"]) == (0, False, None)
    (home / "state.json").unlink()
    _, as_it_was, _ = call("monday.npz")
    assert by_label["log_e_value"] == pytest.approx(as_it_was["log_e_value"])


def test_without_labels(call, home, capsys):
    files = [home / "model.calibrant", home / "monday-unlabelled.csv", "--state", home / "s.json"]
    words = ["--ignore", "region", "--time-column", "when"]
    assert run(["monitor", *map(str, files), *words]) == 0
    out = capsys.readouterr().out  # no row was counted before
    assert "0 rows counted" in out
    assert "expected accuracy, new rows" in out
    call("monday.parquet", "--ignore", "region,when")
    code, found, _ = call("tuesday-unlabelled.csv", "--ignore", "region,when")
    assert (code, found["n_rows"], found["unlabelled"]["n_rows"]) == (0, 1500, 1500)
    assert found["unlabelled"]["accuracy"] == pytest.approx(0.68, abs=0.03)
    assert np.sum(found["unlabelled"]["confusion"]) == pytest.approx(1500)
    assert found["unlabelled"]["check"]["n_rows"] == 1500


def test_a_day_counts_once(call):
    call("monday.parquet", "--ignore", "region", "--time-column", "when")
    code, found, err = call("monday.parquet", "--ignore", "region,when")
    assert (code, found["n_rows"], found["repeated"]) == (0, 1500, True)
    assert "monday.parquet is not counted again" in err
    assert "--again" in err
    code, found, _ = call("monday.parquet", "--ignore", "region,when", "--again")
    assert (code, found["n_rows"], found["repeated"]) == (0, 3000, False)


def test_a_file_is_known_by_its_path_and_bytes(call, home):
    """Days of few scores may be equal; a renamed and shuffled day of many is the same."""
    q = np.tile([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]], (30, 1))
    labels = NAMES[[0, 2, 0, 2, 0, 0, 1, 2, 1, 1] * 6]
    table = pd.DataFrame(q, columns=NAMES).assign(label=labels)
    for i in range(12):
        table.to_csv(home / f"day-{i}.csv", index=False)
        code, found, _ = call(f"day-{i}.csv")
        assert (code, found["n_rows"]) == (0, 60 * (i + 1))
    assert call("day-3.csv")[1]["repeated"]
    table[::-1].to_csv(home / "day-3.csv", index=False)  # another one under an old name
    assert call("day-3.csv")[0] == 0
    call("monday.parquet", "--ignore", "region,when")
    monday = pd.read_parquet(home / "monday.parquet").sample(frac=1, random_state=0)
    monday.to_parquet(home / "copy.parquet")
    assert call("copy.parquet", "--ignore", "region,when")[1]["repeated"]


def test_another_promise_and_the_rows_of_another_model_are_refused(call, home):
    call("monday.npz")
    code, found, _ = call("tuesday.npz", "--alpha", "0.5")
    assert (code, "started with --alpha 0.01" in found["error"]["message"]) == (2, True)
    before = (home / "state.json").read_bytes()
    p, y = calibrated(np.random.default_rng(5), 2000, 3)
    save(TemperatureScaling().fit(p, NAMES[y]), home / "model.calibrant")
    code, found, _ = call("tuesday.npz")
    assert code == 3
    assert "start a new state file" in found["error"]["message"]
    assert (home / "state.json").read_bytes() == before


def test_terminal_page_and_json_tell_the_same(home, call, capsys):
    page = home / "page.html"
    for day in ("monday", "wednesday"):
        code, found, _ = call(f"{day}.npz", "--page", page)
    assert code == 6
    change, text = f"{found['change_row']:,}", page.read_text()
    assert f"at row {change}" in text
    assert 'class="headline alarm"' in text
    assert f'"{RED.lower()}"' in text  # the point of the alarm
    files = [home / "model.calibrant", home / "wednesday.npz", "--state", home / "state.json"]
    assert run(["monitor", *map(str, files)]) == 6
    assert f"found at row {change}" in capsys.readouterr().out


KILL = """
import os, signal, sys
import calibrant.monitor._results as page
page.replace_file = lambda path: os.kill(os.getpid(), signal.SIGKILL)
from calibrant._cli.main import run
run(sys.argv[1:])
"""


def test_killed_between_state_and_page(home, call):
    """Nothing is counted twice, nothing is lost, and the next run writes the page."""
    call("monday.npz")
    page, files = home / "page.html", [home / "model.calibrant", home / "tuesday.npz"]
    words = ["monitor", *files, "--state", home / "state.json", "--page", page]
    killed = subprocess.run([sys.executable, "-c", KILL, *map(str, words)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not page.exists()
    code, found, _ = call("tuesday.npz", "--page", page)
    assert (code, found["n_rows"], found["repeated"]) == (0, 3000, True)
    assert "3,000 labelled rows" in page.read_text()
    counted = CalibrationMonitor.load(home / "state.json").status()
    (home / "state.json").unlink()
    call("monday.npz")
    _, again, _ = call("tuesday.npz")
    assert again["log_e_value"] == counted.log_e_value


def test_the_page_in_a_browser(home, call, browser):
    told = ("--ignore", "region", "--time-column", "when", "--page", home / "page.html")
    call("monday.parquet", *told)
    call("tuesday-unlabelled.csv", *told)
    call("wednesday.parquet", *told)
    visit = Visit(browser, home / "page.html")
    assert visit.complaints == []
    assert visit.requests == [(home / "page.html").as_uri()]
    text = visit.page.inner_text("main")
    assert "Alarm: the probabilities are not right" in text
    assert visit.page.locator("svg").count() == 2
    assert visit.clipped() == []
    visit.context.close()
