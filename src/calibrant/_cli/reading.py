"""What commands read, how they show results, and what they write: as JSON, text or a table."""

from __future__ import annotations

import json
import math
import reprlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._calibrators.checks import ScoreSums
    from calibrant._files.align import Aligned
    from calibrant._files.apply import CalibratedFile
    from calibrant._files.source import Request

JSON_VERSION = 1
"""Of what ``--json`` prints; docs/guides/cli.md has the fields. New fields do not change it."""

SHORT = reprlib.Repr()
SHORT.maxlist = SHORT.maxtuple = 8
SHORT.maxstring = SHORT.maxother = 100


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Put a path before what is wrong with what a file holds, unless it is named there."""
    from calibrant.errors import DataError, ModelFileError, ParameterError

    try:
        yield
    except (DataError, ModelFileError, ParameterError) as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def read_file(
    path: Path, request: Request, *, like: Aligned | None = None, positive_last: bool = False
) -> Aligned:
    """Read a file of labelled predictions whole; ``like`` is another part of the same data."""
    from calibrant._files.align import align
    from calibrant._files.formats import open_source

    known = None if like is None else like.classes
    source = open_source(path, replace(request, known_classes=known))
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
) -> Aligned:
    """Read a file whole, unless it is large: then in chunks, as a directory, with its first rows.

    All rows are needed by groups and features, and by other options as the caller says.
    """
    from calibrant._files.chunks import FileChunks
    from calibrant._files.formats import is_large

    if needs_all or request.beside or not is_large(path):
        return read_file(path, request, positive_last=positive_last)
    chunks = FileChunks(path, request, positive_last=positive_last, progress=progress)
    tell(chunks.note)
    check_normalize(path, request, chunks.first.rows.kind)
    return chunks.aligned()


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
    tell(served.calibration.source.note)
    return served


def tell(note: str) -> None:
    """Print a note, if there is one, as one line on standard error."""
    if note:
        click.echo(f"calibrant: {' '.join(note.split())}", err=True)


def to_json(result: Mapping[str, object]) -> str:
    """Return a result as one line of JSON, with its version; what is not finite is null."""
    return json.dumps(_finite({"version": JSON_VERSION, **result}), allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def show(result: Mapping[str, object], text: str, page: Path | None = None) -> None:
    """Print a result as JSON, if that is asked for, or else a text, and where its page is."""
    if click.get_current_context().params.get("as_json"):
        click.echo(to_json(result))
        return
    click.echo(text)
    if page is not None:
        click.echo(f"Report: {page.resolve().as_uri()}")


def in_columns(title: str, facts: Mapping[str, str]) -> str:
    """Return facts in two columns, under a title."""
    width = max(map(len, facts), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {fact}" for name, fact in facts.items())])


def write_columns(out: Path, table: object) -> None:
    """Write a table of Arrow, or a dictionary of columns, whole or not at all."""
    import pyarrow as pa

    from calibrant._files.formats import holds, save_table, suffixes_of

    if not holds(out, "table"):
        writable = suffixes_of("table", to_write=True)
        raise click.UsageError(f"{out}: this is a table; write it to {writable}")
    save_table(out, pa.table(table))


def outline(facts: Mapping[str, object], indent: str = "") -> list[str]:
    """Return a fact in a line, and facts inside of others indented; what is empty is left out."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, dict) and value:
            lines += [f"{indent}{key}", *outline(value, f"{indent}  ")]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            for place, row in enumerate(value, start=1):  # parts, or rows of a table
                lines += [f"{indent}{key} {place}", *outline(row, f"{indent}  ")]
        elif value == value and value not in (None, (), [], {}):  # noqa: PLR0124  (NaN)
            is_text = isinstance(value, str) and value.isprintable()
            brief = f"{value:.6g}" if isinstance(value, float) else SHORT.repr(value)
            lines.append(f"{indent}{key}: {value if is_text else brief}")
    return lines
