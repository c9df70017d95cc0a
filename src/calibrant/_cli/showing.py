"""How commands show what they found, as JSON, text or tables, and name what they were given."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

JSON_VERSION = 1
"""Of what ``--json`` prints; docs/guides/cli.md has the fields. New fields do not change it."""

MOST_VALUES, LONGEST, NOTE_WIDTH = 8, 60, 80
"""Lists, such as the classes, are cut after so many values or letters."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put a path before what is wrong with what a file holds, unless it is named there."""
    from calibrant.errors import DataError, ModelFileError, ParameterError

    try:
        yield
    except (DataError, ModelFileError, ParameterError) as error:
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


def plain_table(*headings: str) -> Any:
    """Return an empty table; every column but the first is of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right")
    return table


def write_columns(out: Path, columns: dict[str, Any]) -> None:
    """Write a table of these columns, whole or not at all."""
    import pyarrow as pa

    from calibrant._atomic_file import replace_file
    from calibrant._files.apply import open_writer
    from calibrant._files.tables import is_table
    from calibrant._files.text import suffix_of

    if not is_table(out):
        raise click.UsageError(f"{out}: this is a table; write it to .csv, .tsv or .parquet")
    table = pa.table(columns)
    with replace_file(out) as file:
        writer = open_writer(suffix_of(out), file, table.schema)
        writer.write(table)
        writer.close()


def evaluation_table(
    source: str, result: Any, test: Any, shares: Any, more: Sequence[str] = ()
) -> Any:
    """Every metric with its interval, and the verdict of the test, if there was one."""
    from rich.console import Group
    from rich.text import Text

    from calibrant.metrics._table import METRICS
    from calibrant.report._verdict import describe_shares

    title = f"{source}: {result.n_rows:,} rows, {result.n_classes:,} classes"
    headings = ["metric", "value"]
    if result.n_resamples:
        headings.append(f"{result.confidence_level:.0%} interval")
    table = plain_table(*headings)
    for name, estimate in result.estimates().items():
        value, low, high = map(METRICS[name].text, estimate)
        interval = [f"{low} .. {high}"] if result.n_resamples else []
        table.add_row(METRICS[name].heading, value, *interval)
    lines = []
    if test is not None:
        of = "the confidence" if test.metric == "confidence" else f"class {shares.classes[1]}"
        verdict = "no sign of miscalibration" if test.p_value > 0.05 else "it is not calibrated"
        lines.append(f"Calibration test of {of}: p = {test.p_value:.3g}: {verdict}.")
    off = describe_shares(shares)
    lines += [f"{off[0].upper()}{off[1:]}."] if off else []
    if result.by_group is not None:
        lines += ["", str(result.by_group), f"Worst group: {result.by_group.worst}.", ""]
    return Group(Text(title), table, *map(Text, [*lines, *more]))


def comparison_table(comparison: Any) -> Any:
    """Compare methods, the best of each column starred, and the verdict under it."""
    from rich.console import Group
    from rich.text import Text

    from calibrant.metrics._table import metrics_of
    from calibrant.report import reach_verdict

    # Of two classes the class-wise error is that of the positive one.
    left_out = {"kernel_density_ece", "classwise_ece" if comparison.n_classes == 2 else None}
    known = metrics_of(comparison.n_classes).values()
    metrics = [metric for metric in known if metric.id not in left_out]
    headings = [*(metric.heading for metric in metrics), "fit, s"]
    # Units under the names: so the table fits into 80 columns.
    table = plain_table("method", *(heading.replace(", ", "\n") for heading in headings))
    columns = []
    for metric in metrics:
        texts = [metric.text(r.evaluation.estimates()[metric.id].value) for r in comparison.results]
        best = metric.best(map(float, texts))
        columns.append(
            [Text(f"{t}*", "bold") if float(t) == best else Text(f"{t} ") for t in texts]
        )
    for result, *cells in zip(comparison.results, *columns, strict=True):
        table.add_row(result.method, *cells, f"{result.fit_seconds:.2f}")
    failures = [f"{f.method} failed: {f.error}: {f.message}" for f in comparison.failures]
    lines = [reach_verdict(comparison).headline, *failures]
    if comparison.by_group is not None:
        method, own = list(comparison.by_group.items())[-1]
        lines += ["", str(own), f"Worst group with {method}: {own.worst}.", ""]
    if comparison.decisions is not None:
        lines += comparison.decisions.describe()
    return Group(table, *map(Text, lines))  # names of classes are data, not markup


def comparison_numbers(comparison: Any) -> dict[str, Any]:
    """Put a comparison into plain numbers, for programs."""
    from calibrant.report import reach_verdict

    verdict, more = reach_verdict(comparison), {}
    if comparison.by_group is not None:
        more["by_group"] = {name: own.to_dict() for name, own in comparison.by_group.items()}
    if comparison.decisions is not None:
        more["decisions"] = comparison.decisions.to_dict()
    return {
        "chosen": verdict.chosen,
        "verdict": verdict.headline,
        "methods": [
            {"method": r.method, "fit_seconds": r.fit_seconds, **r.evaluation.to_dict()}
            for r in comparison.results
        ],
        "failures": [{"method": f.method, "message": f.message} for f in comparison.failures],
        **more,
    }


def inspection_text(found: dict[str, Any]) -> str:
    """Return the description of a model file, a fact in a line and parts indented."""
    return "\n".join(_block(_without_repetition(found)))


def _without_repetition(found: dict[str, Any], classes: Any = None) -> dict[str, Any]:
    """Leave out classes that were named before, and give parts a heading."""
    known = found.get("classes", classes)
    facts: dict[str, Any] = {}
    for key, value in found.items():
        if key == "parts":
            for place, part in enumerate(value, start=1):
                inner = _without_repetition(part, known)
                facts[f"part {place}: {inner.pop('method')} ({inner.pop('class')})"] = inner
        elif key == "parameters":
            facts[key] = {k: v for k, v in value.items() if k != "classes" or v != known}
        elif key == "arrays":
            sizes = {name: " x ".join(map(str, shape)) for name, (_, shape) in value.items()}
            facts[key] = {name: f"{sizes[name]} {dtype}" for name, (dtype, _) in value.items()}
        elif key not in {"classes", "n_classes"} or classes is None or found["classes"] != classes:
            facts[key] = value
    return facts


def _block(found: dict[str, Any]) -> list[str]:
    """Facts under each other, their values in a column; what is not known is left out."""
    facts = {k: v for k, v in found.items() if v == v and v not in (None, (), [], {})}  # noqa: PLR0124  (NaN)
    width = max((len(key) for key, value in facts.items() if not _is_block(value)), default=0)
    lines: list[str] = []
    for key, value in facts.items():
        if _is_block(value):
            inner = _block(value) if isinstance(value, dict) else _table(value)
            lines += [key, *(f"  {line}" for line in inner)] if inner else []
        elif key == "notes":  # sentences, each of which says something else
            pieces = [piece for note in value for piece in wrap(_text(note), NOTE_WIDTH)]
            heads = [key, *[""] * len(pieces)]
            lines += [f"{h:<{width}}  {p}" for h, p in zip(heads, pieces, strict=False)]
        else:
            lines.append(f"{key:<{width}}  {_text(value)}")
    return lines


def _is_block(value: Any) -> bool:
    is_list = isinstance(value, list | tuple)
    return isinstance(value, dict) or (is_list and all(isinstance(item, dict) for item in value))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        texts = [_text(item) for item in value[:MOST_VALUES]]
        while len(texts) > 1 and len(", ".join(texts)) > LONGEST:
            texts.pop()
        more = f", ... ({len(value):,} in all)" if len(value) > len(texts) else ""
        return ", ".join(texts) + more
    text = str(value)
    return text if text.isprintable() else repr(text)


def _table(rows: Any) -> list[str]:
    """Rows with the same fields, in columns; those that nobody knows are left out."""
    heads = [head for head in rows[0] if any(row[head] == row[head] for row in rows)]
    cells = [heads, *([_text(row[head]) for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)) for row in cells]
