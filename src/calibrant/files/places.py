"""Where in a file something is, in the words of the command: files, lines, options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.errors import Arguments
from calibrant.files.text import lines_of

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Place(Arguments):
    """A file of predictions, for messages about it.

    Attributes
    ----------
    path : Path
    source : str
        The file, and which part of it.
    names : list of str or None
        Names of the columns of scores.
    """

    path: Path
    source: str
    names: list[str] | None = None

    if_logits = "logits? Then --scores logits"
    use_logits = "use --scores logits"
    if_percent = "percent? --normalize divides rows by their sums"
    if_unnormalized = "--normalize divides rows by their sums"
    if_untold = "name the columns after the classes, or give the class of each column by --classes"
    if_named_twice = "choose one set by --columns"

    @property
    def prefix(self) -> str:  # type: ignore[override]
        """What comes before a message that names no place."""
        return f"{self.source}: "

    @property
    def scores(self) -> str:  # type: ignore[override]
        """The file."""
        return self.source

    @property
    def y(self) -> str:  # type: ignore[override]
        """The file as well."""
        return self.source

    def rows(self, rows: list[int]) -> str:
        """Where some rows are: lines of a text table, else rows counted from 0."""
        many = "s" if len(rows) > 1 else ""
        lines = lines_of(self.path, rows)
        if lines is None:
            return f"{self.source}, row{many} {', '.join(map(str, rows))} (from 0)"
        return f"{self.source}, line{many} {', '.join(map(str, lines))}"

    def cell(self, *place: int) -> str:
        """Where a row is, or a cell of it."""
        row, *column = place
        names = [j if self.names is None else repr(self.names[j]) for j in column]
        return ", column ".join(map(str, [self.rows([row]), *names]))

    def label(self, row: int) -> str:
        """Where the label of a row is."""
        return f"{self.rows([row])}: the label"
