"""``calibrant monitor``: count new rows, and exit with 6 for an alarm, with 7 for repeated rows."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import (
    SERVED,
    file_argument,
    load_model,
    path_argument,
    reading_options,
    serve,
)
from calibrant._cli.showing import json_option, naming, plain_table, show

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._cli.reading import Reading

EXIT_ALARM, EXIT_REPEATED = 6, 7


@click.command(name="monitor")
@click.argument("model", type=path_argument)
@click.argument("new", type=file_argument)
@click.option(
    "--state", type=OutputPath(), required=True, help="File with the rows counted so far."
)
@click.option("--alpha", type=float, help="Chance of any false alarm; 0.01 at the first run.")
@click.option("--page", type=OutputPath(), help="Write a page to this HTML file.")
@click.option("--time-column", "time", metavar="NAME", help="Column of times, to order rows by.")
@click.option("--again", is_flag=True, help="Count NEW even if it was counted before.")
@reading_options("part", *SERVED)
@json_option
def monitor_command(
    model: Path,
    new: Path,
    state: Path,
    alpha: float | None,
    page: Path | None,
    time: str | None,
    again: bool,
    reading: Reading,
    as_json: bool,
) -> int:
    """Test whether the probabilities of MODEL are still calibrated.

    NEW has scores of the kind of the fit, and labels if they are known. Pass each file once,
    in the order in which the labels arrived; a file that was counted before is skipped, with exit
    code 7, unless --again is given. The order of rows within a file matters only with
    --time-column. Exit code 6 is an alarm.

    \b
    Example:
      calibrant monitor model.calibrant monday.parquet --state monitor.json --alpha 0.01
    """  # noqa: D301
    from calibrant._atomic_file import only_one
    from calibrant._files.values import values_of
    from calibrant.errors import RepeatedBatchError

    calibrator = load_model(model, reading.groups)
    beside = {} if time is None else {time: "--time-column"}
    served = serve(calibrator, new, reading, beside)
    times = None if time is None else values_of(served.rows.beside[time])
    rows, batch = served.probabilities, _identity(new, reading.part)
    with only_one(state):
        monitor, found = _open(state, alpha, calibrator), None
        try:
            with naming(new):
                if served.y is None:
                    found = monitor.update_unlabelled(rows)
                else:
                    found = monitor.update(rows, served.y, times, batch=batch, again=again)
            monitor.save(state)  # before the page: a run that dies there loses nothing
        except RepeatedBatchError as error:
            click.echo(f"calibrant: {new} is not counted again: {error} (--again)", err=True)
        if page is not None:
            from calibrant.monitor import write_page

            write_page(page, monitor, source=str(model))
    status = monitor.status()
    result = {"state": str(state), "alpha": monitor.alpha, "repeated": found is None}
    result |= status.to_dict() | {"metrics": status.metrics()}
    result["unlabelled"] = None if served.y is not None or found is None else found.to_dict()
    show(result, as_json, _table(result))
    if found is None:
        return EXIT_REPEATED
    return EXIT_ALARM if status.alarm else 0


def _identity(new: Path, part: str | None) -> str | None:
    """Name a file by its path and its bytes: a day with equal rows has another path."""
    if not new.is_file():
        return None
    with new.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{new.resolve()} {part or ''} {digest}"


def _open(state: Path, alpha: float | None, calibrator: Any) -> Any:
    """Go on from a state, or begin one."""
    from calibrant.model_file import dumps
    from calibrant.monitor import CalibrationMonitor

    classes, model = calibrator.classes_, hashlib.sha256(dumps(calibrator)).hexdigest()
    if not state.exists():
        return CalibrationMonitor(0.01 if alpha is None else alpha, classes=classes, model=model)
    monitor: Any = CalibrationMonitor.load(state, model=model)
    if alpha not in (None, monitor.alpha) or monitor.classes_.tolist() != classes.tolist():
        raise click.UsageError(
            f"{state} was started with --alpha {monitor.alpha} and {len(monitor.classes_)} "
            "classes, which cannot change later; use the same, or start another state file"
        )
    return monitor


def _table(result: dict[str, Any]) -> Any:
    """Lay out what was found for people."""
    alarm = f"[red]at row {result['alarm_row']:,}[/red]" if result["alarm"] else "no"
    change = result["change_row"]
    rows = {
        "e-value": f"{result['e_value']:.4g} (alarm at {1 / result['alpha']:,.0f})",
        "alarm": alarm,
        "change": "none found" if change is None else f"found at row {change:,}",
        "power that fits the last rows": f"{result['power']:.2f}",
    }
    means = {name: result[name] for name in ("accuracy", "confidence", "gap")}
    if result["unlabelled"] is not None:
        rows["expected accuracy, new rows"] = f"{result['unlabelled']['accuracy']:.4f}"
        p_value = result["unlabelled"]["p_value"]
        reference = "no labelled rows to compare" if math.isnan(p_value) else f"{p_value:.3g}"
        rows["p of equal class frequencies"] = reference
    interval = "{value:.4f} ({low:.4f} .. {high:.4f})"
    rows |= {name: interval.format(**mean) for name, mean in means.items()}
    table = plain_table(f"{result['n_rows']:,} rows counted", "")
    for row in rows.items():
        table.add_row(*row)
    return table
