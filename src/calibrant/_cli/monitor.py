"""``calibrant monitor``: count new rows, and exit with 6 after an alarm."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from calibrant._cli.options import PATH, SERVED, OutputPath, command, model_argument, shared
from calibrant._cli.reading import load_calibrator, serve
from calibrant._cli.showing import in_columns, naming_file, show, tell

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.source import Request
    from calibrant.monitor import CalibrationMonitor

EXIT_ALARM = 6
"""Neither a mistake nor a crash: whoever runs the command every night tells it from these."""


@command(name="monitor")
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
    request: Request,
    as_json: bool,
) -> int:
    """Test whether the probabilities of MODEL are still calibrated.

    NEW has scores of the kind of the fit, and labels if they are known. Pass each file once,
    in the order in which the labels arrived; a file that was counted before is skipped, unless
    --again is given. The order of rows within a file matters only with --time-column. Exit code 6
    is an alarm.

    \b
    Example:
      calibrant monitor model.calibrant monday.parquet --state monitor.json --alpha 0.01
    """  # noqa: D301
    from calibrant._atomic_file import only_one
    from calibrant._files.align import values_of
    from calibrant.errors import RepeatedBatchError
    from calibrant.monitor import write_page

    calibrator = load_calibrator(model, request)
    more = {} if time is None else {time: "--time-column"}
    # Parts of other calibrators, and files of before, have no summary to compare with.
    has_summary = vars(calibrator).get("score_summary_") is not None
    sums = calibrator._score_sums() if has_summary else None  # noqa: SLF001  (ours)
    served = serve(calibrator, new, replace(request, usual_part="test", more=more), sums)
    times = None if time is None else values_of(served.rows.column(time))
    unlabelled, is_repeated = None, False
    with only_one(state):
        monitor = _open(state, alpha, calibrator)
        try:
            with naming_file(new):
                if served.rows.labels is None:
                    unlabelled = monitor.update_unlabelled(served.probabilities)
                else:
                    batch = _identify(new, request.part)
                    monitor.update(served.probabilities, served.y, times, batch=batch, again=again)
            monitor.save(state)  # before the page: a run that dies there loses nothing
        except RepeatedBatchError as error:
            is_repeated = True
            tell(f"{new} is not counted again: {error} (--again)")
        if page is not None:
            write_page(page, monitor, source=str(model))
    status = monitor.status()
    result = {"state": str(state), "alpha": monitor.alpha, "repeated": is_repeated}
    result |= status.to_dict() | {"metrics": status.metrics()}
    facts = status.describe(monitor.alpha)
    result["unlabelled"] = None
    if unlabelled is not None:
        result["unlabelled"], facts = unlabelled.to_dict(), facts | unlabelled.describe()
        if sums is not None and sums.n_rows > 1:
            check = sums.compare()
            result["unlabelled"] = unlabelled.to_dict() | {"check": check.to_dict()}
            facts["scores of these rows"] = check.why
    show(result, as_json, in_columns(f"{status.n_rows:,} rows counted", facts))
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
