"""Ctrl-C and ``kill``: what is half written is removed, and the process dies by the signal."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from calibrant._atomic_file import remove_half_written

if TYPE_CHECKING:
    from collections.abc import Iterator

_FINAL_MESSAGES: list[str] = []
_CURSOR = "\r\x1b[K\x1b[?25h"  # a bar hides it


def listen() -> None:
    """Take over both signals."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells set it
            signal.signal(number, _die)


@contextmanager
def final_message(text: str) -> Iterator[None]:
    """Say this if a signal comes meanwhile."""
    _FINAL_MESSAGES.append(text)
    try:
        yield
    finally:
        _FINAL_MESSAGES.remove(text)


def _die(number: int, _: Any) -> None:
    """Handle a signal without raising.

    An exception would come out of any line of any library, which may catch it. Dying by the signal
    tells a shell what happened (128 + its number).
    """
    remove_half_written()
    words = "".join(f"calibrant: {text}\n" for text in _FINAL_MESSAGES)
    with suppress(OSError):  # nobody listens
        os.write(2, ((_CURSOR if os.isatty(2) else "") + words).encode())
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
