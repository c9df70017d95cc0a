"""How far long work is, on standard error: a bar on a terminal, elsewhere lines."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import Progress

SILENCE = 2.0  # seconds without a word before a command shows a bar
LINE_EVERY = 60.0  # seconds between two lines where there is no terminal, as in the log of a night
_one_bar = Lock()  # work may be inside other work, and a terminal has place for one bar


@contextmanager
def progress(title: str, n_steps: int, *, verbose: bool) -> Iterator[Callable[[str], None]]:
    """Yield what prints a line at the start of each step of a fit, if ``verbose``."""
    done = 0

    def start(step: str) -> None:
        nonlocal done
        done += 1
        if verbose:
            print(f"{title}: {done} of {n_steps}, {step}", file=sys.stderr, flush=True)  # noqa: T201

    yield start


@contextmanager
def progress_bar(
    description: str, *, console: Console | None = None
) -> Iterator[Callable[..., None]]:
    """Show a bar after a while, elsewhere lines; yield ``advance(done, total, what)``."""
    bar = _LateBar(description, console)
    is_shown = _is_terminal() if console is None else console.is_terminal
    if not is_shown or not _one_bar.acquire(blocking=False):
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
        _one_bar.release()


class _LateBar:
    """What there is to show, and from some time on a bar that shows it."""

    def __init__(self, description: str, console: Console | None) -> None:
        self._description, self._console = description, console
        self._began = self._last_line = time.monotonic()
        self._state: dict[str, Any] = {"description": description, "total": None}
        self._bar: Progress | None = None
        self._lock = Lock()

    def start(self) -> None:
        """Show the bar."""
        # Only those who wait pay for it: loading it takes as long as many a command.
        from rich import progress as columns
        from rich.console import Console

        with self._lock:
            self._bar = columns.Progress(
                columns.TextColumn("{task.description}", markup=False),
                columns.BarColumn(),
                columns.MofNCompleteColumn(),
                columns.TimeElapsedColumn(),
                console=self._console or Console(stderr=True),
                transient=True,
                redirect_stdout=False,  # where calibrated rows may go
            )
            task = self._bar.add_task(**self._state)
            self._bar.tasks[task].start_time = self._began
        self._bar.start()

    def advance(self, done: float, total: float | None = None, what: str | None = None) -> None:
        """Move the bar, also while it is not shown."""
        words = what or self._description
        with self._lock:
            self._state = {"completed": done, "total": total, "description": words}
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], **self._state)

    def tell(self, done: float, total: float | None = None, what: str | None = None) -> None:
        """Print a line, if the last one was long ago."""
        with self._lock:
            if time.monotonic() < self._last_line + LINE_EVERY:
                return
            self._last_line = time.monotonic()
        of_all = "" if total is None else f" of {total:,.0f}"
        words = f"calibrant: {what or self._description}: {done:,.0f}{of_all}"
        print(words, file=sys.stderr, flush=True)  # noqa: T201

    def stop(self) -> None:
        """Wipe the bar away."""
        if self._bar is not None:
            self._bar.stop()


def _is_terminal() -> bool:
    """Whether there is a terminal, and a thread that draws a bar on it: Pyodide has none."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and sys.platform != "emscripten"
