"""The commands, each a few lines over the library, which they import when they run."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from calibrant._cli.costs import CostFile, costs_option
from calibrant._cli.deciding import decide
from calibrant._cli.demo import demo
from calibrant._cli.export import export
from calibrant._cli.fitting import fit, jobs_option
from calibrant._cli.judge import judge
from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import (
    SCORES,
    SERVED,
    Reading,
    file_argument,
    load_model,
    path_argument,
    reading_options,
    tell,
)
from calibrant._cli.showing import inspection_text, json_option, naming, show
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._files.align import Aligned
    from calibrant._result import Estimate
    from calibrant.metrics import Evaluation, Predictions

BAD_ROWS = click.Choice(["raise", "skip", "nan"])

TEST_DRAWS = 5
"""Draws of the calibration test for each resample behind the intervals."""


@click.command()
@click.argument("file", type=file_argument)
@reading_options("part", *SCORES, "groups", "features")
@click.option("--bins", default=15, help="Number of bins of the calibration errors.")
@click.option(
    "--strategy",
    type=click.Choice(["uniform", "quantile"]),
    help="Bins of equal width or of equal mass, of pos-ECE, conf-ECE and the test. By default "
    "equal mass for the positive class of two, and equal width for the confidence.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=0),
    default=200,
    help="Draws for the interval of the calibration error; 0 for no intervals and no test.",
)
@click.option("--seed", default=0, help="Seed of the draws.")
@click.option(
    "--ordered", is_flag=True, help="Add the ranked probability score, for ordered classes."
)
@costs_option
@jobs_option
@json_option
def evaluate(
    file: Path,
    reading: Reading,
    bins: int,
    strategy: Literal["uniform", "quantile"] | None,
    resamples: int,
    seed: int,
    ordered: bool,
    costs: Path | None,
    as_json: bool,
) -> None:
    """Measure the calibration of the probabilities in FILE.

    FILE may be a directory of tables. If not all rows fit into memory, metrics that need them in
    an order, and intervals, are of a sample. With --features, segments of the rows are listed
    whose predictions are wrong.

    \b
    Example:
      calibrant evaluate predictions.csv
      calibrant evaluate predictions.csv --features age,plan
    """  # noqa: D301
    from calibrant import metrics
    from calibrant._cli.showing import evaluation_table
    from calibrant._files.align import Aligned

    cost_file = None if costs is None else CostFile(costs)
    decided: dict[str, Any] = {}
    lines: list[str] = []
    with progress_bar(f"reading {file}") as advance:
        data = reading.open(
            file,
            usual_part="test",
            positive_last=True,
            needs_whole={"--costs": costs},
            progress=advance,
            beside=None if cost_file is None else cost_file.beside,
        )
        advance(0, None, f"measuring {data.source}")
        with data.explained():
            rows, classes = data.to_measure()
            shares = metrics.class_shares(rows, classes=classes)
            result = metrics.evaluate(
                rows,
                n_bins=bins,
                strategy=strategy,
                ordered=ordered,
                groups=data.groups(reading.groups) if isinstance(data, Aligned) else None,
                n_resamples=resamples,
                random_state=seed,
                classes=classes,
            )
            test = None
            if resamples:
                test = metrics.calibration_test(
                    rows,
                    n_bins=bins,
                    strategy=strategy,
                    n_resamples=resamples * TEST_DRAWS,
                    random_state=seed,
                    classes=classes,
                )
            if isinstance(data, Aligned):
                decided, lines = _judge_decisions(
                    data, rows, cost_file, reading.positive, has_intervals=resamples > 0
                )
                segments, words = _find_segments(data, rows, reading.features, seed)
                decided, lines = decided | segments, lines + words
    summary = {
        "source": data.source,
        **result.to_dict(),
        "p_value": None if test is None else test.p_value,
        "shares": shares.to_dict(),
        **decided,
    }
    right_answers = _share_of_answers(result) if data.is_stated else None
    if right_answers is not None:
        del summary["accuracy"]  # that of "confidence above 1/2", which nobody predicted
        summary["right_answers"] = right_answers._asdict()
    table = evaluation_table(data.source, result, test, shares, lines, right_answers=right_answers)
    show(summary, as_json, table)


def _judge_decisions(
    found: Aligned,
    rows: Predictions,
    cost_file: CostFile | None,
    positive: str | None,
    *,
    has_intervals: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Measure what decisions cost, as numbers and in words.

    ``rows`` are those of the file, as metrics have them.
    """
    from calibrant import _notices as notices
    from calibrant._gate import ONE_COLUMN
    from calibrant._text import money
    from calibrant.decisions import expected_cost

    result: dict[str, Any] = {}
    lines = []
    if cost_file is not None:
        with naming(cost_file.path), notices.kept():  # of the order of columns metrics have warned
            table = cost_file.read(
                found.known_classes(),
                positive,
                is_single=found.kind in ONE_COLUMN,
                beside=found.beside,
                rows=found.place.path,
            )
            cost = expected_cost(rows, costs=getattr(table, "matrix", table))
        if not has_intervals:
            realised, predicted = (
                own._replace(low=math.nan, high=math.nan) for own in (cost.realised, cost.predicted)
            )
            cost = replace(cost, realised=realised, predicted=predicted)
        result["cost"] = cost.to_dict()
        words = f"{money(cost.realised)}; predicted by the probabilities: {money(cost.predicted)}"
        lines.append(f"Mean cost per decision: {words}.")
    return result, lines


