"""Files of predictions as commands read them: options that they share, and calibrated rows."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.chunks import FileChunks
    from calibrant._files.columns import ColumnSelection
    from calibrant._files.predictions import Request
    from calibrant._files.source import RawPredictions, Source

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

    def selection(self, beside: Mapping[str, str] | None = None) -> ColumnSelection:
        """Return what was said of columns; ``beside`` are others to read, and their options."""
        from calibrant._files.columns import ColumnSelection

        columns, ignore = self.columns or (), self.ignore or ()
        return ColumnSelection(self.label_column, columns, ignore, beside=beside or {})

    def read(
        self,
        path: Path,
        *,
        part: str | None = None,
        usual_part: str | None = None,
        like: Aligned | None = None,
        positive_last: bool = False,
        beside: Mapping[str, str] | None = None,
    ) -> Aligned:
        """Read a file of predictions whole; the options are those of :func:`align`."""
        from calibrant._files.predictions import open_source

        with open_source(path, self._request(part, usual_part, like, beside)) as source:
            raw = source.read()
        if raw.log is not None:
            self.tell(raw.log.note)
        self._refuse_to_normalize(path, raw.kind)
        return self._align(positive_last)(raw, like=like)

    def open(
        self,
        path: Path,
        *,
        part: str | None,
        usual_part: str,
        positive_last: bool,
        needs_whole: dict[str, Any],
        progress: Callable[..., None],
        beside: Mapping[str, str],
    ) -> Aligned | FileChunks:
        """Read a file whole, unless it is large: then, as a directory, it is read in chunks.

        ``needs_whole`` are options that cannot be used with chunks, and their values.
        """
        from calibrant._files.chunks import FileChunks, is_read_in_chunks

        used = [option for option, value in needs_whole.items() if value is not None]
        if not is_read_in_chunks(path, self.labels) or (used and not path.is_dir()):
            return self.read(
                path,
                part=part,
                usual_part=usual_part,
                positive_last=positive_last,
                beside=beside,
            )
        if path.is_dir():
            if used:
                raise click.UsageError(f"{used[0]} needs one file; {path} is a directory")
            self.look_at_directory(path, part)
        request = self._request(part, usual_part)
        chunks = FileChunks(path, request, self._align(positive_last), progress)
        self._refuse_to_normalize(path, chunks.kind)
        return chunks

    def _request(
        self,
        part: str | None,
        usual_part: str | None,
        like: Aligned | None = None,
        beside: Mapping[str, str] | None = None,
    ) -> Request:
        from calibrant._files.predictions import Request

        classes = self.classes if like is None else like.classes
        selection = self.selection(beside)
        return Request(part, usual_part, self.kind, self.labels, selection, classes)

    def _align(self, positive_last: bool) -> Callable[..., Aligned]:
        """Return what tells the class of each column."""
        from calibrant._files.align import align

        return partial(
            align,
            classes=self.classes,
            normalize="rows" if self.normalize else None,
            positive=self.positive,
            positive_last=positive_last,
        )

    def look_at_directory(self, path: Path, part: str | None) -> None:
        """Refuse options of files of arrays for a directory of tables; tell which are ignored."""
        from calibrant._files.chunks import tell_ignored

        if part is not None:
            raise click.UsageError(f"--part is for npz files; {path} is a directory")
        if self.labels is not None:
            raise click.UsageError(
                f"--labels is for npy files; tables of {path} use --label-column"
            )
        if note := tell_ignored(path):
            self.tell(note)

    @staticmethod
    def tell(note: str) -> None:
        """Say on standard error what was read."""
        click.echo(f"calibrant: {note}", err=True)

    def _refuse_to_normalize(self, path: Path, kind: str) -> None:
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


features_option = click.option(
    "--features",
    type=names,
    metavar="COLUMN,...",
    help="Columns beside the scores that predictions may depend on.",
)
groups_option = click.option(
    "--groups", metavar="COLUMN", help="Column, array or field with the group of each row."
)


def check_groups(calibrator: Calibrator, model: Path, groups: str | None) -> bool:
    """Whether a model was fitted by group; refuse groups that it does not know or lacks."""
    is_grouped = hasattr(calibrator, "for_group")
    if is_grouped is (groups is None):
        raise click.UsageError(
            f"{model} was fitted {'with' if is_grouped else 'without'} groups: "
            + ("name the column with --groups" if is_grouped else "leave out --groups")
        )
    return is_grouped


@dataclass(frozen=True, slots=True)
class CalibratedFile:
    """A file that was read and calibrated; ``y`` is None without labels."""

    probabilities: NDArray[np.float64]
    y: NDArray[Any] | None
    groups: NDArray[np.str_] | None
    rows: RawPredictions
    source: Source
    order: NDArray[np.int64] | None
    classes: NDArray[Any]

    def table(self, out: Path) -> Any:
        """Return the columns of the file with probabilities for scores, as ``apply`` writes it."""
        import numpy as np

        from calibrant._files.writers import Output, calibrated_table

        output = Output(out, self.classes, self.source, self.order, self.probabilities.dtype)
        keep = np.ones(len(self.probabilities), dtype=bool)
        return calibrated_table(output, self.probabilities, self.rows, keep)


def serve(
    calibrator: Calibrator,
    path: Path,
    part: str | None,
    reading: Reading,
    groups: str | None = None,
    beside: Mapping[str, str] | None = None,
    *,
    usual_part: str = "test",
) -> CalibratedFile:
    """Read a file and calibrate it; ``beside`` are other columns to read, and their options."""
    from calibrant._cli.showing import naming
    from calibrant._files.apply import RowCalibration, request_of
    from calibrant._files.predictions import open_source
    from calibrant._files.values import groups_of, read_labels

    if reading.normalize:
        calibrator.set_params(normalize="rows")
    is_grouped = hasattr(calibrator, "for_group")
    if is_grouped and groups is None:
        raise click.UsageError("the model was fitted with groups; name them with --groups")
    request = request_of(calibrator, reading.selection(beside), part, groups, usual_part)
    with open_source(path, request) as source:
        calibrate = RowCalibration(calibrator, source, groups if is_grouped else None)
        rows = source.read()
    with naming(path):
        probabilities, _ = calibrate(rows)
    classes, labels = calibrator.classes_, rows.labels
    is_sure = source.layout is None or source.layout.is_named
    if labels is not None and not is_sure and not {*map(str, labels)} <= {*map(str, classes)}:
        labels = None  # a column of text that holds something else
    as_text = classes.dtype.kind in "OU"
    y = None if labels is None else read_labels(labels, source.place, as_text=as_text)
    named = None if groups is None else groups_of(rows.beside[groups], source.place)
    return CalibratedFile(probabilities, y, named, rows, source, calibrate.order, classes)
