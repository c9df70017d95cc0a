"""kill -9 at any moment: what was to be written is absent, old or whole, and nights go on."""

import signal
import subprocess
import sys
import time
from itertools import takewhile

import numpy as np
import pandas as pd
import pytest

from calibrant._cli import main
from calibrant.datasets import simulated_scores
from conftest import simulate

COMMAND = [sys.executable, "-m", "calibrant"]


@pytest.fixture
def files(tmp_path):
    p, y = simulate(2000, 4)
    np.savez(tmp_path / "val.npz", probs=p, labels=y)
    np.save(tmp_path / "new.npy", np.tile(p, (200, 1)))
    return tmp_path


def test_a_killed_apply_to_a_directory_leaves_nothing_for_good(files):
    """What it left is removed by the next that writes there, and not while it is at work."""
    (files / "days").mkdir()
    (files / "out").mkdir()
    table = pd.DataFrame(simulate(2000, 4)[0], columns=["p0", "p1", "p2", "p3"])
    for i in range(20):
        table.to_csv(files / "days" / f"{i}.csv", index=False)
    words = ["apply", files / "model.calibrant", files / "days", "-o"]
    words = [str(word) for word in words]
    model = str(files / "model.calibrant")
    assert main.run(["fit", str(files / "val.npz"), "-m", "fir", "-o", model]) == 0
    out = files / "out"
    process = subprocess.Popen([*COMMAND, *words, str(out / "a")], stdout=subprocess.DEVNULL)
    while not list(out.glob("*.d/*.csv")):
        assert process.poll() is None
        time.sleep(1e-3)
    process.send_signal(signal.SIGSTOP)
    assert main.run([*words, str(out / "b")]) == 0
    assert (
        len(list(out.iterdir())) == 3
    )  # the other is at work: its directory, the file of its lock
    process.kill()
    process.wait()
    assert main.run([*words, str(out / "c")]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["b", "c"]
    assert len(list((out / "c").iterdir())) == 20


NAMES = ["ant", "bee", "cow"]
NIGHTS = [(0, 1), (2, 3), (4, 5)]
"""Which files come in each night."""


def night(home, kept, model, decay):
    """Return the words of a nightly run."""
    words = ["fit", home / "days", "-m", "fir", "--statistics", kept, "-o", model]
    return [str(word) for word in [*words, "--decay", decay]]


def kill_nights(home, decay, n_kills, n_attempts):
    """Kill nightly runs until so many were hit, and start them again; return how many were.

    After each night, statistics and model must be those of runs that nobody killed.
    """
    scores, y = simulated_scores(1200)
    table = pd.DataFrame(scores, columns=NAMES).assign(label=np.array(NAMES)[y])
    days, later = home / "days", home / "later"
    for path in (days, later):
        path.mkdir()
    for i in range(6):
        table[200 * i : 200 * (i + 1)].to_parquet(later / f"{i}.parquet")
    expected = []
    for files in NIGHTS:
        come(files, later, days)
        assert main.run(night(home, home / "whole", home / "m", decay)) == 0
        expected.append(((home / "whole").read_bytes(), (home / "m").read_bytes()))
    kept, model = home / "kept", home / "model"
    rng, done = np.random.default_rng(0), 0
    while done < n_kills:
        kept.unlink(missing_ok=True)
        come(range(6), days, later)
        for files, (ledger, fitted) in zip(NIGHTS, expected, strict=True):
            come(files, later, days)
            words = night(home, kept, model, decay)
            moments = (kill([*COMMAND, *words], kept, rng, i) for i in range(n_attempts))
            done += sum(takewhile(bool, moments))  # until one was not hit: the night is over
            assert main.run(words) == 0
            assert kept.read_bytes() == ledger
            assert model.read_bytes() == fitted
    assert {p.name for p in home.iterdir()} == {"days", "later", "whole", "m", "kept", "model"}
    return done


def come(files, source, target):
    """Let files come, or go."""
    for i in files:
        (source / f"{i}.parquet").rename(target / f"{i}.parquet")


def kill(command, kept, rng, attempt):
    """Start a run and kill it at a random moment; return whether it was hit.

    Every third moment is anywhere in a run, the others are from when the ledger is first written.
    """
    before = kept.read_bytes() if kept.exists() else b""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if attempt % 3 == 2:
        time.sleep(rng.uniform(0.0, 3.0))
    else:
        while process.poll() is None and before == (kept.read_bytes() if kept.exists() else b""):
            time.sleep(1e-3)
        time.sleep(rng.uniform(0.0, 0.03 * (time.perf_counter() - started)))
    process.kill()
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_nights_that_were_killed_end_as_others_do(tmp_path, decay):
    assert kill_nights(tmp_path, decay, 1, n_attempts=1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_nights_that_were_killed_a_hundred_times_in_all_end_as_others_do(tmp_path, decay):
    assert kill_nights(tmp_path, decay, 50, n_attempts=8) >= 50
