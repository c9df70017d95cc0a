"""Files of predictions and models, as commands read them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from calibrant._cli.showing import naming_file, tell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._calibrators.checks import ScoreSums
    from calibrant._files.align import Aligned
    from calibrant._files.apply import CalibratedFile
    from calibrant._files.chunks import FileChunks
    from calibrant._files.request import Request


def read_file(
    path: Path, request: Request, *, like: Aligned | None = None, positive_last: bool = False
) -> Aligned:
    """Read a file of labelled predictions whole; ``like`` is another part of the same data."""
    from calibrant._files.align import align
    from calibrant._files.formats import open_source

    known = None if like is None else like.classes
    source = open_source(path, replace(request, known_classes=known))
    if source.note:
        tell(source.note)
    check_normalize(path, request, source.kind)
    return align(source.read(), request, like=like, positive_last=positive_last)


def read_any(
    path: Path,
    request: Request,
    *,
    needs_all: bool,
    positive_last: bool,
    progress: Callable[..., None],
) -> Aligned | FileChunks:
    """Read a file whole, unless it is large: then it is read in chunks, as a directory is.

    All rows are needed by groups and features, and by other options as the caller says.
    """
    from calibrant._files.chunks import FileChunks
    from calibrant._files.formats import is_large

    if needs_all or request.beside or not is_large(path):
        return read_file(path, request, positive_last=positive_last)
    chunks = FileChunks(path, request, positive_last=positive_last, progress=progress)
    if chunks.note:
        tell(chunks.note)
    check_normalize(path, request, chunks.rows.kind)
    return chunks


def check_normalize(path: Path, request: Request, kind: str) -> None:
    """Refuse ``--normalize`` where rows have no sums."""
    if request.normalize and kind != "probabilities":
        raise click.UsageError(f"--normalize is for probabilities; {path} has scores {kind!r}")


def load_calibrator(path: Path, request: Request) -> Calibrator:
    """Load a model file; refuse groups that it does not know or lacks."""
    from calibrant import model_file

    with naming_file(path):
        calibrator = model_file.load(path)
    is_grouped = hasattr(calibrator, "for_group")
    if is_grouped and request.groups is None:
        raise click.UsageError(f"{path} was fitted with groups: name the column with --groups")
    if not is_grouped and request.groups is not None:
        raise click.UsageError(f"{path} was fitted without groups: leave out --groups")
    if request.normalize:
        check_normalize(path, request, calibrator.scores)
        calibrator.set_params(normalize="rows")
    return calibrator


def serve(
    calibrator: Calibrator, path: Path, request: Request, sums: ScoreSums | None = None
) -> CalibratedFile:
    """Read a file whole and calibrate it; errors name it, and its scores are added to ``sums``."""
    from calibrant._files.apply import calibrate_file

    with naming_file(path):
        served = calibrate_file(calibrator, path, request, sums)
    if note := served.calibration.source.note:
        tell(note)
    return served
