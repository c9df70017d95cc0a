"""``calibrant decide``: a decision, or a set of classes, for each row of a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.costs import CostFile, costs_option
from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import (
    SERVED,
    CalibratedFile,
    file_argument,
    load_model,
    path_argument,
    reading_options,
    serve,
)
from calibrant._cli.showing import json_option, naming, plain_table, show, write_columns
from calibrant._html import short_number

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._cli.reading import Reading


@click.command()
@click.argument("model", type=path_argument)
@click.argument("file", type=file_argument)
@click.option("-o", "--output", type=OutputPath(), required=True, help="Table to write: .csv.")
@costs_option
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True),
    help="Write a set of classes for each row; this share of sets contains the label. Needs "
    "--calibration.",
)
@click.option(
    "--calibration",
    type=path_argument,
    help="Labelled rows like those of FILE that MODEL was not fitted to, for --coverage.",
)
@reading_options("part", "positive", *SERVED)
@json_option
def decide(
    model: Path,
    file: Path,
    output: Path,
    costs: Path | None,
    coverage: float | None,
    calibration: Path | None,
    reading: Reading,
    as_json: bool,
) -> None:
    """Write a decision, or a set of classes, for each row of FILE.

    The scores in FILE are calibrated with MODEL first. The table has the columns of FILE, with
    calibrated probabilities in place of the scores, and `decision` and `cost`, or `set`.

    \b
    Examples:
      calibrant decide model.calibrant new.csv -o decisions.csv --costs costs.csv
      calibrant decide model.calibrant new.csv -o sets.csv --coverage 0.9 --calibration other.csv
    """  # noqa: D301
    if costs is None and coverage is None:
        raise click.UsageError("say what to decide by: --costs FILE, --coverage SHARE, or both")
    if (coverage is None) is not (calibration is None):
        raise click.UsageError(
            "--coverage SHARE and --calibration FILE go together: sets hold the label of this "
            "share of rows by labelled rows that the model was not fitted to"
        )
    calibrator = load_model(model, reading.groups)
    cost_file = None if costs is None else CostFile(costs)
    served = serve(calibrator, file, reading, None if cost_file is None else cost_file.beside)
    n_rows = len(served.probabilities)
    columns: dict[str, Any] = {}
    shown = plain_table(f"{n_rows:,} rows of {file}", "")
    if cost_file is not None:
        columns |= _decide_by_costs(calibrator, served, cost_file, reading.positive, shown)
    if coverage is not None and calibration is not None:
        own = serve(calibrator, calibration, replace(reading, part=None), usual_part="val")
        sets = _conformal_sets(own, coverage, served, calibration)
        columns["set"] = [";".join(map(str, own)) for own in sets.labels()]
        shown.add_row(f"mean size of sets for {coverage:.0%}", f"{sets.sizes.mean():.2f}")
    table = served.table(output)
    for name, values in columns.items():
        if name in table.column_names:
            raise click.UsageError(f"{file} has a column {name!r}, which decide writes; rename it")
        table = table.append_column(name, [values])
    write_columns(output, table)
    result = {"output": str(output), "rows": n_rows, "source": str(file)}
    if costs is not None:
        result["expected_cost"] = float(columns["cost"].mean())
    show(result, as_json, shown)


def _decide_by_costs(
    calibrator: Any, served: CalibratedFile, cost_file: CostFile, positive: str | None, shown: Any
) -> dict[str, Any]:
    """Return the cheapest action of each row and its expected cost, and show their shares."""
    from calibrant._gate import ONE_COLUMN
    from calibrant.decisions import action_costs

    is_single = calibrator.scores in ONE_COLUMN
    with naming(cost_file.path):
        table = cost_file.read(
            served.classes.tolist(),
            positive,
            is_single=is_single,
            beside=served.rows.beside,
            rows=served.source.place.path,
        )
    cells = action_costs(served.probabilities, table.matrix)
    chosen, paid = cells.argmin(axis=1), cells.min(axis=1)
    shown.add_row("expected cost per row", short_number(paid.mean()))
    for place, action in enumerate(table.actions):
        shown.add_row(f"decided {action}", f"{(chosen == place).mean():.1%}")
    return {"decision": [str(table.actions[place]) for place in chosen], "cost": paid}


def _conformal_sets(
    own: CalibratedFile, coverage: float, served: CalibratedFile, calibration: Path
) -> Any:
    """Return sets of classes that hold the label so often, by the labelled rows of a file."""
    from calibrant.decisions import ConformalSets
    from calibrant.errors import PredictionFileError

    if own.y is None:
        raise PredictionFileError(
            f"{calibration} has no labels; --calibration needs rows with labels that the model was "
            "not fitted to (--label-column)"
        )
    with naming(calibration):
        conformal = ConformalSets(coverage).fit(own.probabilities, own.y, classes=own.classes)
    sets = conformal.predict_set(served.probabilities)
    if served.rows.has_absent:  # an option that a row lacks is in no set
        sets = replace(sets, members=sets.members & (served.probabilities > 0.0))
    return sets
