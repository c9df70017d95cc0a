"""What commands write: never over a file that they read, or write, too."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputPath(click.Path):
    """A file or directory to write. All other paths that a command takes are inputs.

    ``is_locked`` says that a lock file beside it keeps other processes out.
    """

    def __init__(self, *, allow_dash: bool = False, is_locked: bool = False) -> None:
        super().__init__(path_type=Path, allow_dash=allow_dash)
        self.is_locked = is_locked


def check_outputs(command: click.Command) -> None:
    """Let a command, or each command of a group, refuse its outputs before it does anything."""
    if isinstance(command, click.Group):
        for own in command.commands.values():
            check_outputs(own)
        return
    run: Any = command.callback

    @wraps(run)
    def checked(*arguments: Any, **options: Any) -> Any:
        _refuse(command.params, click.get_current_context().params)
        return run(*arguments, **options)

    command.callback = checked


def _refuse(params: list[click.Parameter], values: dict[str, Any]) -> None:
    """Refuse an output that is also an input or another output, by whatever name."""
    from calibrant.errors import PredictionFileError

    told = [(param, values[str(param.name)]) for param in params if values.get(str(param.name))]
    outputs = [(param, path) for param, path in told if isinstance(param.type, OutputPath)]
    # Class frequencies of new rows are given as text, or as a file of rows.
    inputs = [
        Path(path)
        for param, path in told
        if (isinstance(param.type, click.Path) and not isinstance(param.type, OutputPath))
        or param.name == "priors"
    ]
    for place, (param, out) in enumerate(outputs):
        if str(out) == "-":
            if not param.type.allow_dash:  # type: ignore[attr-defined]
                raise click.UsageError("only apply writes to standard output; name a file")
            continue
        is_locked = param.type.is_locked  # type: ignore[attr-defined]
        written = [out, Path(f"{os.path.realpath(out)}.lock")] if is_locked else [out]
        if any(_is_same(own, path) for own in written for path in inputs):
            raise PredictionFileError(f"{out} is also an input; write to another file")
        for directory in inputs:
            if _is_in(out, directory):
                raise PredictionFileError(
                    f"{out} is also an input, as a file in {directory}; write to another directory"
                )
        for other, path in outputs[:place]:
            if any(_is_same(own, path) for own in written) or (
                other.type.is_locked  # type: ignore[attr-defined]
                and _is_same(out, Path(f"{os.path.realpath(path)}.lock"))
            ):
                raise PredictionFileError(
                    f"{out} is named by {other.opts[-1]} and by {param.opts[-1]}; write to two "
                    "files"
                )


def _is_same(out: Path, path: Path) -> bool:
    """Whether two paths lead to one file: also where it is not there yet, or has two names."""
    if str(path) != "-" and os.path.realpath(out) == os.path.realpath(path):
        return True
    return (own := _identity(out)) is not None and own == _identity(path)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file or directory from all others, if it is there."""
    with suppress(OSError, ValueError, AttributeError):  # no file, or no standard input
        is_stdin = str(path) == "-"
        found = os.fstat(sys.stdin.fileno()) if is_stdin else Path(os.path.realpath(path)).stat()
        if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
            return found.st_dev, found.st_ino
    return None


def _is_in(out: Path, directory: Path) -> bool:
    """Whether an output is data in a directory that is read, or would be when it is written."""
    if not directory.is_dir():
        return False
    whole, own = Path(os.path.realpath(out)), _identity(out)
    if _is_data(whole) and whole.is_relative_to(os.path.realpath(directory)):
        return True
    return own is not None and any(_identity(file) == own for file in _data_in(directory))


def _data_in(directory: Path) -> Iterator[Path]:
    return (file for file in directory.rglob("*") if _is_data(file) and file.is_file())


def _is_data(path: Path) -> bool:
    """Whether the suffix is that of a table, of arrays or of a log."""
    from calibrant._files.records import LOGS
    from calibrant._files.tables import is_table
    from calibrant._files.text import suffix_of

    arrays = {".npz", ".npy", ".h5", ".hdf5"}
    return bool(path.suffix) and (is_table(path) or suffix_of(path) in arrays | LOGS)
