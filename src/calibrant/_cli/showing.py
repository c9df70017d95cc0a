"""How commands show results, as JSON or as text, and name what they were given."""

from __future__ import annotations

import json
import math
import reprlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

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


def tell(note: str) -> None:
    """Print one line on standard error."""
    click.echo(f"calibrant: {' '.join(note.split())}", err=True)


def to_json(result: Mapping[str, object]) -> str:
    """Return a result as one line of JSON, with its version; what is not finite is null."""
    return json.dumps({"version": JSON_VERSION, **_finite(result)}, allow_nan=False)


def _finite(value: object) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def show(result: Mapping[str, object], as_json: bool, text: str) -> None:
    """Print a result as JSON, or a text."""
    click.echo(to_json(result) if as_json else text)


def in_columns(title: str, facts: Mapping[str, str]) -> str:
    """Return facts in two columns, under a title."""
    width = max(map(len, facts), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {fact}" for name, fact in facts.items())])


def write_columns(out: Path, table: object) -> None:
    """Write a table of Arrow, or a dictionary of columns, whole or not at all."""
    import pyarrow as pa

    from calibrant._files.formats import holds, save_table

    if not holds(out, "table"):
        raise click.UsageError(f"{out}: this is a table; write it to .csv, .tsv or .parquet")
    save_table(out, pa.table(table))


def outline(facts: Mapping[str, Any], indent: str = "") -> list[str]:
    """Return a fact in a line, and facts inside of others indented; what is empty is left out."""
    lines = []
    for key, value in facts.items():
        is_list = isinstance(value, list | tuple) and len(value) > 0
        if isinstance(value, dict) and value:
            lines += [f"{indent}{key}", *outline(value, f"{indent}  ")]
        elif is_list and isinstance(value[0], dict):  # parts, or rows of a table
            for place, row in enumerate(value, start=1):
                lines += [f"{indent}{key} {place}", *outline(row, f"{indent}  ")]
        elif value == value and value not in (None, (), [], {}):  # noqa: PLR0124  (NaN)
            lines.append(f"{indent}{key}: {_brief(value)}")
    return lines


def _brief(value: object) -> str:
    if isinstance(value, str) and value.isprintable():
        return value
    return f"{value:.6g}" if isinstance(value, float) else SHORT.repr(value)
