"""How commands show what they found, as JSON, text or tables, and name what they were given."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

JSON_VERSION = 1
"""Of what ``--json`` prints; docs/guides/cli.md has the fields. New fields do not change it."""

MOST_VALUES, LONGEST, NOTE_WIDTH = 8, 60, 80
"""Lists, such as the classes, are cut after so many values or letters."""

BROKEN = {"predicted/observed": "predicted\n/observed", "intercept": "inter-\ncept"}
"""Headings of columns on two lines."""

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
    # Where there is no room lines are broken: the sign that they were cut is not in every encoding.
    table.add_column(headings[0], overflow="fold")
    for heading in headings[1:]:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def write_columns(out: Path, table: Any) -> None:
    """Write a table of Arrow, or a dictionary of columns, whole or not at all."""
    import pyarrow as pa

    from calibrant._files.predictions import is_table
    from calibrant._files.writers import save_table

    if not is_table(out):
        raise click.UsageError(f"{out}: this is a table; write it to .csv, .tsv or .parquet")
    save_table(out, pa.table(table))


def evaluation_table(
    source: str,
    result: Any,
    test: Any,
    shares: Any,
    more: Sequence[str] = (),
    *,
    right_answers: Any = None,
) -> Any:
    """Every metric with its interval, and the verdict of the test, if there was one.

    ``right_answers`` is the share of these, which stands for the accuracy of stated confidences.
    """
    from rich.console import Group
    from rich.text import Text

    from calibrant._text import describe_shares
    from calibrant.metrics import METRICS

    title = f"{source}: {result.n_rows:,} rows, {result.n_classes:,} classes"
    headings = ["metric", "value"]
    if result.n_resamples:
        headings.append(f"{result.confidence_level:.0%} interval")
    table = plain_table(*headings)
    if right_answers is not None:
        value, low, high = map(METRICS["accuracy"].text, right_answers)
        table.add_row("right answers, %", value, *[f"{low} .. {high}"] * bool(result.n_resamples))
    binary = result.binary
    for name, (value, interval) in ({} if binary is None else binary.texts()).items():
        own = interval.replace(" to ", " .. ") or "none: see below"
        table.add_row(name, value, *[own] * bool(result.n_resamples))
    for name, estimate in result.estimates().items():
        if name == "accuracy" and right_answers is not None:
            continue
        value, low, high = map(METRICS[name].text, estimate)
        own = "" if math.isnan(estimate.low) else f"{low} .. {high}"
        table.add_row(METRICS[name].heading, value, *[own] * bool(result.n_resamples))
    lines = [*result.missing]
    if result.n_sampled is not None:
        lines.append(
            "Bins of equal mass, TECE and intervals of errors are of "
            f"{result.n_sampled:,} of {result.n_rows:,} rows, sampled by content."
        )
    if test is not None:
        of = "the confidence" if test.metric == "confidence" else f"class {shares.classes[1]}"
        verdict = "no sign of miscalibration" if test.p_value > 0.05 else "it is not calibrated"
        lines.append(f"Calibration test of {of}: p = {test.p_value:.3g}: {verdict}.")
    if binary is not None:
        lines += binary.describe() if test is None or test.p_value <= 0.05 else []
        lines += binary.missing
    else:
        off = describe_shares(shares)
        lines += [f"{off[0].upper()}{off[1:]}."] if off else []
    if result.by_group is not None:
        lines += ["", str(result.by_group), f"Worst group: {result.by_group.worst}.", ""]
    return Group(Text(title), table, *map(Text, [*lines, *more]))


def comparison_table(comparison: Any, listed: Collection[str] | None = None) -> Any:
    """Compare methods, the best of each column starred, and the verdict under it.

    With ``listed`` there are no others than these methods, each with the interval of its
    difference, and no verdict, which was shown before.
    """
    from rich.console import Group
    from rich.text import Text

    from calibrant.metrics import METRICS

    is_short = listed is not None or comparison.n_classes == 2
    left_out = {"kernel_density_ece", *(["classwise_ece", "thresholded_ece"] if is_short else [])}
    left_out |= {"accuracy"} if comparison.n_classes == 2 else set()  # AUC has its place
    best = comparison.best_texts()
    metrics = [METRICS[name] for name in best if name not in left_out]
    after_nll = 1 + metrics.index(METRICS["negative_log_likelihood"])
    headings = [*(metric.heading for metric in metrics), "fit, s"]
    headings[-1:-1] = [BROKEN.get(title, title) for title in comparison.results[0].binary_texts]
    if listed is not None:
        level = comparison.settings["confidence_level"]
        headings.insert(after_nll, f"NLL minus {comparison.baseline}, {level:.0%} interval")
    # Units under the names: so the table fits into 80 columns.
    table = plain_table("method", *(heading.replace(", ", "\n") for heading in headings))
    rows = comparison.distinct_rows()
    shown = {label: r for label, r in rows.items() if listed is None or r.method in listed}
    for label, result in shown.items():
        cells: list[Any] = []
        for metric in metrics:
            text = metric.text(result.evaluation.estimates()[metric.id].value)
            is_best = float(text) == float(best[metric.id])
            cells.append(Text(f"{text}*", "bold") if is_best else Text(f"{text} "))
        if listed is not None:
            gap = result.difference
            cells.insert(after_nll, "" if gap is None else f"{gap.low:+.4f} .. {gap.high:+.4f}")
        cells += [text for text, _ in result.binary_texts.values()]
        table.add_row(label, *cells, f"{result.fit_seconds:.2f}")
    lines = [comparison.verdict.headline] if listed is None else []
    if comparison.is_stated:
        share = comparison.results[0].evaluation.binary.observed
        lines.append(f"Right answers: {share:.1%} of those that judge.")
    lines += [f"{f.method} failed: {f.error}: {f.message}" for f in comparison.failures]
    shared = [label for label, r in shown.items() if label != r.method]
    lines += [f"{label}: one row, since they are the same fit here." for label in shared]
    if len(shown) < len(rows):
        lines.append(f"* best of all methods; {len(rows) - len(shown)} more are in the report.")
    if comparison.by_group is not None:
        method, own = list(comparison.by_group.items())[-1]
        lines += ["", str(own), f"Worst group with {method}: {own.worst}.", ""]
    if comparison.decisions is not None:
        lines += comparison.decisions.describe()
    return Group(table, *map(Text, lines))  # names of classes are data, not markup


def key_table(comparison: Any) -> Any:
    """Show the numbers of the verdict, before calibration and after."""
    level = f"{comparison.settings['confidence_level']:.0%} interval after"
    table = plain_table("", "before", f"after {comparison.verdict.applied}", level)
    for own in comparison.key_numbers():
        table.add_row(own["words"], own["before"], own["after"], own["interval"])
    return table


def comparison_numbers(comparison: Any) -> dict[str, Any]:
    """Put a comparison into plain numbers, for programs."""
    verdict, more = comparison.verdict, {}
    left_out: set[str] = set()
    if comparison.is_stated:
        more["right_answers"] = comparison.results[0].evaluation.binary.observed
        left_out = {"accuracy"}
    if comparison.by_group is not None:
        more["by_group"] = {name: own.to_dict() for name, own in comparison.by_group.items()}
    if comparison.decisions is not None:
        more["decisions"] = comparison.decisions.to_dict()
    return {
        "chosen": verdict.chosen,
        "verdict": verdict.headline,
        "methods": [
            {"method": r.method, "fit_seconds": r.fit_seconds}
            | {k: v for k, v in r.evaluation.to_dict().items() if k not in left_out}
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
