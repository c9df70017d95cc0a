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
from calibrant._cli.fitting import fit, jobs_option, part_option
from calibrant._cli.judge import judge
from calibrant._cli.outputs import OutputPath
from calibrant._cli.reading import (
    Reading,
    check_groups,
    features_option,
    file_argument,
    groups_option,
    path_argument,
    reading_options,
)
from calibrant._cli.showing import inspection_text, json_option, naming, show
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant._files.align import Aligned
    from calibrant._files.chunks import FileChunks
    from calibrant._result import Estimate
    from calibrant.metrics import Evaluation, Predictions

BAD_ROWS = click.Choice(["error", "skip", "nan"])

coverage_option = click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True),
    help="Measure sets of the most probable classes whose probabilities sum to this share.",
)

TEST_DRAWS = 5
"""Draws of the calibration test for each resample behind the intervals."""


@click.command()
@click.argument("file", type=file_argument)
@part_option
@reading_options()
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
@coverage_option
@groups_option
@features_option
@jobs_option
@json_option
def evaluate(
    file: Path,
    part: str | None,
    reading: Reading,
    bins: int,
    strategy: Literal["uniform", "quantile"] | None,
    resamples: int,
    seed: int,
    ordered: bool,
    costs: Path | None,
    coverage: float | None,
    groups: str | None,
    features: tuple[str, ...] | None,
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
    needs_whole: dict[str, Any] = {"--costs": costs, "--coverage": coverage}
    needs_whole |= {"--groups": groups, "--features": features}
    decided: dict[str, Any] = {}
    lines: list[str] = []
    with progress_bar(f"reading {file}") as advance:
        beside = {} if groups is None else {groups: "--groups"}
        beside |= dict.fromkeys(features or (), "--features")
        found = reading.open(
            file,
            part=part,
            usual_part="test",
            positive_last=True,
            needs_whole=needs_whole,
            progress=advance,
            beside=beside if cost_file is None else beside | cost_file.beside,
        )
        advance(0, None, f"measuring {found.source}")
        with found.explained():
            rows, classes = found.to_measure()
            named = found.groups(groups) if isinstance(found, Aligned) else None
            shares = metrics.class_shares(rows, classes=classes)
            result = metrics.evaluate(
                rows,
                n_bins=bins,
                strategy=strategy,
                ordered=ordered,
                groups=named,
                n_resamples=resamples,
                random_state=seed,
                classes=classes,
            )
            test_it = partial(metrics.calibration_test, rows, n_bins=bins, strategy=strategy)
            n_draws = resamples * TEST_DRAWS
            test = None
            if n_draws:
                test = test_it(n_resamples=n_draws, random_state=seed, classes=classes)
            if isinstance(found, Aligned):
                decided, lines = _judge_decisions(
                    found, rows, cost_file, coverage, reading.positive, has_intervals=resamples > 0
                )
                lines += _find_segments(found, rows, features, seed, decided)
    right_answers = _share_of_answers(found, result)
    summary = {
        "source": found.source,
        **result.to_dict(),
        "p_value": None if test is None else test.p_value,
        "shares": shares.to_dict(),
        **decided,
    }
    if right_answers is not None:
        del summary["accuracy"]  # that of "confidence above 1/2", which nobody predicted
        summary["right_answers"] = right_answers._asdict()
    table = evaluation_table(found.source, result, test, shares, lines, right_answers=right_answers)
    show(summary, as_json, table)


def _judge_decisions(
    found: Aligned,
    rows: Predictions,
    cost_file: CostFile | None,
    coverage: float | None,
    positive: str | None,
    *,
    has_intervals: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Measure what decisions cost, and how often sets hold the label; as numbers and in words.

    ``rows`` are those of the file, as metrics have them.
    """
    from calibrant import _notices as notices
    from calibrant._gate import ONE_COLUMN
    from calibrant._text import money
    from calibrant.decisions import expected_cost, set_sizes

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
    if coverage is not None:
        sets = set_sizes(found.y, found.probabilities(), coverage, classes=found.classes)
        result["sets"] = sets.to_dict()
        lines.append(str(sets).capitalize())
    return result, lines


def _find_segments(
    found: Aligned,
    rows: Predictions,
    features: tuple[str, ...] | None,
    seed: int,
    result: dict[str, Any],
) -> list[str]:
    """Return lines about segments whose predictions are wrong; ``result`` gets their numbers."""
    from calibrant._files.values import features_of
    from calibrant.metrics import calibration_segments

    if features is None:
        return []
    table = features_of(found.beside, features)
    segments = calibration_segments(rows, features=table, random_state=seed)
    result["segments"] = segments.to_dict()
    return str(segments).splitlines()


def _share_of_answers(found: Aligned | FileChunks, result: Evaluation) -> Estimate | None:
    """Return the share of right answers, if a file holds confidences that a model stated."""
    from calibrant.metrics import share_interval

    if not found.is_stated or result.binary is None:
        return None
    return share_interval(result.binary.observed, result.n_rows, result.confidence_level)


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
@part_option
@reading_options("normalize", "label_column", "columns", "ignore")
@click.option(
    "--on-bad-row", type=BAD_ROWS, default="error", help="If a row is not a distribution."
)
@click.option("--sha256", help="Refuse the model file unless its SHA-256 is this.")
@groups_option
@jobs_option
@json_option
def apply_command(
    model: Path,
    file: Path,
    output: Path,
    part: str | None,
    reading: Reading,
    on_bad_row: str,
    sha256: str | None,
    groups: str | None,
    as_json: bool,
) -> None:
    """Calibrate the predictions in FILE with MODEL.

    FILE may be a directory of tables; OUTPUT is then a directory, too.

    \b
    Example:
      calibrant apply model.calibrant test.npz -o calibrated.npz
    """  # noqa: D301
    from calibrant import model_file
    from calibrant._files.apply import apply_directory, apply_file
    from calibrant._files.predictions import is_log

    with naming(model):
        calibrator = model_file.load(model, sha256=sha256)
    if reading.normalize and calibrator.scores != "probabilities":
        raise click.UsageError(
            f"--normalize is for probabilities; {model} takes {calibrator.scores}"
        )
    if reading.normalize:
        calibrator.set_params(normalize="rows")
    is_of_tables = file.is_dir() and not is_log(file)
    if check_groups(calibrator, model, groups) and is_of_tables:
        raise click.UsageError(f"{model} was fitted with groups; name a table, not a directory")
    apply = partial(
        apply_file,
        calibrator,
        part=part,
        selection=reading.selection(),
        on_bad_row=on_bad_row,
        tell=reading.tell,
        groups=groups,
    )
    with progress_bar(f"calibrating {file}") as advance:
        if is_of_tables:
            reading.look_at_directory(file, part)
            done = apply_directory(apply, file, output, advance)
        else:
            done = apply(file, output, progress=advance)
    if done.n_bad_rows:
        from calibrant.errors import number_of  # numpy comes with it

        marked = "left out" if on_bad_row == "skip" else "marked with NaN"
        bad = number_of(done.n_bad_rows, "bad row")
        click.echo(f"calibrant: {bad} {marked}: {done.where}", err=True)
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
@reading_options()
@click.option("--test-labels", type=file_argument, help="npy file with the labels of TEST.")
@click.option("--seed", default=0, help="Seed of the resampling and the split.")
@costs_option
@coverage_option
@groups_option
@features_option
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
    coverage: float | None,
    groups: str | None,
    features: tuple[str, ...] | None,
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
    from calibrant._cli.compared import how_to_apply, read_two, read_two_costs
    from calibrant._cli.showing import comparison_numbers, comparison_table

    with progress_bar("reading"):
        two = read_two(
            val,
            test,
            reading,
            test_labels=test_labels,
            split=split,
            seed=seed,
            groups=groups,
            features=features,
        )
        table = read_two_costs(costs, two, reading.positive)
    by_row = ([] if groups is None else ["grouped"]) + ([] if features is None else ["features"])
    chosen: Any = methods.split(",") if methods else [*all_methods(), *by_row]
    if two.val.has_absent or two.test.has_absent:
        names = ["ts", *(chosen if methods else CAPABLE)]
        chosen = {name: make_calibrator(name, has_absent=True) for name in names}
    with progress_bar("comparing") as advance:
        comparison = reports.compare(
            two.val.y,
            two.val.scores,
            two.test.y,
            two.test.scores,
            chosen,
            scores=two.val.kind,
            classes=two.val.classes,
            normalize=two.val.normalize,
            groups_val=two.groups[0],
            groups_test=two.groups[1],
            features_val=two.features[0],
            features_test=two.features[1],
            costs=table,
            coverage=coverage,
            random_state=seed,
            sources=two.sources,
            progress=advance,
        )
    if two.test.is_stated:
        settings = comparison.settings | {"stated_confidences": True}
        comparison = replace(comparison, settings=settings)
    for text in comparison.warnings:
        click.echo(f"calibrant: warning: {text}", err=True)
    if report is not None:
        lines = how_to_apply(comparison, val, test, reading, groups, features)
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