def _find_segments(
    data: Aligned, rows: Predictions, features: tuple[str, ...] | None, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """Find segments of the rows whose predictions are wrong; as numbers and in words."""
    from calibrant.metrics import calibration_segments

    if features is None:
        return {}, []
    segments = calibration_segments(rows, features=data.features(features), random_state=seed)
    return {"segments": segments.to_dict()}, str(segments).splitlines()


def _share_of_answers(result: Evaluation) -> Estimate | None:
    """Return the share of right answers, of confidences that a model stated."""
    from calibrant.metrics import share_interval

    own = result.binary
    if own is None:
        return None
    return share_interval(own.observed, result.n_rows, result.confidence_level)


@click.command(name="apply")
@click.argument("model", type=path_argument)
@click.argument("file", type=file_argument)
@click.option(
    "-o",
    "--output",
    type=OutputPath(allow_dash=True),
    required=True,
    help="File to write; - is standard output.",
)
@reading_options("part", *SERVED)
@click.option(
    "--on-bad-row", type=BAD_ROWS, default="raise", help="If a row is not a distribution."
)
@click.option("--sha256", help="Refuse the model file unless its SHA-256 is this.")
@jobs_option
@json_option
def apply_command(
    model: Path,
    file: Path,
    output: Path,
    reading: Reading,
    on_bad_row: str,
    sha256: str | None,
    as_json: bool,
) -> None:
    """Calibrate the predictions in FILE with MODEL.

    FILE may be a directory of tables; OUTPUT is then a directory, too.

    \b
    Example:
      calibrant apply model.calibrant test.npz -o calibrated.npz
    """  # noqa: D301
    from calibrant._files.apply import apply_directory, apply_file
    from calibrant._files.predictions import is_log

    calibrator = load_model(model, reading.groups, sha256=sha256)
    if reading.normalize and calibrator.scores != "probabilities":
        raise click.UsageError(
            f"--normalize is for probabilities; {model} takes {calibrator.scores}"
        )
    if reading.normalize:
        calibrator.set_params(normalize="rows")
    is_of_tables = file.is_dir() and not is_log(file)
    if is_of_tables and reading.groups is not None:
        raise click.UsageError(f"{model} was fitted with groups; name a table, not a directory")
    if is_of_tables:
        reading.look_at_directory(file)
    apply = partial(
        apply_file,
        calibrator,
        request=reading.request("test"),
        groups=reading.groups,
        on_bad_row=on_bad_row,
        tell=tell,
    )
    with progress_bar(f"calibrating {file}") as advance:
        if is_of_tables:
            done = apply_directory(apply, file, output, advance)
        else:
            done = apply(file, output, progress=advance)
    if done.n_bad_rows:
        from calibrant.errors import number_of  # numpy comes with it

        marked = "left out" if on_bad_row == "skip" else "marked with NaN"
        bad = number_of(done.n_bad_rows, "bad row")
        tell(f"{bad} {marked}: {done.where}")
    result = {"output": str(output), "rows": done.n_rows, "bad_rows": done.n_bad_rows}
    show(result, as_json, f"{output}: {done.n_rows:,} rows", to_stderr=str(output) == "-")


@click.command()
@click.argument("val", type=file_argument)
@click.argument("test", type=file_argument, required=False)
@click.option("--methods", help="Methods, separated by commas; all by default.")
@click.option("--report", type=OutputPath(), help="Write a report to this HTML file.")
@click.option(
    "--split",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of the rows of VAL to fit to; the other rows are the test part.",
)
@reading_options(*SCORES, "groups", "features")
@click.option("--test-labels", type=file_argument, help="npy file with the labels of TEST.")
@click.option("--seed", default=0, help="Seed of the resampling and the split.")
@costs_option
@jobs_option
@json_option
def compare(
    val: Path,
    test: Path | None,
    methods: str | None,
    report: Path | None,
    split: float | None,
    reading: Reading,
    test_labels: Path | None,
    seed: int,
    costs: Path | None,
    as_json: bool,
) -> None:
    """Fit every method to VAL and compare them on TEST.

    TEST may be left out if VAL is an npz file with val_* and test_* arrays, or with --split.

    \b
    Example:
      calibrant compare val.npz test.npz --report report.html
    """  # noqa: D301
    from calibrant import report as reports
    from calibrant._calibrators.masked import CAPABLE
    from calibrant._calibrators.methods import make_calibrator
    from calibrant._calibrators.methods import methods as all_methods
    from calibrant._cli.compared import how_to_apply, read_costs_of_two, read_two, split_rows
    from calibrant._cli.showing import comparison_numbers, comparison_table

    with progress_bar("reading"):
        if split is None:
            fit_to, judge_on, sources = read_two(val, test, reading, test_labels)
        else:
            fit_to, judge_on, sources = split_rows(val, test, reading, split, seed)
        table = None
        if costs is not None:
            table = read_costs_of_two(costs, fit_to, judge_on, reading.positive)
    by_row = {"grouped": reading.groups, "features": reading.features}
    own = [name for name, columns in by_row.items() if columns is not None]
    chosen: Any = methods.split(",") if methods else [*all_methods(), *own]
    if fit_to.has_absent or judge_on.has_absent:
        capable = ["ts", *(chosen if methods else CAPABLE)]
        chosen = {name: make_calibrator(name, has_absent=True) for name in capable}
    with progress_bar("comparing") as advance:
        comparison = reports.compare(
            fit_to.y,
            fit_to.scores,
            judge_on.y,
            judge_on.scores,
            chosen,
            scores=fit_to.kind,
            classes=fit_to.classes,
            normalize=fit_to.normalize,
            groups_val=fit_to.groups(reading.groups),
            groups_test=judge_on.groups(reading.groups),
            features_val=fit_to.features(reading.features),
            features_test=judge_on.features(reading.features),
            costs=table,
            random_state=seed,
            sources=sources,
            progress=advance,
        )
    if judge_on.is_stated:
        settings = comparison.settings | {"stated_confidences": True}
        comparison = replace(comparison, settings=settings)
    for text in comparison.warnings:
        tell(f"warning: {text}")
    if report is not None:
        lines = how_to_apply(comparison.verdict.applied, val, test, reading)
        reports.write_report(report, comparison, commands=lines)
    show(comparison_numbers(comparison), as_json, comparison_table(comparison))
    if report is not None and not as_json:
        click.echo(f"Report: {report.resolve().as_uri()}")


@click.command()
@click.argument("model", type=path_argument)
@json_option
def inspect(model: Path, as_json: bool) -> None:
    """Show what the file MODEL contains.

    \b
    Example:
      calibrant inspect model.calibrant
    """  # noqa: D301
    from calibrant import model_file

    with naming(model):
        found = model_file.describe(model)
    show(found, as_json, inspection_text(found))


ALL = [evaluate, fit, apply_command, compare, decide, judge, inspect, export, demo]
