"""kill -9 at any moment: what was to be written is absent, old or whole, and nights go on."""

import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from calibrant.datasets import simulated_scores
from calibrant.model_file import load
from conftest import simulate

COMMAND = [sys.executable, "-m", "calibrant"]


def run(*arguments):
    subprocess.run([*COMMAND, *map(str, arguments)], check=True, capture_output=True)


def kill_at_random(arguments, target, times, is_whole):
    """Kill the command ``times`` times; return how often the target was absent, old and whole.

    Half of the moments are anywhere in the run, half are just after the temporary file appeared.
    """
    rng = np.random.default_rng(0)
    target.unlink(missing_ok=True)
    started = time.perf_counter()
    run(*arguments)
    usual = time.perf_counter() - started
    old = b"what was there before"
    seen = {"absent": 0, "old": 0, "whole": 0}
    for i in range(times):
        target.unlink() if i % 3 == 0 else target.write_bytes(old)
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if i % 2:
            time.sleep(rng.uniform(0.0, 1.1 * usual))
        else:
            while process.poll() is None and not any(target.parent.glob(".calibrant-tmp-*")):
                time.sleep(1e-3)
            time.sleep(rng.uniform(0.0, 0.1 * usual))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for temporary in target.parent.glob(".calibrant-tmp-*"):
            temporary.unlink()
        if not target.exists():
            assert i % 3 == 0
            seen["absent"] += 1
            target.touch()
        else:
            kept = i % 3 and target.read_bytes() == old
            assert kept or is_whole(target)
            seen["old" if kept else "whole"] += 1
    return seen


@pytest.fixture
def files(tmp_path):
    p, y = simulate(2000, 4)
    np.savez(tmp_path / "val.npz", probs=p, labels=y)
    np.save(tmp_path / "new.npy", np.tile(p, (200, 1)))
    return tmp_path


def check(files, times):
    (files / "out").mkdir()
    model, out = files / "out" / "model.calibrant", files / "out" / "new.npy"
    fit = ["fit", files / "val.npz", "-m", "fir", "-o", model]
    apply = ["apply", files / "model.calibrant", files / "new.npy", "-o", out]
    run("fit", files / "val.npz", "-m", "fir", "-o", files / "model.calibrant")
    run(*apply)
    whole = out.read_bytes()
    return [
        kill_at_random(fit, model, times, load),  # which raises if anything is wrong
        kill_at_random(apply, out, times, lambda path: path.read_bytes() == whole),
    ]


@pytest.mark.slow
def test_a_killed_command_leaves_no_half_file_100_times(files):
    for seen in check(files, 100):
        assert min(seen.values()) > 0


def test_a_killed_apply_to_a_directory_leaves_nothing_for_good(files):
    """What it left is removed by the next that writes there, and not while another is at work."""
    (files / "days").mkdir()
    (files / "out").mkdir()
    p, y = simulate(2000, 4)
    table = pd.DataFrame(p, columns=list("0123"))
    for i in range(8):
        table.to_csv(files / "days" / f"{i}.csv", index=False)
    run("fit", files / "val.npz", "-m", "fir", "-o", files / "model.calibrant")
    words = ["apply", files / "model.calibrant", files / "days", "-o"]

    def start(name):
        command = [*COMMAND, *map(str, [*words, files / "out" / name])]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        before = set((files / "out").glob("*.d"))
        while not set((files / "out").glob("*.d")) - before:
            assert process.poll() is None
            time.sleep(1e-3)
        return process

    killed = start("killed")
    killed.kill()
    killed.wait()
    assert len(list((files / "out").iterdir())) == 2  # its directory, and the file of its lock
    first, second = start("first"), start("second")
    assert (first.wait(), second.wait()) == (0, 0)
    assert sorted(path.name for path in (files / "out").iterdir()) == ["first", "second"]
    assert len(list((files / "out" / "first").iterdir())) == 8


SCORES, Y = simulated_scores(1200)
NAMES = ["ant", "bee", "cow"]
DAYS = 6


def night(home, kept, model, decay):
    """Return the words of a nightly run."""
    words = ["fit", home / "days", "-m", "fir", "--statistics", kept, "-o", model]
    return [*COMMAND, *map(str, [*words, "--decay", decay])]


def add_days(home, days):
    """Let the files of some days come."""
    for i in days:
        rows = slice(i * 200, (i + 1) * 200)
        table = pd.DataFrame(SCORES[rows], columns=NAMES).assign(label=np.array(NAMES)[Y[rows]])
        table.to_parquet(home / "days" / f"{i}.parquet")


def kill_nights(home, decay, n_kills):
    """Kill nightly runs; return how many were killed before their end.

    The files of three nights come, and every run that was killed is started again. In the end
    statistics and model must be those of runs that nobody killed. This is done until there were
    enough kills, so that every moment of a run has its turn.
    """
    rng = np.random.default_rng(0)
    nights = [(0, 1), (2, 3), (4, 5)]
    shutil.rmtree(home / "days", ignore_errors=True)
    (home / "days").mkdir()
    kept, model, whole = (home / name for name in ("kept", "model", "whole"))
    for path in (kept, whole):
        path.unlink(missing_ok=True)
    expected, seconds, states = [], 1.0, []
    for days in nights:
        add_days(home, days)
        started = time.perf_counter()
        subprocess.run(night(home, whole, home / "m", decay), check=True, capture_output=True)
        seconds = time.perf_counter() - started
        expected.append((whole.read_bytes(), (home / "m").read_bytes()))
        states.append([*(home / "days").iterdir()])
    done = 0
    while done < n_kills:
        kept.unlink(missing_ok=True)
        for files, (ledger, fitted) in zip(states, expected, strict=True):
            for file in (home / "days").iterdir():  # those of later nights are not there yet
                if file not in files:
                    file.rename(home / file.name)
            for file in files:
                if not file.exists():
                    (home / file.name).rename(file)
            done += kill_until_done(night(home, kept, model, decay), kept, rng, seconds)
            assert kept.read_bytes() == ledger
            assert model.read_bytes() == fitted
    assert not list(home.glob(".calibrant-tmp-*"))
    assert not (home / "kept.lock").exists()
    return done


def kill_until_done(command, kept, rng, seconds):
    """Start a run again and again, and kill it at a random moment; return how often it was hit.

    Some moments are anywhere, most from when the ledger is written: most of the time goes to imports.
    """
    n_kills = 0
    for attempt in range(4):
        before = kept.read_bytes() if kept.exists() else b""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if attempt == 0:
            time.sleep(rng.uniform(0.0, seconds))
        else:
            while process.poll() is None and before == (
                kept.read_bytes() if kept.exists() else b""
            ):
                time.sleep(1e-3)
            time.sleep(rng.uniform(0.0, 0.02 * seconds))
        process.kill()
        n_kills += process.wait() == -signal.SIGKILL
    subprocess.run(command, check=True, capture_output=True)
    return n_kills


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_nights_that_were_killed_end_as_others_do(tmp_path, decay):
    assert kill_nights(tmp_path, decay, 1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_nights_that_were_killed_100_times_end_as_others_do(tmp_path, decay):
    assert kill_nights(tmp_path, decay, 100) >= 100
