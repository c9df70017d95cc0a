"""``calibrant evaluate``: metrics of a file; and ``calibrant compare``: methods on two."""

from __future__ import annotations

import shlex
from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Literal, cast

import click

from calibrant._cli.options import PATH, SCORES, SHARE, OutputPath, command, is_same, shared, words
from calibrant._cli.reading import read_any, read_file, show, tell
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from calibrant._calibrators.base import Calibrator
    from calibrant._files.align import Aligned
    from calibrant._files.source import Request
    from calibrant._result import Result
    from calibrant._types import ScoresKind
    from calibrant.metrics import Predictions
    from calibrant.report import Comparison

    Two = tuple[Aligned, Aligned, dict[str, str]]
    """Rows to fit to, rows to judge on, and what they are called in the report."""

WIDTH = 80
"""Signs of a line of prose under a table."""

TEST_DRAWS = 5
"""Draws of the calibration test for each resample behind the intervals."""


@command()
@click.argument("file", type=PATH)
@shared("part", *SCORES, "groups", "features")
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
@click.option(
    "--ordered", is_flag=True, help="Add the ranked probability score, for ordered classes."
)
@shared("seed", "costs", "jobs", "as_json")
def evaluate(
    file: Path,
    request: Request,
    bins: int,
    strategy: Literal["uniform", "quantile"] | None,
    resamples: int,
    seed: int,
    ordered: bool,
    costs: Path | None,
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
    from calibrant._text import describe_shares

    test = None
    request = replace(request, usual_part="test")
    with progress_bar(f"reading {file}") as advance:
        data = read_any(
            file, request, needs_all=costs is not None, positive_last=True, progress=advance
        )
        advance(0, None, f"measuring {data.source}")
        with data.explained():
            rows, classes = data.to_measure()
            result = metrics.evaluate(
                rows,
                ordered=ordered,
                groups=data.groups,
                n_resamples=resamples,
                n_bins=bins,
                strategy=strategy,
                random_state=seed,
                classes=classes,
            )
            shares = metrics.class_shares(rows, classes=classes)
            if resamples:
                test = metrics.calibration_test(
                    rows,
                    n_resamples=TEST_DRAWS * resamples,
                    n_bins=bins,
                    strategy=strategy,
                    random_state=seed,
                    classes=classes,
                )
            further = []
            if isinstance(rows, metrics.Predictions):  # costs and features need all rows
                further = [*_measure_further(data, rows, costs, seed)]
    numbers = {"source": data.source, **result.to_dict(), "shares": shares.to_dict()}
    numbers |= {"p_value": None if test is None else test.p_value}
    lines = [data.source, *str(result).splitlines()]
    if data.rows.is_stated and result.binary is not None:
        # Their accuracy would be that of "confidence above 1/2", which nobody predicted.
        del numbers["accuracy"]
        lines = [line for line in lines if not line.startswith("accuracy")]
        observed = result.binary.observed
        right = metrics.share_interval(observed, result.n_rows, result.confidence_level)
        numbers["right_answers"] = right._asdict()
        lines.append("Right answers: {:.2%} ({:.2%} to {:.2%}).".format(*right))
    if result.by_group is not None:
        lines.append(f"Worst group: {result.by_group.worst}.")
    if test is not None:
        of = "the confidence" if test.metric == "confidence" else f"class {shares.classes[1]}"
        sign = "no sign of miscalibration" if test.p_value > 0.05 else "it is not calibrated"
        lines.append(f"Calibration test of {of}: p = {test.p_value:.3g}: {sign}.")
    if result.binary is None and (off := describe_shares(shares)):
        lines.append(f"{off[0].upper()}{off[1:]}.")
    for name, own, text in further:
        numbers[name] = own.to_dict()
        lines.append(text)
    show(numbers, "\n".join(lines))


def _measure_further(
    data: Aligned, rows: Predictions, costs: Path | None, seed: int
) -> Iterator[tuple[str, Result, str]]:
    """Yield costs of decisions and segments of rows, if they were asked for, with words."""
    from calibrant import _notices as notices
    from calibrant._text import money
    from calibrant.decisions import expected_cost, read_cost_file
    from calibrant.metrics import calibration_segments

    if costs is not None:
        is_single, positive = data.rows.is_single, data.request.positive
        table = read_cost_file(costs, rows.classes, positive, is_single=is_single)
        with notices.kept():  # metrics have warned of the order of columns
            cost = expected_cost(rows, costs=table.matrix)
        words = f"{money(cost.realised)}; predicted by the probabilities: {money(cost.predicted)}"
        yield "cost", cost, f"Mean cost per decision: {words}."
    if data.features is not None:
        segments = calibration_segments(rows, features=data.features, random_state=seed)
        yield "segments", segments, str(segments)


@command()
@click.argument("val", type=PATH)
@click.argument("test", type=PATH, required=False)
@click.option("--methods", help="Methods, separated by commas; all by default.")
@click.option("--report", type=OutputPath(), help="Write a report to this HTML file.")
@click.option(
    "--split",
    type=SHARE,
    help="Share of the rows of VAL to fit to; the other rows are the test part.",
)
@shared("part", *SCORES, "groups", "features")
@click.option("--test-labels", type=PATH, help="npy file with the labels of TEST.")
@shared("seed", "costs", "jobs", "as_json")
def compare(
    val: Path,
    test: Path | None,
    methods: str | None,
    report: Path | None,
    split: float | None,
    request: Request,
    test_labels: Path | None,
    seed: int,
    costs: Path | None,
) -> None:
    """Fit every method to VAL and compare them on TEST.

    TEST may be left out if VAL is an npz file with val_* and test_* arrays, or with --split.

    \b
    Example:
      calibrant compare val.npz test.npz --report report.html
    """  # noqa: D301
    from calibrant import report as reports
    from calibrant.decisions import read_cost_file

    table = None
    with progress_bar("reading"):
        if split is None:
            fit_to, judge_on, sources = read_two(val, test, request, test_labels)
        else:
            fit_to, judge_on, sources = split_rows(val, test, request, split, seed)
        if costs is not None:
            classes, is_single = fit_to.check().classes, fit_to.rows.is_single
            table = read_cost_file(costs, classes, request.positive, is_single=is_single).matrix
    has_absent = fit_to.rows.has_absent or judge_on.rows.has_absent
    with progress_bar("comparing") as advance, fit_to.explained(), judge_on.explained():
        comparison = reports.compare(
            fit_to.y,
            fit_to.scores,
            judge_on.y,
            judge_on.scores,
            _choose(methods, has_absent=has_absent),
            scores=cast("ScoresKind", fit_to.rows.kind),
            classes=fit_to.classes,
            normalize="rows" if request.normalize else None,
            groups_val=fit_to.groups,
            groups_test=judge_on.groups,
            features_val=fit_to.features,
            features_test=judge_on.features,
            costs=table,
            random_state=seed,
            sources=sources,
            progress=advance,
        )
    if judge_on.rows.is_stated:
        settings = comparison.settings | {"stated_confidences": True}
        comparison = replace(comparison, settings=settings)
    for text in comparison.warnings:
        tell(f"warning: {text}")
    if report is not None:
        lines = apply_lines(comparison.verdict.applied, val, test, request)
        reports.write_report(report, comparison, commands=lines)
    show(comparison.to_dict(), describe(comparison), report)


def read_two(val: Path, test: Path | None, request: Request, test_labels: Path | None) -> Two:
    """Read both parts, from two files or from two parts of one."""
    from calibrant.errors import PredictionFileError

    test = val if test is None or is_same(val, test) else test
    first = read_file(val, replace(request, usual_part="val"), positive_last=True)
    of_test = replace(request, usual_part="test", labels=test_labels)
    second = read_file(test, of_test, like=first, positive_last=True)
    if first.source == second.source:
        fault = "has no val_* and test_* parts, and rows that were fitted to cannot judge"
        remedy = "give a second file, or draw rows by --split 0.5"
        raise PredictionFileError(f"{val} {fault}; {remedy}")
    if first.rows.kind != second.rows.kind:
        kinds = f"holds {first.rows.kind}, but {second.source} {second.rows.kind}"
        remedy = "choose one by --scores, or convert a file"
        raise PredictionFileError(f"{first.source} {kinds}; {remedy}")
    return first, second, {"calibration": first.source, "test": second.source}


def split_rows(path: Path, test: Path | None, request: Request, share: float, seed: int) -> Two:
    """Read one file, and draw the rows to fit to."""
    import numpy as np

    from calibrant.errors import PredictionFileError

    if not (test is None or is_same(path, test)):
        raise PredictionFileError(f"{path}: --split is for one file; leave out {test}")
    whole = read_file(path, request, positive_last=True)
    n_rows = len(whole.y)
    if n_rows < 2:
        raise PredictionFileError(f"{path} has {n_rows} rows, which cannot be split")
    n_val = min(max(1, round(share * n_rows)), n_rows - 1)
    order = np.random.default_rng(seed).permutation(n_rows)
    val, test_rows = (whole.take(np.sort(rows)) for rows in np.split(order, [n_val]))
    drawn = f"{n_val:,} of {n_rows:,} rows, drawn at random (seed {seed})"
    sources = {
        "calibration": f"{whole.source}: {drawn}",
        "test": f"{whole.source}: the other {n_rows - n_val:,} rows",
    }
    return val, test_rows, sources


def _choose(methods: str | None, *, has_absent: bool) -> list[str] | dict[str, Calibrator] | None:
    """Return the methods to compare: names, or calibrators that know of absent options."""
    from calibrant._calibrators.around import CAPABLE
    from calibrant._calibrators.methods import make_calibrator

    names = None if methods is None else methods.split(",")
    if not has_absent:
        return names
    return {name: make_calibrator(name, has_absent=True) for name in ["ts", *(names or CAPABLE)]}


def apply_lines(method: str, val: Path, test: Path | None, request: Request) -> list[str]:
    """Return command lines that fit the method of the verdict to these files, and apply it."""
    new = val if test is None else test
    suffix = "".join(new.suffixes[-2:]) if new.suffix.lower() == ".gz" else new.suffix
    # Columns that the method does not read are no scores, either.
    columns = {"grouped": (request.groups,), "features": request.features}
    unused = [c for name, own in columns.items() if name != method for c in own if c]
    request = replace(request, ignore=(*request.ignore, *unused))
    own = {"grouped": ["groups"], "features": ["features"]}.get(method, [])
    of_apply = ["part", "normalize", "label", "columns", "ignore"]
    of_apply += own if "groups" in own else []
    fit = [str(val), *words(request, ["part", *SCORES, *own])]
    fit += ["--method", "auto" if own else method, "--output", "model.calibrant"]
    apply = ["model.calibrant", str(new), *words(request, of_apply)]
    apply += ["--output", f"calibrated{suffix or '.csv'}"]
    return [shlex.join(["calibrant", "fit", *fit]), shlex.join(["calibrant", "apply", *apply])]


def describe(comparison: Comparison) -> str:
    """Return the table of methods, the verdict, and what groups and costs say."""
    lines = [str(comparison), fill(comparison.verdict.headline, WIDTH)]
    if comparison.right_answers is not None:
        lines.append(f"Right answers: {comparison.right_answers:.1%} of those that judge.")
    if comparison.by_group is not None:
        method, groups = list(comparison.by_group.items())[-1]
        lines += [str(groups), f"Worst group with {method}: {groups.worst}."]
    if comparison.decisions is not None:
        lines += [fill(line, WIDTH) for line in comparison.decisions.describe()]
    return "\n".join(lines)
