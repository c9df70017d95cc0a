"""Rows that a model calibrates for a command: ``decide``, ``monitor``, and ``fit --priors``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.showing import naming

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._cli.reading import Reading
    from calibrant._files.source import FileChunk, Source

groups_option = click.option(
    "--groups", metavar="COLUMN", help="Column, array or field with the group of each row."
)


def check_groups(calibrator: Any, model: Path, groups: str | None) -> bool:
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
    """A file that was read and calibrated.

    ``y`` is None without labels; options that a row lacks have probability 0.
    """

    probabilities: NDArray[Any]
    y: NDArray[Any] | None
    groups: NDArray[Any] | None
    chunk: FileChunk
    source: Source
    order: NDArray[np.int64] | None
    classes: NDArray[Any]

    @property
    def has_absent(self) -> bool:
        """Whether rows lack some of the options."""
        return self.source.log is not None and self.source.log.has_absent

    def table(self, out: Path) -> Any:
        """Return the columns of the file with probabilities for scores, as ``apply`` writes it."""
        import numpy as np

        from calibrant._files.writers import Output, calibrated_table

        dtype = self.probabilities.dtype
        output = Output(out, self.classes, self.source, self.order, dtype)
        keep = np.ones(len(self.probabilities), dtype=bool)
        return calibrated_table(output, self.probabilities, self.chunk, keep)


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
    from calibrant._files.apply import RowCalibration, to_apply
    from calibrant._files.predictions import open_source
    from calibrant._files.values import groups_of, read_labels

    if reading.normalize:
        calibrator.set_params(normalize="rows")
    is_grouped = hasattr(calibrator, "for_group")
    if is_grouped and groups is None:
        raise click.UsageError("the model was fitted with groups; name them with --groups")
    with open_source(
        path,
        part=part,
        usual_part=usual_part,
        kind=calibrator.scores,
        selection=to_apply(calibrator, reading.selection(beside), groups),
    ) as source:
        calibrate = RowCalibration(calibrator, source, groups if is_grouped else None)
        chunk = source.join()
    with naming(path):
        probabilities, _ = calibrate(chunk)
    classes, labels = calibrator.classes_, chunk.labels()
    is_sure = source.layout is None or source.layout.is_named
    if labels is not None and not is_sure and not {*map(str, labels)} <= {*map(str, classes)}:
        labels = None
    as_text = classes.dtype.kind in "OU"
    y = None if labels is None else read_labels(labels, source.place, as_text=as_text)
    named = None if groups is None else groups_of(chunk.beside[groups], source.place)
    return CalibratedFile(probabilities, y, named, chunk, source, calibrate.order, classes)
