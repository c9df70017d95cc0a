"""How commands show what they found, and name what they were given."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the path of a model file before what is wrong with it."""
    from calibrant.errors import ModelFileError

    try:
        yield
    except ModelFileError as error:
        raise type(error)(f"{path}: {error}") from error


def show(result: Any, as_json: bool, table: Any, *, to_stderr: bool = False) -> None:
    """Print a result as JSON, or as a table or text."""
    if as_json or isinstance(table, str):
        click.echo(json.dumps(result, allow_nan=True) if as_json else table, err=to_stderr)
    else:
        from rich.console import Console

        Console().print(table, markup=False)
