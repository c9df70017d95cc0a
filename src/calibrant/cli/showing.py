"""How commands show what they found, and name what they were given."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON_VERSION = 1
"""Of what ``--json`` prints; docs/cli.md has the fields. New fields do not change it."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put a path before what is wrong with a model file, or with data, unless it is named there."""
    from calibrant.errors import DataError, ModelFileError

    try:
        yield
    except (DataError, ModelFileError) as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


class NotConvergedError(click.ClickException):
    """A solver did not reach its optimum, and ``--strict`` asked for that."""

    exit_code = 5

    def show(self, file: Any = None) -> None:
        """Print it as all other errors of the command."""
        click.echo(f"calibrant: {self.message}", file, err=True)


def to_json(result: dict[str, Any]) -> str:
    """Return a result as one line of JSON, with its version; what is not finite is null."""
    return json.dumps({"version": JSON_VERSION, **_finite(result)}, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def show(result: dict[str, Any], as_json: bool, table: Any, *, to_stderr: bool = False) -> None:
    """Print a result as JSON, or as a table or text."""
    if as_json or isinstance(table, str):
        click.echo(to_json(result) if as_json else table, err=to_stderr)
    else:
        from rich.console import Console

        Console().print(table, markup=False)
