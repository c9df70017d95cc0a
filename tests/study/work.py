"""What processes do in tests; in a module that they can import."""

import os
import signal
from pathlib import Path

from calibrant.study.workers import ONE_THREAD


def work(task):
    """Whatever the task says, in a process: die, tell something or double a number."""
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if isinstance(task, str) and task.startswith("die once "):
        marker = Path(task.removeprefix("die once "))
        if not marker.exists():
            marker.touch()
            os._exit(7)
        return "alive"
    if task == "threads":
        return {name: os.environ[name] for name in ONE_THREAD}
    return 2 * task
