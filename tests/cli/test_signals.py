"""Ctrl-C and ``kill`` at any moment: the process dies by the signal and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from calibrant.cli.main import run
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


def start(files, name="new.npy", cache=None):
    """Calibrate a file in a process, which compiles first if its cache is empty."""
    words = ["apply", files / "m.calibrant", files / "new.npy", "-o", files / "out" / name]
    environment = os.environ if cache is None else {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-m", "calibrant", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
    )


def wait_until_it_listens(process):
    """Python itself takes Ctrl-C before, and prints where."""
    caught = 0
    while not caught >> (signal.SIGTERM - 1) & 1 and process.poll() is None:
        time.sleep(0.002)
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)


def stop_at(files, number, moment, cache=None):
    """Send a signal so long after the start; return whether it came before the end."""
    with start(files, cache=cache) as process:
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
        "from calibrant.cli.stop import listen; listen()\n"
        "signal.raise_signal(signal.SIGINT); print('alive')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "alive\n"


@pytest.mark.slow
def test_200_signals_at_random_moments_of_a_cold_start(files, tmp_path_factory):
    rng = np.random.default_rng(0)
    started = time.monotonic()
    with start(files, cache=tmp_path_factory.mktemp("cache")) as process:
        assert process.wait() == 0
    usual = time.monotonic() - started
    (files / "out" / "new.npy").unlink()
    stopped = 0
    for i, moment in enumerate(rng.uniform(0.0, 0.8 * usual, 200)):
        stopped += stop_at(files, SIGNALS[i % 2], moment, tmp_path_factory.mktemp("cache"))
    assert stopped > 100


@pytest.mark.slow
def test_two_processes_that_start_cold_at_once(files, tmp_path_factory):
    """On one cache; then once more, and one of them is stopped."""
    names = ["one.npy", "two.npy"]
    cache = tmp_path_factory.mktemp("cache")
    both = [start(files, name, cache) for name in names]
    errors = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    one, two = (np.load(files / "out" / name) for name in names)
    np.testing.assert_array_equal(one, two)
    cache = tmp_path_factory.mktemp("cache")
    first, second = (start(files, name, cache) for name in names)
    wait_until_it_listens(first)
    time.sleep(2.0)
    first.send_signal(signal.SIGTERM)
    first.communicate()
    assert second.communicate()[1] == b""
    assert second.returncode == 0
