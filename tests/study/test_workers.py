"""Processes: what their death costs, and when they end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calibrant.study.workers import ONE_THREAD, Death, compute
from study.work import work


def test_death_of_a_process_costs_its_own_task_alone(tmp_path):
    once = f"die once {tmp_path / 'marker'}"
    tasks = [1, "die", 2, once, "threads", 3, 4]
    kept = dict(os.environ)
    assert dict(compute(work, tasks, 2)) == {
        1: 2,
        2: 4,
        3: 6,
        4: 8,
        "die": Death(-signal.SIGKILL),
        once: "alive",
        "threads": ONE_THREAD,
    }
    assert dict(os.environ) == kept


def test_processes_that_cannot_start_are_an_error(tmp_path):
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from calibrant.study.workers import compute\nprint(list(compute(abs, [1, 2], 1)))\n"
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert out.returncode == 1
    assert 'if __name__ == "__main__"' in out.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_processes_end_with_a_parent_that_was_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from calibrant.study.workers import compute\n"
        "def busy(path):\n"
        "    Path(path).write_text(str(os.getpid()))\n"
        "    while True: time.sleep(0.01)\n"
        "if __name__ == '__main__': list(compute(busy, [sys.argv[1]], 1))\n"
    )
    note = tmp_path / "pid"
    with subprocess.Popen([sys.executable, script, note]) as parent:
        wait_until(lambda: note.exists() and note.read_text())
        worker = int(note.read_text())
        assert is_alive(worker)
        parent.kill()
    wait_until(lambda: not is_alive(worker))


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
