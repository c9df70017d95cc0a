"""``Request``: what a caller asks of files of predictions, and says about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a file: first what the options of the command say, each in one field.

    ``part`` is "val" or "test" of an npz file with arrays of both, and an error for other files. An
    npz file tells the kind of its scores by the names of its arrays; others hold probabilities
    unless ``kind`` says otherwise. ``labels`` is a npy file with the labels of a npy file;
    ``label`` names the column of labels of a table, ``columns`` and ``ignore`` are names or
    patterns of columns that hold scores, and that hold none. ``groups`` and ``features`` are
    columns beside the scores.
    """

    part: str | None = None
    kind: str | None = None
    positive: str | None = None
    normalize: bool = False
    label: str | None = None
    labels: Path | None = None
    columns: Sequence[str] = ()
    ignore: Sequence[str] = ()
    classes: Sequence[Any] | None = None
    groups: str | None = None
    features: Sequence[str] = ()

    usual_part: str | None = None
    """Part of an npz file that is read where none is asked for."""

    known_classes: Sequence[Any] | None = None
    """Classes of a model, or of another part of the same data, by which logs are read."""

    fitted: Sequence[str] = ()
    """Columns that a model was fitted to: a table that has them all may have other numbers."""

    more: Mapping[str, str] = field(default_factory=dict)
    """Further columns to read, and the option that names each."""

    may_lack_labels: bool = False
    """Whether some rows of a log may have no label."""

    reads_scores: bool = True
    reads_others: bool = False
    """Whether scores are read, and whether columns that nobody names are: they are copied."""

    options: tuple[str, str] = ("--columns", "--label-column")
    """What names the columns of scores and of labels, for messages."""

    @property
    def beside(self) -> dict[str, str]:
        """Columns beside the scores that are read, and the option that names each."""
        named = {} if self.groups is None else {self.groups: "--groups"}
        return named | dict.fromkeys(self.features, "--features") | dict(self.more)

    @property
    def log_classes(self) -> list[str] | None:
        """Classes by which a log is read, if they are known."""
        known = self.classes or self.known_classes
        return None if known is None else [str(c) for c in known]
