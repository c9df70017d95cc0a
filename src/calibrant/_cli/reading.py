"""Files of predictions, models and costs, as commands read them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.showing import naming, tell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.apply import CalibratedFile
    from calibrant._files.chunks import FileChunks
    from calibrant._files.request import Request
    from calibrant.decisions import CostTable


def read(
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
        return read(path, request, positive_last=positive_last)
    chunks = FileChunks(path, request, positive_last=positive_last, progress=progress)
    if chunks.note:
        tell(chunks.note)
    check_normalize(path, request, chunks.rows.kind)
    return chunks


def check_normalize(path: Path, request: Request, kind: str) -> None:
    """Refuse ``--normalize`` where rows have no sums."""
    if request.normalize and kind != "probabilities":
        raise click.UsageError(f"--normalize is for probabilities; {path} has scores {kind!r}")


def load_model(path: Path, request: Request) -> Calibrator:
    """Load a model file; refuse groups that it does not know or lacks."""
    from calibrant import model_file

    with naming(path):
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


def serve(calibrator: Calibrator, path: Path, request: Request) -> CalibratedFile:
    """Read a file whole and calibrate it; errors name it."""
    from calibrant._files.apply import calibrate_file

    with naming(path):
        served = calibrate_file(calibrator, path, request)
    if note := served.calibration.source.note:
        tell(note)
    return served


def read_cost_file(
    path: Path, classes: NDArray[Any], positive: str | None, *, is_single: bool
) -> CostTable:
    """Return the costs of a file for these classes.

    The last class is positive if there ``is_single`` column of scores. In files the classes of
    columns are always known, which does not tell the positive one.
    """
    from calibrant.decisions import read_costs

    costs, pos_label = _read_costs(path), None
    if isinstance(costs, dict):
        by_text = {str(label): label for label in classes.tolist()}
        pos_label = by_text.get(positive, positive) if positive is not None else None
        if is_single and positive is None:
            pos_label = classes[-1]
    with naming(path):
        return read_costs(costs, classes, pos_label=pos_label)


def _read_costs(path: Path) -> Any:
    """Return a data frame of costs, or an object of JSON; all costs are numbers."""
    import pandas as pd

    from calibrant.errors import PredictionFileError

    try:
        if path.suffix.lower() == ".json":
            costs = json.loads(path.read_text(encoding="utf-8"))
            cells = [*costs.values()]
        else:
            costs = pd.read_csv(path, index_col=0, dtype={0: str})
            cells = costs.to_numpy().ravel().tolist()
    except (ValueError, RecursionError, AttributeError) as error:
        raise PredictionFileError(
            f"{path} is neither CSV with a row for each true class and a column for each "
            f'action, nor JSON {{"false_positive": 1, "false_negative": 20}}: {error}'
        ) from error
    for cell in cells:
        if not isinstance(cell, int | float):
            raise PredictionFileError(
                f"{path}: {cell!r} is not a number; costs that differ by row are for "
                "calibrant.decisions in Python"
            )
    return costs
