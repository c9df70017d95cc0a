"""How far long work is, on standard error: a bar on a terminal, elsewhere lines."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

SILENCE = 2.0  # seconds without a word before a command shows a bar
LINE_EVERY = 60.0  # seconds between two lines where there is no terminal, as in the log of a night


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
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if console is not None:
        is_terminal = console.is_terminal
    last_word, bar = time.monotonic(), None

    def advance(done: float, total: float | None = None, what: str | None = None) -> None:
        nonlocal last_word, bar
        words = what or description
        if bar is None and time.monotonic() >= last_word + (SILENCE if is_terminal else LINE_EVERY):
            last_word = time.monotonic()
            if is_terminal:
                # Only those who wait pay for it: loading it takes as long as many a command.
                from rich import progress as columns
                from rich.console import Console

                bar = columns.Progress(
                    columns.TextColumn("{task.description}", markup=False),
                    columns.BarColumn(),
                    columns.MofNCompleteColumn(),
                    columns.TimeElapsedColumn(),
                    console=console or Console(stderr=True),
                    transient=True,
                    redirect_stdout=False,  # where calibrated rows may go
                )
                bar.add_task("", total=None)
                bar.start()
            else:
                of_all = "" if total is None else f" of {total:,.0f}"
                line = f"calibrant: {words}: {done:,.0f}{of_all}"
                print(line, file=sys.stderr, flush=True)  # noqa: T201
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, total=total, description=words)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()
