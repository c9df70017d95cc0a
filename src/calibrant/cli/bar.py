"""What the bars of the commands are made of; loading it takes as long as many a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Task


class CountColumn(ProgressColumn):
    """Shows "3/10, 0:05", "3, 0:05" where the end is not known, or the time alone."""

    def render(self, task: Task) -> Text:
        """Return what is shown now."""
        seconds = int(task.elapsed or 0.0)
        clock = f"{seconds // 60}:{seconds % 60:02d}"
        if task.total is None:
            return Text(f"{task.completed:,.0f}, {clock}" if task.completed else clock)
        return Text(f"{task.completed:,.0f}/{task.total:,.0f}, {clock}")


def make_bar(columns: tuple[ProgressColumn, ...], console: Console | None) -> Progress:
    """Return a bar that is not shown yet, by default on standard error."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *(columns or (CountColumn(),)),
        console=console or Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # where calibrated rows may go
    )
