"""``calibrant monitor``: count new rows, tell what was found, and exit with 6 for an alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.deciding import groups_option, read_served
from calibrant._cli.reading import file_argument, path_argument, reading_options
from calibrant._cli.showing import json_option, naming, plain_table, show

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._cli.reading import Reading

EXIT_ALARM = 6


@click.command(name="monitor")
@click.argument("model", type=path_argument)
@click.argument("new", type=file_argument)
@click.option("--state", type=path_argument, required=True, help="File of what was counted so far.")
@click.option(
    "--alpha",
    type=click.FloatRange(0, 0.5, min_open=True),
    help="Chance of a false alarm over all time, set at the first run.  [default: 0.01]",
)
@click.option("--page", type=path_argument, help="Write a page to this HTML file.")
@groups_option
@click.option("--time-column", metavar="NAME", help="Column, or array, with a time of each row.")
@click.option("--part", type=click.Choice(["val", "test"]), help="Part of an npz file.")
@reading_options("normalize", "label_column", "columns", "ignore")
@json_option
def monitor_command(
    model: Path,
    new: Path,
    state: Path,
    alpha: float | None,
    page: Path | None,
    part: str | None,
    reading: Reading,
    as_json: bool,
    groups: str | None,
    time_column: str | None,
) -> int:
    """Ask whether the probabilities that MODEL serves for NEW are still right.

    NEW has scores as at the fit, and labels if they have come; files in the order in which labels
    came, each once: one that was counted before is not counted again. Exit code 6 is an alarm.

    \b
    Example:
      calibrant monitor model.calibrant monday.parquet --state monitor.json --alpha 0.01
    """  # noqa: D301
    from calibrant import model_file
    from calibrant._atomic_file import only_one
    from calibrant._files.apply import refuse_inputs
    from calibrant.errors import RepeatedBatchError

    for output in (state, page):
        if output is not None:
            refuse_inputs(output, model, new)
    with naming(model):
        calibrator = model_file.load(model)
    if reading.normalize:
        calibrator.set_params(normalize="rows")
    rows = read_served(calibrator, new, part, reading, groups, time_column)
    with only_one(state):
        monitor = _open(state, alpha, calibrator.classes_)
        is_repeated, unlabelled = False, None
        try:
            with naming(new):
                if "y" in rows:
                    monitor.update(**rows)
                else:
                    unlabelled = monitor.update_unlabelled(rows["probabilities"], rows["time"])
        except RepeatedBatchError:
            is_repeated = True
            click.echo(f"calibrant: {new} was counted before, and is not counted again", err=True)
        else:
            monitor.save(state)  # before anything is made of it: a run that dies later lost nothing
        if page is not None:
            from calibrant.monitor import write_page

            write_page(page, monitor, source=str(model))
    result = _result(monitor, unlabelled) | {"state": str(state), "repeated": is_repeated}
    show(result, as_json, _table(result))
    return EXIT_ALARM if result["alarm"] else 0


def _open(state: Path, alpha: float | None, classes: Any) -> Any:
    """Go on from a state, or begin one."""
    from calibrant.monitor import CalibrationMonitor

    if not state.exists():
        return CalibrationMonitor(0.01 if alpha is None else alpha, classes=classes)
    monitor = CalibrationMonitor.load(state)
    if alpha not in (None, monitor.alpha):
        raise click.UsageError(
            f"--alpha is {alpha}, but {state} was begun with {monitor.alpha}, and a promise is not "
            "changed after a look; leave it out, or begin another state"
        )
    if monitor.classes_.tolist() != classes.tolist():
        raise click.UsageError(f"{state} has other classes than the model; begin another state")
    return monitor


def _result(monitor: Any, unlabelled: Any) -> dict[str, Any]:
    """Say what was found, in plain numbers, and propose a recalibration where rows suffice."""
    from calibrant.errors import ShapeError

    found = monitor.status().to_dict() | {"alpha": monitor.alpha, "run_length": monitor.run_length}
    found["unlabelled"] = None if unlabelled is None else unlabelled.to_dict()
    try:
        found["proposal"] = monitor.propose().to_dict()
        found["proposal"].pop("calibrator")
    except ShapeError:
        found["proposal"] = None
    return found | {"metrics": monitor.status().metrics()}


def _table(result: dict[str, Any]) -> Any:
    table = plain_table(f"{result['n_rows']:,} rows counted", "")
    limit = f"alarm at {1 / result['alpha']:,.0f}"
    table.add_row("e-value", f"{result['e_value']:.4g} ({limit})")
    table.add_row("alarm", f"at row {result['alarm_row']:,}" if result["alarm"] else "no")
    changes = [f"{row:,}" for row in result["changes"]]
    more = ", ..." if len(changes) > 3 else ""
    table.add_row("change found at row", ", ".join(changes[:3]) + more if changes else "none")
    for name in ("accuracy", "confidence", "gap"):
        value, low, high = (result[name][key] for key in ("value", "low", "high"))
        if result["n_rows"]:
            table.add_row(name, f"{value:.4f} ({low:.4f} .. {high:.4f})")
    for group, own in result["groups"].items():
        log_e = f"log e-value {own['log_e_value']:.2f} (alarm at {own['threshold']:.2f})"
        table.add_row(f"group {group}", log_e)
    if result["unlabelled"] is not None:
        expected = result["unlabelled"]["accuracy"]
        text = f"{expected['value']:.4f} ({expected['low']:.4f} .. {expected['high']:.4f})"
        table.add_row("expected accuracy of the new rows", text)
        if result["unlabelled"]["p_value"] == result["unlabelled"]["p_value"]:
            table.add_row("same class frequencies: p", f"{result['unlabelled']['p_value']:.3g}")
    if result["proposal"] is not None:
        gain, error = result["proposal"]["gain"], result["proposal"]["gain_error"]
        table.add_row("a recalibration would gain, nats a row", f"{gain:.4f} ± {error:.4f}")
    return table
