"""``calibrant compare-models``: many models on the same tasks, from directories of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from calibrant._cli.options import PATH, OutputPath, command, output_option, shared
from calibrant._cli.showing import show, write_columns

if TYPE_CHECKING:
    from pathlib import Path


@command("compare-models")
@click.argument("directories", type=PATH, nargs=-1, required=True, metavar="DIRECTORY...")
@click.option(
    "--clusters",
    metavar="NAME",
    help="Field with the document or topic of each question, which intervals are drawn by; 'task' "
    "for the tasks of a group.",
)
@click.option("--method", "-m", default="auto", help="Method of calibration.")
@click.option(
    "--sort", metavar="COLUMN", help="Order of the rows, the largest first: such as error or slope."
)
@click.option("--report", type=OutputPath(), help="Write a page to this HTML file.")
@output_option("Table of all numbers.", required=False)
@shared("level", "jobs", "as_json")
def compare_models(
    directories: tuple[Path, ...],
    clusters: str | None,
    method: str,
    sort: str | None,
    level: float,
    report: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Compare models by the logs in DIRECTORY, before and after calibration.

    Output of lm-evaluation-harness (--log_samples), Inspect and HELM is read as it lies; other logs
    are DIRECTORY/model/task.jsonl. Differences are those on the same questions.

    \b
    Example:
      calibrant compare-models results --report models.html -o models.csv
    """  # noqa: D301
    from calibrant import report as reports
    from calibrant._calibrators.methods import make_calibrator

    answers = [one for path in directories for one in reports.read_answers(path, clusters=clusters)]
    calibrator = make_calibrator(method)
    table = reports.compare_models(answers, calibrator=calibrator, confidence_level=level)
    if sort is not None:
        table = table.sorted_by(sort)
    if output is not None:
        write_columns(output, table.to_frame())
    if report is not None:
        reports.write_models(report, table)
    sources = {"sources": [str(path) for path in directories]}
    show(sources | table.to_dict(), as_json, repr(table))
    if report is not None and not as_json:
        click.echo(f"Report: {report.resolve().as_uri()}")
