"""``calibrant monitor``: count new rows, and exit with 6 after an alarm."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.options import PATH, SERVED, OutputPath, model_argument, shared
from calibrant._cli.reading import serve
from calibrant._cli.showing import naming, plain_table, show, tell

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._cli.reading import Reading
    from calibrant.monitor import CalibrationMonitor

EXIT_ALARM = 6
"""Neither a mistake nor a crash: whoever runs the command every night tells it from these."""


@click.command(name="monitor")
@model_argument
@click.argument("new", type=PATH)
@click.option(
    "--state", type=OutputPath(), required=True, help="File with the rows counted so far."
)
@click.option("--alpha", type=float, help="Chance of any false alarm; 0.01 at the first run.")
@click.option("--page", type=OutputPath(), help="Write a page to this HTML file.")
@click.option("--time-column", "time", metavar="NAME", help="Column of times, to order rows by.")
@click.option("--again", is_flag=True, help="Count NEW even if it was counted before.")
@shared(*SERVED, "as_json")
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
    in the order in which the labels arrived; a file that was counted before is skipped, unless
    --again is given. The order of rows within a file matters only with --time-column. Exit code 1
    is an alarm.

    \b
    Example:
      calibrant monitor model.calibrant monday.parquet --state monitor.json --alpha 0.01
    """  # noqa: D301
    from calibrant._atomic_file import only_one
    from calibrant._files.values import values_of
    from calibrant.errors import RepeatedBatchError
    from calibrant.monitor import write_page

    calibrator = reading.load_model(model)
    served = serve(calibrator, new, reading, {} if time is None else {time: "--time-column"})
    rows, unlabelled, is_repeated = served.probabilities, None, False
    times = None if time is None else values_of(served.rows.beside[time])
    with only_one(state):
        monitor = _open(state, alpha, calibrator)
        try:
            with naming(new):
                if served.y is None:
                    unlabelled = monitor.update_unlabelled(rows)
                else:
                    batch = _identify(new, reading.part)
                    monitor.update(rows, served.y, times, batch=batch, again=again)
            monitor.save(state)  # before the page: a run that dies there loses nothing
        except RepeatedBatchError as error:
            is_repeated = True
            tell(f"{new} is not counted again: {error} (--again)")
        if page is not None:
            write_page(page, monitor, source=str(model))
    status = monitor.status()
    result = {"state": str(state), "alpha": monitor.alpha, "repeated": is_repeated}
    result |= status.to_dict() | {"metrics": status.metrics()}
    result["unlabelled"] = None if unlabelled is None else unlabelled.to_dict()
    table = plain_table(f"{status.n_rows:,} rows counted", "", rows=_describe(result))
    show(result, as_json, table)
    return EXIT_ALARM if status.alarm else 0


def _identify(new: Path, part: str | None) -> str | None:
    """Name a file by its path and its bytes: a day with equal rows has another path."""
    if not new.is_file():
        return None
    with new.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{new.resolve()} {part or ''} {digest}"


def _open(state: Path, alpha: float | None, calibrator: Calibrator) -> CalibrationMonitor:
    """Go on from a state, or begin one."""
    from calibrant.model_file import dumps
    from calibrant.monitor import CalibrationMonitor

    classes, model = calibrator.classes_, hashlib.sha256(dumps(calibrator)).hexdigest()
    if not state.exists():
        return CalibrationMonitor(0.01 if alpha is None else alpha, classes=classes, model=model)
    monitor = CalibrationMonitor.load(state, model=model)
    if alpha not in (None, monitor.alpha):
        raise click.UsageError(
            f"{state} was started with --alpha {monitor.alpha}, which cannot change later; use the "
            "same, or start another state file"
        )
    return monitor


def _describe(result: dict[str, Any]) -> dict[str, str]:
    """Return what was found in words."""
    change, unlabelled = result["change_row"], result["unlabelled"]
    facts = {
        "e-value": f"{result['e_value']:.4g} (alarm at {1 / result['alpha']:,.0f})",
        "alarm": f"at row {result['alarm_row']:,}" if result["alarm"] else "no",
        "change": "none found" if change is None else f"found at row {change:,}",
        "power that fits the last rows": f"{result['power']:.2f}",
    }
    if unlabelled is not None:
        p_value = unlabelled["p_value"]
        reference = "no labelled rows to compare" if math.isnan(p_value) else f"{p_value:.3g}"
        facts["expected accuracy, new rows"] = f"{unlabelled['accuracy']:.4f}"
        facts["p of equal class frequencies"] = reference
    interval = "{value:.4f} ({low:.4f} .. {high:.4f})"
    means = {name: interval.format(**result[name]) for name in ("accuracy", "confidence", "gap")}
    return facts | means
