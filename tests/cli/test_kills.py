"""kill -9 at any moment: what was to be written is absent, old or whole."""

import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from calibrant._cli import main
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
