"""kill -9 at any moment: what was to be written is absent, old or whole."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

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
