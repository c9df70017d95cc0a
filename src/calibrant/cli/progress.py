"""A bar on a terminal, for those who have waited two seconds; elsewhere a line in a minute."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

SILENCE = 2.0
"""Seconds without a word before a bar appears."""

LINE_EVERY = 60.0
"""Seconds between two lines where there is no terminal, as in the log of a night."""


class _LateBar:
    """What there is to show, and from some time on a bar that shows it."""

    def __init__(
        self, description: str, columns: tuple[ProgressColumn, ...], console: Console | None
    ) -> None:
        self._description, self._columns, self._console = description, columns, console
        self._began = time.monotonic()
        self._state: dict[str, Any] = {"description": description, "total": None}
        self._bar: Progress | None = None
        self._lock = Lock()
        self._next_line = self._began + LINE_EVERY

    def start(self) -> None:
        """Show the bar."""
        from calibrant.cli.bar import make_bar  # only those who wait pay for it

        with self._lock:
            self._bar = make_bar(self._columns, self._console)
            task = self._bar.add_task(**self._state)
            self._bar.tasks[task].start_time = self._began
        self._bar.start()

    def advance(
        self, done: float, total: float | None = None, what: str | None = None, **fields: Any
    ) -> None:
        """Move the bar, also while it is not shown."""
        words = what or self._description
        with self._lock:
            self._state = {"completed": done, "total": total, "description": words, **fields}
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], **self._state)

    def tell(
        self, done: float, total: float | None = None, what: str | None = None, **_: Any
    ) -> None:
        """Print a line, if the last one was long ago."""
        with self._lock:
            if time.monotonic() < self._next_line:
                return
            self._next_line = time.monotonic() + LINE_EVERY
        of_all = "" if total is None else f" of {total:,.0f}"
        click.echo(f"calibrant: {what or self._description}: {done:,.0f}{of_all}", err=True)

    def stop(self) -> None:
        """Wipe the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress_bar(
    description: str, *columns: ProgressColumn, console: Console | None = None
) -> Iterator[Callable[..., None]]:
    """Show a bar after two seconds; yield what moves it: ``advance(done, total, what, ...)``.

    After the bar come the columns, by default what is counted and the time. It is shown if the
    console, by default standard error, is a terminal; else there are lines, far apart.
    """
    bar = _LateBar(description, columns, console)
    if not (_is_terminal() if console is None else console.is_terminal):
        yield bar.tell
        return
    timer = Timer(SILENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        timer.join()  # it may be at work
        bar.stop()


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
