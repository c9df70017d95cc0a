"""``calibrant decide``: a decision, or a set of classes, for each row of a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.options import PATH, SERVED, command, model_argument, output_option, shared
from calibrant._cli.reading import load_calibrator, serve
from calibrant._cli.showing import in_columns, naming_file, show, write_columns

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._files.source import Request


@command()
@model_argument
@click.argument("file", type=PATH)
@output_option("Table to write: .csv.")
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
    result: dict[str, Any] = {"output": str(output), "rows": len(p), "source": str(file)}
    columns: dict[str, Any] = {}
    facts: dict[str, str] = {}
    if costs is not None:
        has_one = is_single(calibrator.scores)
        table = read_cost_file(costs, classes, request.positive, is_single=has_one)
        expected = action_costs(p, table.matrix)
        chosen, columns["cost"] = expected.argmin(axis=1), expected.min(axis=1)
        columns = {"decision": [str(table.actions[place]) for place in chosen], **columns}
        result["expected_cost"] = float(columns["cost"].mean())
        facts["expected cost per row"] = f"{result['expected_cost']:.4g}"
        for place, action in enumerate(table.actions):
            facts[f"decided {action}"] = f"{(chosen == place).mean():.1%}"
    if coverage is not None and calibration is not None:
        labelled = serve(calibrator, calibration, replace(request, part=None, usual_part="val"))
        with naming_file(calibration):
            conformal = ConformalSets(coverage).fit(
                labelled.probabilities, labelled.y, classes=classes
            )
        sets = conformal.predict_set(p)
        if served.rows.has_absent:  # an option that a row lacks is in no set
            sets = replace(sets, members=sets.members & (p > 0.0))
        columns["set"] = [";".join(map(str, labels)) for labels in sets.labels()]
        facts[f"mean size of sets for {coverage:.0%}"] = f"{sets.sizes.mean():.2f}"
    table = served.table()
    for name, values in columns.items():
        if name in table.column_names:
            raise click.UsageError(f"{file} has a column {name!r}, which decide writes; rename it")
        table = table.append_column(name, [values])
    write_columns(output, table)
    show(result, as_json, in_columns(f"{len(p):,} rows of {file}", facts))
