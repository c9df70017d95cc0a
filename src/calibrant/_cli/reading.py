"""Options about files of predictions, which the commands share."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._files.align import Aligned
    from calibrant._files.tables import ColumnSelection

file_argument = click.Path(path_type=Path, allow_dash=True)
path_argument = click.Path(path_type=Path)


def names(text: str) -> tuple[str, ...]:
    """Split at commas; quotes keep a comma inside of a name."""
    return tuple(name.strip() for name in next(csv.reader([text]), []))


OPTIONS = {
    "kind": click.option(
        "--scores",
        "kind",
        type=click.Choice(["probabilities", "logits", "positive", "decision"]),
        help="What the scores are; npz files say it. For a single column: positive (probability of "
        "the positive class) or decision (its margin).",
    ),
    "positive": click.option(
        "--positive",
        metavar="LABEL",
        help="Positive class of two, that of a single column; 1 if the classes are 0 and 1.",
    ),
    "normalize": click.option(
        "--normalize", is_flag=True, help="Divide each row by its sum, for counts or percent."
    ),
    "label_column": click.option(
        "--label-column",
        metavar="NAME",
        help="Column with the labels; by default label, target, y or class, or the only column of "
        "text.",
    ),
    "labels": click.option("--labels", type=file_argument, help="npy file with the labels."),
    "columns": click.option(
        "--columns", type=names, help="Columns of scores, or patterns such as 'prob_*'."
    ),
    "ignore": click.option(
        "--ignore", type=names, help="Columns that are not scores, or patterns."
    ),
    "classes": click.option(
        "--classes", type=names, help="Class of each column, if the column names do not say it."
    ),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said about files of predictions."""

    kind: str | None = None
    normalize: bool = False
    label_column: str | None = None
    labels: Path | None = None
    columns: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    positive: str | None = None

    @property
    def selection(self) -> ColumnSelection:
        """What the columns of a table are."""
        from calibrant._files.tables import ColumnSelection

        return ColumnSelection(self.label_column, self.columns or (), self.ignore or ())

    @property
    def rows(self) -> str | None:
        """``normalize`` of the calibrators."""
        return "rows" if self.normalize else None

    def read(
        self,
        path: Path,
        *,
        like: Aligned | None = None,
        positive_last: bool = False,
        by_name: bool = False,
        **parts: Any,
    ) -> Aligned:
        """Read a file of predictions whole; the options are those of :func:`align`."""
        from calibrant._files.align import align
        from calibrant._files.predictions import read_prediction_file

        told = self.classes if like is None else like.classes
        options: dict[str, Any] = {"labels": self.labels, "selection": self.selection}
        found = read_prediction_file(path, kind=self.kind, classes=told, **(options | parts))
        if found.log is not None:
            self.tell(found.log.note)
        self.refuse_to_normalize(path, found.kind)
        order = {"positive_last": positive_last, "by_name": by_name}
        options = {"like": like, "positive": self.positive, **order}
        return align(found, classes=self.classes, normalize=self.rows, **options)

    @staticmethod
    def tell(note: str) -> None:
        """Say on standard error what was read."""
        click.echo(f"calibrant: {note}", err=True)

    def refuse_to_normalize(self, path: Path, kind: str) -> None:
        """Refuse ``--normalize`` where rows have no sums."""
        if self.normalize and kind != "probabilities":
            what = {"positive": "one column", "decision": "margins"}.get(kind, kind)
            raise click.UsageError(f"--normalize is for probabilities; {path} holds {what}")

    def words(self, *known: str) -> list[str]:
        """Return the options among ``known`` as they are typed."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value and field.name in known:
                option = "scores" if field.name == "kind" else field.name.replace("_", "-")
                found.append(f"--{option}")
                if isinstance(value, tuple):
                    found.append(",".join(f'"{n}"' if "," in n else n for n in value))
                elif value is not True:
                    found.append(str(value))
        return found


def reading_options(*some: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command some of the options, all by default, as one argument ``reading``."""
    chosen = some or tuple(OPTIONS)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(**arguments: Any) -> Any:
            said = {name: arguments.pop(name) for name in chosen}
            return command(reading=Reading(**said), **arguments)

        for name in reversed(chosen):
            run = OPTIONS[name](run)
        return run

    return decorate
