"""How far a long fit is, on standard error: a bar where ``rich`` is installed, else plain lines."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_one_bar = Lock()
"""Fits may be inside each other or in threads, and a terminal has place for one bar."""


@contextmanager
def progress(title: str, n_steps: int, *, verbose: bool) -> Iterator[Callable[[str], None]]:
    """Yield what is to be called at the start of each step, with a name for it."""
    done = 0
    bar = _bar() if verbose and sys.stderr.isatty() and _one_bar.acquire(blocking=False) else None

    def start(step: str) -> None:
        nonlocal done
        done += 1
        if bar is not None:
            bar.update(task, completed=done - 1, description=f"{title}: {step}")
        elif verbose:
            print(f"{title}: {done} of {n_steps}, {step}", file=sys.stderr, flush=True)  # noqa: T201

    if bar is None:
        yield start
        return
    try:
        with bar:
            task = bar.add_task(title, total=n_steps)
            yield start
    finally:
        _one_bar.release()


def _bar() -> Any:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError:
        _one_bar.release()
        return None
    words = TextColumn("{task.description}", markup=False)
    return Progress(
        words, BarColumn(), MofNCompleteColumn(), console=Console(stderr=True), transient=True
    )
