"""A bar on a terminal, for those who have waited two seconds."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Task

SILENCE = 2.0
"""Seconds without a word before a bar appears."""


class _CountColumn(ProgressColumn):
    """Shows "3/10, 0:05", or the time alone where nothing is counted."""

    def render(self, task: Task) -> Text:
        seconds = int(task.elapsed or 0.0)
        clock = f"{seconds // 60}:{seconds % 60:02d}"
        if task.total is None:
            return Text(clock)
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}, {clock}")


@contextmanager
def progress_bar(
    description: str, *columns: ProgressColumn, console: Console | None = None
) -> Iterator[Callable[..., None]]:
    """Show a bar after two seconds; yield what moves it: ``advance(done, total, what, ...)``.

    After the bar come the columns, by default what is counted and the time. It is shown if the
    console, by default standard error, is a terminal.
    """
    console = console or Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *(columns or (_CountColumn(),)),
        console=console,
        transient=True,
        redirect_stdout=False,  # where calibrated rows may go
    )
    task = bar.add_task(description, total=None)

    def advance(
        done: float, total: float | None = None, what: str | None = None, **fields: Any
    ) -> None:
        bar.update(task, completed=done, total=total, description=what or description, **fields)

    if not console.is_terminal:
        yield advance
        return
    timer = Timer(SILENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()  # it may be at work
        bar.stop()
