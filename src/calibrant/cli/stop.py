"""Ctrl-C and ``kill``: what is half done is removed, and the exit code is the signal's."""

from __future__ import annotations

import signal
from typing import Any


class Stop:
    """Remembers the signal that ended the command.

    The exception that it raises lets temporary files be removed on the way out. A library can
    lose it, as a compiler does that is called back from C; so long work asks ``check`` as well.
    """

    number = 0

    def listen(self) -> None:
        """Take over both signals."""
        self.number = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self)

    def __call__(self, number: int, _: Any) -> None:
        """Handle a signal."""
        self.number = number
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise again what was lost."""
        if self.number:
            raise KeyboardInterrupt


STOP = Stop()
