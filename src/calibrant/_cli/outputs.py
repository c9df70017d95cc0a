"""What commands write: never over a file that they read, or write, too."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import Any

import click


class OutputPath(click.Path):
    """A file or directory to write. All other paths that a command takes are inputs."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(path_type=Path, allow_dash=allow_dash)


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

    inputs: list[Path] = []
    outputs: dict[Path, str] = {}
    for param in params:
        value = values.get(str(param.name))
        if not value or not (isinstance(param.type, click.Path) or param.name == "priors"):
            continue
        path = Path(value)
        if not isinstance(param.type, OutputPath):
            inputs.append(path)  # class frequencies are given as text, or as a file of rows
        elif str(path) == "-" and not param.type.allow_dash:
            raise click.UsageError("only apply writes to standard output; name a file")
        elif str(path) != "-":
            for other, option in outputs.items():
                if is_same(path, other):
                    raise PredictionFileError(
                        f"{path} is named by {option} and by {param.opts[-1]}; write to two files"
                    )
            outputs[path] = param.opts[-1]
    for out in outputs:
        for path in inputs:
            if is_same(out, path):
                raise PredictionFileError(f"{out} is also an input; write to another file")
            if _is_data_in(out, path):
                raise PredictionFileError(
                    f"{out} is also an input, as a file in {path}; write to another directory"
                )


def is_same(first: Path, second: Path) -> bool:
    """Whether two paths lead to one file: also where it is not there yet, or has two names."""
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    return first.exists() and second.exists() and first.samefile(second)


def _is_data_in(out: Path, directory: Path) -> bool:
    """Whether an output would be read as data of a directory the next time."""
    from calibrant._files.predictions import find_format

    is_data = bool(out.suffix) and find_format(out) is not None
    return is_data and Path(os.path.realpath(out)).is_relative_to(os.path.realpath(directory))
