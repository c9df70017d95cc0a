"""kill -9 at any moment: what was to be written is absent, old or whole."""

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


def test_a_killed_apply_to_a_directory_leaves_no_directory(files):
    (files / "days").mkdir()
    (files / "out").mkdir()
    table = pd.DataFrame(simulate(2000, 4)[0], columns=["p0", "p1", "p2", "p3"])
    for i in range(20):
        table.to_csv(files / "days" / f"{i}.csv", index=False)
    model, out = str(files / "model.calibrant"), files / "out"
    assert main.run(["fit", str(files / "val.npz"), "-m", "fir", "-o", model]) == 0
    words = ["apply", model, str(files / "days"), "-o", str(out / "a")]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL)
    while not list(out.glob(".*/*.csv")):
        assert process.poll() is None
        time.sleep(1e-3)
    process.kill()
    process.wait()
    assert not (out / "a").exists()
    assert main.run(words) == 0
    assert len(list((out / "a").iterdir())) == 20
