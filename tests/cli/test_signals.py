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


def wait_until_it_listens(process):
    """Python itself takes Ctrl-C before, and prints where."""
    caught = 0
    while not caught >> (signal.SIGTERM - 1) & 1 and process.poll() is None:
        time.sleep(0.002)
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)


def stop_at(files, number, moment):
    """Send a signal so long after the start; return whether it came before the end."""
    with start(files) as process:
        wait_until_it_listens(process)
        time.sleep(moment)
        process.send_signal(number)
        err = process.stderr.read().decode()
    assert process.returncode in {-number, 0}, err
    assert err == "", err
    left = list((files / "out").iterdir())
    assert left or process.returncode
    for path in left:  # it was renamed before the signal came: whole
        assert path.name == "new.npy"
        assert path.stat().st_size == (files / "new.npy").stat().st_size
        path.unlink()
    return process.returncode != 0


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_while_starting(files, number):
    assert all(stop_at(files, number, moment) for moment in (0.0, 0.1, 0.3))


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
