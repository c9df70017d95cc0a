"""Files of predictions as commands read them: options that they share, and calibrated rows."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.showing import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.chunks import FileChunks
    from calibrant._files.columns import Request
    from calibrant._files.source import RawPredictions, Source

file_argument = click.Path(path_type=Path, allow_dash=True)
path_argument = click.Path(path_type=Path)


def names(text: str) -> tuple[str, ...]:
    """Split at commas; quotes keep a comma inside of a name."""
    return tuple(name.strip() for name in next(csv.reader([text]), []))


OPTIONS = {
    "part": click.option(
        "--part",
        type=click.Choice(["val", "test"]),
        help="Part of an npz file with val_* and test_*.",
    ),
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
    "groups": click.option(
        "--groups", metavar="COLUMN", help="Column, array or field with the group of each row."
    ),
    "features": click.option(
        "--features",
        type=names,
        metavar="COLUMN,...",
        help="Columns beside the scores that predictions may depend on.",
    ),
}

SCORES = ("kind", "positive", "normalize", "label_column", "labels", "columns", "ignore", "classes")
SERVED = ("normalize", "label_column", "columns", "ignore", "groups")
"""Options of files of labelled scores, and of files that a model calibrates."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said about files of predictions."""

    part: str | None = None
    kind: str | None = None
    normalize: bool = False
    label_column: str | None = None
    labels: Path | None = None
    columns: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    positive: str | None = None
    groups: str | None = None
    features: tuple[str, ...] | None = None

    def request(
        self,
        usual_part: str | None = None,
        *,
        classes: Sequence[Any] | None = None,
        beside: Mapping[str, str] | None = None,
    ) -> Request:
        """Return what is asked of a file; ``beside`` are other columns, and their options.

        ``classes`` are those of another part, or of a model.
        """
        from calibrant._files.columns import Request

        also = {} if self.groups is None else {self.groups: "--groups"}
        also |= dict.fromkeys(self.features or (), "--features")
        return Request(
            self.part,
            usual_part,
            kind=self.kind,
            labels=self.labels,
            classes=self.classes if classes is None else classes,
            label=self.label_column,
            columns=self.columns or (),
            ignore=self.ignore or (),
            beside=also | dict(beside or {}),
        )

    def read(
        self,
        path: Path,
        *,
        usual_part: str | None = None,
        like: Aligned | None = None,
        positive_last: bool = False,
        beside: Mapping[str, str] | None = None,
    ) -> Aligned:
        """Read a file of predictions whole; the options are those of :func:`align`."""
        from calibrant._files.predictions import open_source

        classes = None if like is None else like.classes
        with open_source(path, self.request(usual_part, classes=classes, beside=beside)) as source:
            raw = source.read()
        if raw.note:
            tell(raw.note)
        self._refuse_to_normalize(path, raw.kind)
        return self._align(positive_last)(raw, like=like)

    def open(
        self,
        path: Path,
        *,
        usual_part: str,
        positive_last: bool,
        needs_whole: Mapping[str, Any],
        progress: Callable[..., None],
        beside: Mapping[str, str] | None = None,
    ) -> Aligned | FileChunks:
        """Read a file whole, unless it is large: then, as a directory, it is read in chunks.

        ``needs_whole`` are options that cannot be used with chunks, and their values; so are
        groups and features.
        """
        from calibrant._files.chunks import FileChunks, is_read_in_chunks

        options = {"--groups": self.groups, "--features": self.features, **needs_whole}
        used = [option for option, value in options.items() if value is not None]
        if not is_read_in_chunks(path, self.labels) or (used and not path.is_dir()):
            return self.read(
                path, usual_part=usual_part, positive_last=positive_last, beside=beside
            )
        if path.is_dir():
            if used:
                raise click.UsageError(f"{used[0]} needs one file; {path} is a directory")
            self.look_at_directory(path)
        request = self.request(usual_part, beside=beside)
        chunks = FileChunks(path, request, self._align(positive_last), progress)
        self._refuse_to_normalize(path, chunks.kind)
        return chunks

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

    def look_at_directory(self, path: Path) -> None:
        """Refuse options of files of arrays for a directory of tables; tell which are ignored."""
        from calibrant._files.chunks import ignored_files

        if self.part is not None:
            raise click.UsageError(f"--part is for npz files; {path} is a directory")
        if self.labels is not None:
            raise click.UsageError(
                f"--labels is for npy files; tables of {path} use --label-column"
            )
        if note := ignored_files(path):
            tell(note)

    def _refuse_to_normalize(self, path: Path, kind: str) -> None:
        """Refuse ``--normalize`` where rows have no sums."""
        if self.normalize and kind != "probabilities":
            what = {"positive": "one column", "decision": "margins"}.get(kind, kind)
            raise click.UsageError(f"--normalize is for probabilities; {path} holds {what}")

    def words(self, *known: str) -> list[str]:
        """Return the options among ``known`` as they are typed."""
        result = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value and field.name in known:
                option = "scores" if field.name == "kind" else field.name.replace("_", "-")
                result.append(f"--{option}")
                if isinstance(value, tuple):
                    result.append(",".join(f'"{n}"' if "," in n else n for n in value))
                elif value is not True:
                    result.append(str(value))
        return result


def tell(note: str) -> None:
    """Say on standard error what was read."""
    click.echo(f"calibrant: {note}", err=True)


def reading_options(*chosen: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command some of the options, as one argument ``reading``."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(**arguments: Any) -> Any:
            said = {name: arguments.pop(name) for name in chosen}
            return command(reading=Reading(**said), **arguments)

        for name in reversed(chosen):
            run = OPTIONS[name](run)
        return run

    return decorate


def load_model(path: Path, groups: str | None, *, sha256: str | None = None) -> Calibrator:
    """Load a model file; refuse groups that it does not know or lacks."""
    from calibrant import model_file

    with naming(path):
        calibrator = model_file.load(path, sha256=sha256)
    is_grouped = hasattr(calibrator, "for_group")
    if is_grouped is (groups is None):
        raise click.UsageError(
            f"{path} was fitted {'with' if is_grouped else 'without'} groups: "
            + ("name the column with --groups" if is_grouped else "leave out --groups")
        )
    return calibrator


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
    reading: Reading,
    beside: Mapping[str, str] | None = None,
    *,
    usual_part: str = "test",
) -> CalibratedFile:
    """Read a file and calibrate it; ``beside`` are other columns to read, and their options."""
    from calibrant._files.apply import RowCalibration, request_of
    from calibrant._files.predictions import open_source
    from calibrant._files.values import groups_of, labels_of_model

    groups = reading.groups
    if reading.normalize:
        calibrator.set_params(normalize="rows")
    is_grouped = hasattr(calibrator, "for_group")
    if is_grouped and groups is None:
        raise click.UsageError("the model was fitted with groups; name them with --groups")
    request = request_of(calibrator, reading.request(usual_part, beside=beside))
    with open_source(path, request) as source:
        calibrate = RowCalibration(calibrator, source, groups if is_grouped else None)
        rows = source.read()
    with naming(path):
        probabilities, _ = calibrate(rows)
    y = labels_of_model(rows.labels, source, calibrator.classes_)
    named = None if groups is None else groups_of(rows.beside[groups], source.place)
    return CalibratedFile(
        probabilities, y, named, rows, source, calibrate.order, calibrator.classes_
    )
