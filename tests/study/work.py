"""What processes do in tests; in a module that they can import."""

import os
import signal
from pathlib import Path


def work(task):
    """Whatever the task says, in a process: die, or double a number."""
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if isinstance(task, str) and task.startswith("die once "):
        marker = Path(task.removeprefix("die once "))
        if not marker.exists():
            marker.touch()
            os._exit(7)
        return "alive"
    return 2 * task
