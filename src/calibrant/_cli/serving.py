"""``calibrant apply``, ``decide`` and ``monitor``: a model on the rows of a file."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from calibrant._cli.options import (
    PATH,
    SERVED,
    OutputPath,
    command,
    model_argument,
    output_option,
    shared,
)
from calibrant._cli.reading import (
    in_columns,
    load_calibrator,
    naming_file,
    serve,
    show,
    tell,
    write_columns,
)
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.source import Request
    from calibrant.monitor import CalibrationMonitor

EXIT_ALARM = 6
"""Neither a mistake nor a crash: whoever runs the command every night tells it from these."""


@command("apply")
@model_argument
@click.argument("file", type=PATH)
@output_option("File to write, or directory.")
@shared(*SERVED)
@click.option(
    "--on-bad-row",
    type=click.Choice(["raise", "skip", "nan"]),
    default="raise",
    help="If a row is not a distribution.",
)
@click.option("--check", is_flag=True, help="Test whether the scores look like those of the fit.")
@shared("jobs", "as_json")
def apply(
    model: Path, file: Path, output: Path, request: Request, on_bad_row: str, check: bool
) -> None:
    """Calibrate the predictions in FILE with MODEL.

    FILE may be a directory of tables; OUTPUT is then a directory, too.

    \b
    Example:
      calibrant apply model.calibrant test.npz -o calibrated.npz
    """  # noqa: D301
    from calibrant._files.apply import apply_file

    calibrator = load_calibrator(model, request)
    request = replace(request, usual_part="test")
    with progress_bar(f"calibrating {file}") as advance:
        done = apply_file(
            calibrator,
            file,
            output,
            request,
            on_bad_row=on_bad_row,
            is_checked=check,
            progress=advance,
        )
    tell(done.note)
    if done.n_bad_rows:
        marked = "left out" if on_bad_row == "skip" else "marked with NaN"
        more = "; ..." if done.n_bad_rows > len(done.where) else ""
        tell(f"bad rows {marked}: {done.n_bad_rows:,}; {'; '.join(done.where)}{more}")
    result: dict[str, object] = {"output": str(output), "rows": done.n_rows}
    result["bad_rows"], lines = done.n_bad_rows, [f"{output}: {done.n_rows:,} rows"]
    if check:
        result["check"] = None if done.check is None else done.check.to_dict()
        lines.append("too few rows to check" if done.check is None else repr(done.check))
    show(result, "\n".join(lines))


@command()
@model_argument
@click.argument("file", type=PATH)
@output_option("Table to write.")
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True),
    help="Write a set of classes for each row; this share of sets contains the label. Needs "
    "--calibration.",
)
@click.option(
    "--calibration",
    type=PATH,
    help="Labelled rows like those of FILE that MODEL was not fitted to, for --coverage.",
)
@shared("costs", "positive", *SERVED, "as_json")
def decide(
    model: Path,
    file: Path,
    output: Path,
    costs: Path | None,
    coverage: float | None,
    calibration: Path | None,
    request: Request,
) -> None:
    """Write a decision, or a set of classes, for each row of FILE.

    The scores in FILE are calibrated with MODEL first. The table has the columns of FILE, with
    calibrated probabilities in place of the scores, and `decision` and `cost`, or `set`.

    \b
    Examples:
      calibrant decide model.calibrant new.csv -o decisions.csv --costs costs.csv
      calibrant decide model.calibrant new.csv -o sets.csv --coverage 0.9 --calibration other.csv
    """  # noqa: D301
    from calibrant._files.formats import calibrated_table
    from calibrant._gate import is_single
    from calibrant.decisions import ConformalSets, action_costs, read_cost_file

    if costs is None and coverage is None:
        raise click.UsageError("say what to decide by: --costs FILE, --coverage SHARE, or both")
    if (coverage is None) is not (calibration is None):
        raise click.UsageError(
            "--coverage SHARE and --calibration FILE go together: sets hold the label of this "
            "share of rows by labelled rows that the model was not fitted to"
        )
    calibrator = load_calibrator(model, request)
    served = serve(calibrator, file, replace(request, usual_part="test"))
    p, classes = served.probabilities, calibrator.classes_
    table = calibrated_table(served.calibration, p, served.rows)
    result: dict[str, object] = {"output": str(output), "rows": len(p), "source": str(file)}
    columns: dict[str, list[object]] = {}
    facts: dict[str, str] = {}
    if costs is not None:
        has_one = is_single(calibrator.scores)
        paid = read_cost_file(costs, classes, request.positive, is_single=has_one)
        expected = action_costs(p, paid.matrix)
        chosen, least = expected.argmin(axis=1), expected.min(axis=1)
        columns["decision"] = [str(paid.actions[place]) for place in chosen]
        columns["cost"] = least.tolist()
        result["expected_cost"] = float(least.mean())
        facts["expected cost per row"] = f"{least.mean():.4g}"
        for place, action in enumerate(paid.actions):
            facts[f"decided {action}"] = f"{(chosen == place).mean():.1%}"
    if coverage is not None and calibration is not None:
        labelled = serve(calibrator, calibration, replace(request, part=None, usual_part="val"))
        with naming_file(calibration):
            conformal = ConformalSets(coverage)
            conformal.fit(labelled.probabilities, labelled.y, classes=classes)
        sets = conformal.predict_set(p)
        if served.rows.has_absent:  # an option that a row lacks is in no set
            sets = replace(sets, members=sets.members & (p > 0.0))
        columns["set"] = [";".join(map(str, labels)) for labels in sets.labels()]
        facts[f"mean size of sets for {coverage:.0%}"] = f"{sets.sizes.mean():.2f}"
    for name, values in columns.items():
        if name in table.column_names:
            raise click.UsageError(f"{file} has a column {name!r}, which decide writes; rename it")
        table = table.append_column(name, [values])
    write_columns(output, table)
    show(result, in_columns(f"{len(p):,} rows of {file}", facts))


@command()
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
def monitor(
    model: Path,
    new: Path,
    state: Path,
    alpha: float | None,
    page: Path | None,
    time: str | None,
    again: bool,
    request: Request,
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
        counted = _open(state, alpha, calibrator)
        try:
            with naming_file(new):
                if served.rows.labels is None:
                    unlabelled = counted.update_unlabelled(served.probabilities)
                else:
                    batch = _identify(new, request.part)
                    counted.update(served.probabilities, served.y, times, batch=batch, again=again)
            counted.save(state)  # before the page: a run that dies there loses nothing
        except RepeatedBatchError as error:
            is_repeated = True
            tell(f"{new} is not counted again: {error} (--again)")
        if page is not None:
            write_page(page, counted, source=str(model))
    status = counted.status()
    result = {"state": str(state), "alpha": counted.alpha, "repeated": is_repeated}
    result |= status.to_dict() | {"metrics": status.metrics(), "unlabelled": None}
    facts = status.describe(counted.alpha)
    if unlabelled is not None:
        result["unlabelled"], facts = unlabelled.to_dict(), facts | unlabelled.describe()
        if sums is not None and sums.n_rows > 1:
            check = sums.compare()
            result["unlabelled"] = unlabelled.to_dict() | {"check": check.to_dict()}
            facts["scores of these rows"] = check.why
    show(result, in_columns(f"{status.n_rows:,} rows counted", facts))
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
        fault = f"{state} was started with --alpha {monitor.alpha}, which cannot change later"
        raise click.UsageError(f"{fault}; use the same, or start another state file")
    return monitor
