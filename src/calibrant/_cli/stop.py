"""Ctrl-C and ``kill``: what is half written is removed, and the process dies by the signal."""

from __future__ import annotations

import os
import signal

from calibrant._atomic_file import remove_half_written

SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"  # a bar hides it


def listen() -> None:
    """Take over both signals."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells set it
            signal.signal(number, _die)


def _die(number: int, _: object) -> None:
    """Handle a signal without raising.

    An exception would come out of any line of any library, which may catch it. Dying by the signal
    tells a shell what happened (128 + its number).
    """
    remove_half_written()
    if os.isatty(2):
        os.write(2, SHOW_CURSOR)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
