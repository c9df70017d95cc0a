"""Ctrl-C and ``kill`` at any moment: the process dies by the signal and leaves nothing behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from calibrant._cli.main import run
from conftest import simulate

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def files(tmp_path):
    """A model and a file that takes a while to calibrate."""
    p, y = simulate(600, 4)
    np.savez(tmp_path / "val.npz", probs=p, labels=y)
    np.save(tmp_path / "new.npy", np.tile(p, (2000, 1)))
    model = str(tmp_path / "m.calibrant")
    assert run(["fit", str(tmp_path / "val.npz"), "-m", "fir", "-o", model]) == 0
    (tmp_path / "out").mkdir()
    return tmp_path


def start(files):
    """Calibrate a file in a process."""
    words = ["apply", files / "m.calibrant", files / "new.npy", "-o", files / "out" / "new.npy"]
    return subprocess.Popen(
        [sys.executable, "-m", "calibrant", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_while_writing_leave_no_partial_file(files, number):
    with start(files) as process:
        deadline = time.monotonic() + 100
        while not list((files / "out").iterdir()) and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(number)
    assert process.returncode == -number
    assert not list((files / "out").iterdir())


def test_a_signal_that_is_ignored_stays_so():
    """As in the background of a shell."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from calibrant._cli.stop import listen; listen()\n"
        "signal.raise_signal(signal.SIGINT); print('alive')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "alive\n"
