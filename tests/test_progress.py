"""A bar appears on a terminal after a while of silence, and nowhere else."""

import re

import pytest
from rich.console import Console

from calibrant import _progress as progress


def show(monkeypatch, capsys, silence, *counts, **options):
    monkeypatch.setattr(progress, "SILENCE", silence)
    console = Console(width=100, **options)
    with progress.progress_bar("fitting [/b]", console=console) as advance:
        advance(*counts)
    return capsys.readouterr().out


def test_nobody_who_waits_less_sees_it(monkeypatch, capsys):
    assert show(monkeypatch, capsys, 60.0, 3, force_terminal=True) == ""


def test_nothing_is_written_to_a_file(monkeypatch, capsys):
    assert show(monkeypatch, capsys, 0.0, 3, 10) == ""


@pytest.mark.parametrize(
    ("counts", "shown"), [((3000,), r"3000/\? 0:"), ((3, 1000), r"3/1000 0:00:00")]
)
def test_it_says_what_is_done_and_how_far(monkeypatch, capsys, counts, shown):
    text = show(monkeypatch, capsys, 0.0, *counts, force_terminal=True)
    assert "fitting [/b]" in text
    assert re.search(shown, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))
    assert text.endswith("\x1b[2K")  # and is wiped away


def test_lines_are_far_apart_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with progress.progress_bar("reading days") as advance:
        advance(1_000_000)
        advance(2_000_000, 5_000_000, "fitting")
    words = "reading days: 1,000,000", "fitting: 2,000,000 of 5,000,000"
    assert capsys.readouterr().err == "".join(f"calibrant: {line}\n" for line in words)


def test_a_verbose_fit_prints_its_steps(capsys):
    with progress.progress("AutoCalibrator", 2, verbose=True) as start:
        start("folds")
    assert capsys.readouterr().err == "AutoCalibrator: 1 of 2, folds\n"
