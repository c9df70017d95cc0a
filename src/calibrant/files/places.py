"""Where in a file something is, in the words of the command: files, lines, options."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant import errors
from calibrant.files.text import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = {
    "did you mean scores='logits'?": "logits? Then --scores logits",
    "of logits, pass the softmax": "logits? Then --scores logits",
    "use scores='logits'": "use --scores logits",
    "did you mean scores='probabilities'?": "did you mean --scores probabilities?",
    "scores='logits', but": "--scores logits, but",
    "percent? Divide by 100": "percent? --normalize divides rows by their sums",
    "; pass normalize='rows' to divide": "; --normalize divides",
    "; divide rows by their sums": "; --normalize divides rows by their sums",
    "rename them, or pass classes= with the label of each column": "name them after the classes, "
    "or give the class of each column by --classes",
    "pass classes= with the label of each column": "name the columns after the classes, or give "
    "the class of each column by --classes",
    "check the order, or pass classes=": "check the order, or use --classes",
    "; choose one set of columns": "; choose one set by --columns",
}
"""What the library says, and what the command says."""


@dataclass(frozen=True, slots=True)
class Place:
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

    def rows(self, rows: list[int]) -> str:
        """Where some rows are: lines of a text table, else rows counted from 0."""
        many = "s" if len(rows) > 1 else ""
        lines = lines_of(self.path, rows)
        if lines is None:
            return f"{self.source}, row{many} {', '.join(map(str, rows))} (from 0)"
        return f"{self.source}, line{many} {', '.join(map(str, lines))}"

    def column(self, j: int) -> str:
        """Which column of scores."""
        return f"column {j if self.names is None else repr(self.names[j])}"

    @contextmanager
    def words(self, first_row: int = 0) -> Iterator[None]:
        """Let errors name the file, the line and the options, not arguments of Python."""
        try:
            yield
        except (errors.PredictionFileError, errors.ModelFileError):
            raise
        except (errors.DataError, errors.ParameterError) as error:
            raise type(error)(self._translate(str(error), first_row)) from error

    def _translate(self, text: str, first_row: int) -> str:
        def cell(found: re.Match[str]) -> str:
            place = self.rows([first_row + int(found[1])])
            return f"{place}, {self.column(int(found[2]))}"

        def label(found: re.Match[str]) -> str:
            return f"{self.rows([first_row + int(found[1])])}: the label"

        text = in_words_of_options(text)
        text = re.sub(r"; remove or repair row \d+", "; remove or repair the row", text)
        text = re.sub(r"(?:Input )?\b(?:scores|y_proba) contains NaN or infinity: ", "", text)
        text = re.sub(r"(?:Input )?\b(?:y|y_true) contains NaN or infinity: ", "", text)
        text = re.sub(r"\b(?:scores|y_proba)\[(\d+), (\d+)\]", cell, text)
        text = re.sub(
            r"\b(?:scores|y_proba)\[(\d+)\]", lambda m: self.rows([first_row + int(m[1])]), text
        )
        text = re.sub(r"\b(?:y|y_true)\[(\d+)\]", label, text)
        text = re.sub(r"\by(?:_true)? has (?=\d+ distinct labels)", "there are ", text)
        text = re.sub(r"\b(?:scores|y_proba) has (\d+) columns", r"\1 columns of scores", text)
        return text if str(self.path) in text else f"{self.source}: {text}"


def in_words_of_options(text: str) -> str:
    """Name options of the command where the library names its arguments."""
    for theirs, ours in WORDS.items():
        text = text.replace(theirs, ours)
    return text
