"""``calibrant decide``: a decision, or a set of classes, for each row of a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant._cli.costs import read_cost_file
from calibrant._cli.options import PATH, SERVED, model_argument, output_option, shared
from calibrant._cli.reading import serve
from calibrant._cli.showing import naming, plain_table, show, write_columns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from calibrant._calibrators.base import Calibrator
    from calibrant._cli.reading import CalibratedFile, Reading


@click.command()
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
    from calibrant._gate import ONE_COLUMN
    from calibrant.decisions import action_costs

    if costs is None and coverage is None:
        raise click.UsageError("say what to decide by: --costs FILE, --coverage SHARE, or both")
    if (coverage is None) is not (calibration is None):
        raise click.UsageError(
            "--coverage SHARE and --calibration FILE go together: sets hold the label of this "
            "share of rows by labelled rows that the model was not fitted to"
        )
    calibrator = reading.load_model(model)
    served = serve(calibrator, file, reading)
    result: dict[str, Any] = {
        "output": str(output),
        "rows": len(served.probabilities),
        "source": str(file),
    }
    columns: dict[str, Any] = {}
    facts: dict[str, str] = {}
    if costs is not None:
        is_single, classes = calibrator.scores in ONE_COLUMN, calibrator.classes_.tolist()
        table = read_cost_file(costs, classes, reading.positive, is_single=is_single)
        expected = action_costs(served.probabilities, table.matrix)
        chosen, columns["cost"] = expected.argmin(axis=1), expected.min(axis=1)
        columns = {"decision": [str(table.actions[place]) for place in chosen], **columns}
        result["expected_cost"] = float(columns["cost"].mean())
        facts["expected cost per row"] = f"{result['expected_cost']:.4g}"
        for place, action in enumerate(table.actions):
            facts[f"decided {action}"] = f"{(chosen == place).mean():.1%}"
    if coverage is not None and calibration is not None:
        sets = _conformal_sets(calibrator, calibration, reading, coverage, served)
        columns["set"] = [";".join(map(str, labels)) for labels in sets.labels()]
        facts[f"mean size of sets for {coverage:.0%}"] = f"{sets.sizes.mean():.2f}"
    _write(output, calibrator.classes_, served, columns)
    show(result, as_json, plain_table(f"{result['rows']:,} rows of {file}", "", rows=facts))


def _conformal_sets(
    calibrator: Calibrator,
    calibration: Path,
    reading: Reading,
    coverage: float,
    served: CalibratedFile,
) -> Any:
    """Return sets of classes that hold the label so often, by the labelled rows of a file."""
    from calibrant.decisions import ConformalSets
    from calibrant.errors import PredictionFileError

    labelled = serve(calibrator, calibration, replace(reading, part=None), usual_part="val")
    if labelled.y is None:
        raise PredictionFileError(
            f"{calibration} has no labels; --calibration needs rows with labels that the model was "
            "not fitted to (--label-column)"
        )
    with naming(calibration):
        conformal = ConformalSets(coverage).fit(
            labelled.probabilities, labelled.y, classes=calibrator.classes_
        )
    sets = conformal.predict_set(served.probabilities)
    if served.rows.has_absent:
        # An option that a row lacks is in no set.
        sets = replace(sets, members=sets.members & (served.probabilities > 0.0))
    return sets


def _write(
    path: Path, classes: NDArray[Any], served: CalibratedFile, columns: dict[str, Any]
) -> None:
    """Write the columns of the file with probabilities in place of scores, and these columns."""
    import numpy as np

    from calibrant._files.writers import Output, calibrated_table

    p = served.probabilities
    output = Output(path, classes, served.source, served.order, p.dtype)
    table = calibrated_table(output, p, served.rows, np.ones(len(p), dtype=bool))
    for name, values in columns.items():
        if name in table.column_names:
            source = served.source.place.source
            raise click.UsageError(
                f"{source} has a column {name!r}, which decide writes; rename it"
            )
        table = table.append_column(name, [values])
    write_columns(path, table)
