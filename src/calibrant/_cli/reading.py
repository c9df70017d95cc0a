"""Files of predictions as commands read them, and files that a model calibrates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.showing import naming, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.chunks import FileChunks
    from calibrant._files.columns import Request
    from calibrant._files.source import RawPredictions, Source


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said about files of predictions: a field for each option."""

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

        by_row = {} if self.groups is None else {self.groups: "--groups"}
        by_row |= dict.fromkeys(self.features or (), "--features")
        return Request(
            self.part,
            usual_part,
            kind=self.kind,
            labels=self.labels,
            classes=self.classes if classes is None else classes,
            label=self.label_column,
            columns=self.columns or (),
            ignore=self.ignore or (),
            beside=by_row | dict(beside or {}),
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
        """Read a file of predictions whole; ``like`` is another part of the same data."""
        from calibrant._files.predictions import open_source

        classes = None if like is None else like.classes
        with open_source(path, self.request(usual_part, classes=classes, beside=beside)) as source:
            raw = source.read()
        if raw.note:
            tell(raw.note)
        self._check_normalize(path, raw.kind)
        return self._align(positive_last)(raw, like=like)

    def open(
        self,
        path: Path,
        *,
        usual_part: str,
        positive_last: bool,
        needs_whole: Mapping[str, Any],
        progress: Callable[..., None],
    ) -> Aligned | FileChunks:
        """Read a file whole, unless it is large: then, as a directory, it is read in chunks.

        ``needs_whole`` are options that cannot be used with chunks, and their values; so are
        groups and features.
        """
        from calibrant._files.chunks import FileChunks, is_read_in_chunks

        by_row = {"--groups": self.groups, "--features": self.features, **needs_whole}
        is_whole = not path.is_dir() and any(value is not None for value in by_row.values())
        if is_whole or not is_read_in_chunks(path):
            return self.read(path, usual_part=usual_part, positive_last=positive_last)
        if path.is_dir():
            self.check_directory(path, by_row)
        align = self._align(positive_last)
        chunks = FileChunks(path, self.request(usual_part), align, progress)
        self._check_normalize(path, chunks.kind)
        return chunks

    def check_directory(self, path: Path, by_row: Mapping[str, Any]) -> None:
        """Refuse options that need one file, and say which files of a directory are ignored."""
        from calibrant._files.chunks import ignored_files

        for option, value in {"--part": self.part, "--labels": self.labels, **by_row}.items():
            if value is not None:
                raise click.UsageError(f"{option} needs one file; {path} is a directory")
        if note := ignored_files(path):
            tell(note)

    def _align(self, positive_last: bool) -> Callable[..., Aligned]:
        """Return what finds the class of each column."""
        from calibrant._files.align import align

        return partial(
            align,
            classes=self.classes,
            normalize="rows" if self.normalize else None,
            positive=self.positive,
            positive_last=positive_last,
        )

    def _check_normalize(self, path: Path, kind: str) -> None:
        """Refuse ``--normalize`` where rows have no sums."""
        if self.normalize and kind != "probabilities":
            raise click.UsageError(f"--normalize is for probabilities; {path} has scores {kind!r}")

    def load_model(self, path: Path) -> Calibrator:
        """Load a model file; refuse groups that it does not know or lacks."""
        from calibrant import model_file

        with naming(path):
            calibrator = model_file.load(path)
        is_grouped = hasattr(calibrator, "for_group")
        if is_grouped and self.groups is None:
            raise click.UsageError(f"{path} was fitted with groups: name the column with --groups")
        if not is_grouped and self.groups is not None:
            raise click.UsageError(f"{path} was fitted without groups: leave out --groups")
        if self.normalize:
            self._check_normalize(path, calibrator.scores)
            calibrator.set_params(normalize="rows")
        return calibrator

    def words(self, names: Sequence[str]) -> list[str]:
        """Return options as they are typed."""
        result = []
        for name in names:
            value = getattr(self, name)
            if not value:
                continue
            result.append("--scores" if name == "kind" else f"--{name.replace('_', '-')}")
            if isinstance(value, tuple):
                value = ",".join(f'"{n}"' if "," in n else n for n in value)
            if value is not True:
                result.append(str(value))
        return result


@dataclass(frozen=True, slots=True)
class CalibratedFile:
    """A file that was read and calibrated; ``y`` is None without labels."""

    probabilities: NDArray[np.float64]
    y: NDArray[Any] | None
    rows: RawPredictions
    source: Source
    order: NDArray[np.int64] | None


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
    from calibrant._files.values import labels_of_model

    request = request_of(calibrator, reading.request(usual_part, beside=beside))
    with open_source(path, request) as source:
        calibrate = RowCalibration(calibrator, source, reading.groups)
        rows = source.read()
    with naming(path):
        probabilities, _ = calibrate(rows)
    y = labels_of_model(rows.labels, source, calibrator.classes_)
    return CalibratedFile(probabilities, y, rows, source, calibrate.order)
