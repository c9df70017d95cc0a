"""``calibrant evaluate``: metrics of a file; and ``calibrant compare``: methods on two."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from calibrant._cli.costs import read_cost_file
from calibrant._cli.options import PATH, SCORES, OutputPath, is_same, shared
from calibrant._cli.showing import plain_table, show, tell
from calibrant._progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Group

    from calibrant._cli.reading import Reading
    from calibrant._files.align import Aligned
    from calibrant.decisions import ExpectedCost
    from calibrant.metrics import Predictions
    from calibrant.report._results import Comparison

TEST_DRAWS = 5
"""Draws of the calibration test for each resample behind the intervals."""

BROKEN = {"predicted/observed": "predicted\n/observed", "intercept": "inter-\ncept"}
"""Headings of columns on two lines."""

Two = tuple["Aligned", "Aligned", dict[str, str]]
"""Rows to fit to, rows to judge on, and what they are called in the report."""


@click.command()
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
    from calibrant._files.align import Aligned
    from calibrant._text import describe_shares

    drawn: dict[str, Any] = {"n_bins": bins, "strategy": strategy, "random_state": seed}
    further: dict[str, Any] = {}
    test = groups = None
    with progress_bar(f"reading {file}") as advance:
        data = reading.open(
            file,
            usual_part="test",
            positive_last=True,
            needs_whole={"--costs": costs},
            progress=advance,
        )
        advance(0, None, f"measuring {data.source}")
        if isinstance(data, Aligned):
            groups = data.groups(reading.groups)
        with data.explained():
            rows, drawn["classes"] = data.to_measure()
            shares = metrics.class_shares(rows, classes=drawn["classes"])
            result = metrics.evaluate(
                rows, ordered=ordered, groups=groups, n_resamples=resamples, **drawn
            )
            if resamples:
                test = metrics.calibration_test(rows, n_resamples=resamples * TEST_DRAWS, **drawn)
            if isinstance(data, Aligned):
                further = _measure_further(data, rows, reading, costs, seed)
    numbers = {"source": data.source, **result.to_dict(), "shares": shares.to_dict()}
    numbers |= {"p_value": None if test is None else test.p_value}
    lines = [data.source, *str(result).splitlines()]
    if data.is_stated and result.binary is not None:
        # Their accuracy would be that of "confidence above 1/2", which nobody predicted.
        del numbers["accuracy"]
        lines = [line for line in lines if not line.startswith("accuracy")]
        right = metrics.share_interval(
            result.binary.observed, result.n_rows, result.confidence_level
        )
        numbers["right_answers"] = right._asdict()
        lines.append("Right answers: {:.2%} ({:.2%} to {:.2%}).".format(*right))
    if result.by_group is not None:
        lines.append(f"Worst group: {result.by_group.worst}.")
    if test is not None:
        of = "the confidence" if test.metric == "confidence" else f"class {shares.classes[1]}"
        verdict = "no sign of miscalibration" if test.p_value > 0.05 else "it is not calibrated"
        lines.append(f"Calibration test of {of}: p = {test.p_value:.3g}: {verdict}.")
    if result.binary is None and (off := describe_shares(shares)):
        lines.append(f"{off[0].upper()}{off[1:]}.")
    for name, value in further.items():
        numbers[name] = value.to_dict()
        lines.append(_describe_cost(value) if name == "cost" else str(value))
    show(numbers, as_json, "\n".join(lines))


def _describe_cost(cost: ExpectedCost) -> str:
    from calibrant._text import money

    words = f"{money(cost.realised)}; predicted by the probabilities: {money(cost.predicted)}"
    return f"Mean cost per decision: {words}."


def _measure_further(
    data: Aligned,
    rows: Predictions,
    reading: Reading,
    costs: Path | None,
    seed: int,
) -> dict[str, Any]:
    """Measure costs of decisions and segments of rows, if they were asked for."""
    from calibrant import _notices as notices
    from calibrant._gate import ONE_COLUMN
    from calibrant.decisions import expected_cost
    from calibrant.metrics import calibration_segments

    result: dict[str, Any] = {}
    if costs is not None:
        is_single = data.kind in ONE_COLUMN
        table = read_cost_file(costs, data.known_classes(), reading.positive, is_single=is_single)
        with notices.kept():  # metrics have warned of the order of columns
            result["cost"] = expected_cost(rows, costs=table.matrix)
    if reading.features is not None:
        features = data.features(reading.features)
        result["segments"] = calibration_segments(rows, features=features, random_state=seed)
    return result


@click.command()
@click.argument("val", type=PATH)
@click.argument("test", type=PATH, required=False)
@click.option("--methods", help="Methods, separated by commas; all by default.")
@click.option("--report", type=OutputPath(), help="Write a report to this HTML file.")
@click.option(
    "--split",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of the rows of VAL to fit to; the other rows are the test part.",
)
@shared(*SCORES, "groups", "features")
@click.option("--test-labels", type=PATH, help="npy file with the labels of TEST.")
@shared("seed", "costs", "jobs", "as_json")
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
    from calibrant._gate import ONE_COLUMN

    table = None
    with progress_bar("reading"):
        if split is None:
            fit_to, judge_on, sources = read_two(val, test, reading, test_labels)
        else:
            fit_to, judge_on, sources = _split_rows(val, test, reading, split, seed)
        if costs is not None:
            classes, is_single = fit_to.known_classes(judge_on), fit_to.kind in ONE_COLUMN
            table = read_cost_file(costs, classes, reading.positive, is_single=is_single).matrix
    has_absent = fit_to.has_absent or judge_on.has_absent
    with progress_bar("comparing") as advance:
        comparison = reports.compare(
            fit_to.y,
            fit_to.scores,
            judge_on.y,
            judge_on.scores,
            _choose(methods, reading, has_absent=has_absent),
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
        lines = _how_to_apply(comparison.verdict.applied, val, test, reading)
        reports.write_report(report, comparison, commands=lines)
    show(_numbers(comparison), as_json, comparison_table(comparison))
    if report is not None and not as_json:
        click.echo(f"Report: {report.resolve().as_uri()}")


def read_two(val: Path, test: Path | None, reading: Reading, test_labels: Path | None) -> Two:
    """Read both parts, from two files or from two parts of one."""
    from calibrant._files.predictions import has_parts
    from calibrant.errors import PredictionFileError

    if (test is None or is_same(val, test)) and not has_parts(val):
        raise PredictionFileError(
            f"{val} has no val_* and test_* parts, and rows that were fitted to cannot judge; give "
            "a second file, or draw rows by --split 0.5"
        )
    first = reading.read(val, usual_part="val", positive_last=True)
    second = replace(reading, labels=test_labels).read(
        test or val, usual_part="test", like=first, positive_last=True
    )
    if first.kind != second.kind:
        raise PredictionFileError(
            f"{first.source} holds {first.kind}, but {second.source} {second.kind}; choose one by "
            "--scores, or convert a file"
        )
    first.check()
    second.check()
    return first, second, {"calibration": first.source, "test": second.source}


def _split_rows(path: Path, test: Path | None, reading: Reading, share: float, seed: int) -> Two:
    """Read one file, and draw the rows to fit to."""
    import numpy as np

    from calibrant._files.predictions import has_parts
    from calibrant.errors import PredictionFileError

    if has_parts(path) or not (test is None or is_same(path, test)):
        raise PredictionFileError(f"{path}: --split is for one file without parts")
    whole = reading.read(path, positive_last=True)
    whole.check()
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


def _choose(methods: str | None, reading: Reading, *, has_absent: bool) -> Any:
    """Return the methods to compare: names, or calibrators that know of absent options."""
    from calibrant._calibrators.masked import CAPABLE
    from calibrant._calibrators.methods import make_calibrator
    from calibrant._calibrators.methods import methods as all_methods

    if has_absent:
        names = ["ts", *(methods.split(",") if methods else CAPABLE)]
        return {name: make_calibrator(name, has_absent=True) for name in names}
    if methods is not None:
        return methods.split(",")
    by_row = {"grouped": reading.groups, "features": reading.features}
    return [*all_methods(), *(name for name, columns in by_row.items() if columns)]


def _how_to_apply(method: str, val: Path, test: Path | None, reading: Reading) -> list[str]:
    """Return command lines that fit the method of the verdict to these files, and apply it."""
    new = val if test is None else test
    suffix = "".join(new.suffixes[-2:]) if new.suffix.lower() == ".gz" else new.suffix
    by_row = {"grouped": "groups", "features": "features"}
    # Columns that the method does not read are no scores, either.
    columns = {"groups": (reading.groups,), "features": reading.features or ()}
    unused = [c for name, own in columns.items() if name != by_row.get(method) for c in own if c]
    reading = replace(reading, ignore=(*(reading.ignore or ()), *unused))
    option = [by_row[method]] if method in by_row else []
    of_fit = reading.words([*SCORES, *option])
    of_apply = reading.words(["normalize", "label_column", "columns", "ignore"])
    of_apply += reading.words(["groups"]) if method == "grouped" else []
    method = "auto" if method in by_row else method
    fit = ["calibrant", "fit", str(val), *of_fit, "--method", method]
    apply = ["calibrant", "apply", "model.calibrant", str(new), *of_apply]
    return [
        shlex.join([*fit, "--output", "model.calibrant"]),
        shlex.join([*apply, "--output", f"calibrated{suffix or '.csv'}"]),
    ]


def comparison_table(comparison: Comparison) -> Group:
    """Compare methods, the best of each column starred, and the verdict under it."""
    from rich.console import Group
    from rich.text import Text

    from calibrant.metrics import METRICS

    best = comparison.best_texts()
    if comparison.n_classes == 2:
        best.pop("accuracy", None)  # AUC has its place
    # Units under the names: so the table fits into 80 columns.
    headings = [METRICS[name].heading.replace(", ", "\n") for name in best]
    headings += [BROKEN.get(title, title) for title in comparison.results[0].binary_texts]
    table = plain_table("method", *headings, "fit\ns")
    for result in comparison.results:
        estimates = result.evaluation.estimates()
        texts = {name: METRICS[name].text(estimates[name].value) for name in best}
        cells = [f"{text}*" if text == best[name] else f"{text} " for name, text in texts.items()]
        cells += [text for text, _ in result.binary_texts.values()]
        table.add_row(Text(result.method), *cells, f"{result.fit_seconds:.2f}")
    lines = [comparison.verdict.headline]
    binary = comparison.results[0].evaluation.binary
    if comparison.is_stated and binary is not None:
        share = binary.observed
        lines.append(f"Right answers: {share:.1%} of those that judge.")
    lines += [f"{f.method} failed: {f.error}: {f.message}" for f in comparison.failures]
    if comparison.by_group is not None:
        method, groups = list(comparison.by_group.items())[-1]
        lines += [str(groups), f"Worst group with {method}: {groups.worst}."]
    if comparison.decisions is not None:
        lines += comparison.decisions.describe()
    return Group(table, *map(Text, lines))  # names of classes are data, not markup


def _numbers(comparison: Comparison) -> dict[str, Any]:
    """Put a comparison into plain numbers, for programs."""
    methods = [
        {"method": r.method, "fit_seconds": r.fit_seconds, **r.evaluation.to_dict()}
        for r in comparison.results
    ]
    result: dict[str, Any] = {
        "chosen": comparison.verdict.chosen,
        "verdict": comparison.verdict.headline,
        "methods": methods,
        "failures": [{"method": f.method, "message": f.message} for f in comparison.failures],
    }
    binary = comparison.results[0].evaluation.binary
    if comparison.is_stated and binary is not None:
        result["right_answers"] = binary.observed
        for numbers in methods:
            del numbers["accuracy"]
    if comparison.by_group is not None:
        result["by_group"] = {name: own.to_dict() for name, own in comparison.by_group.items()}
    if comparison.decisions is not None:
        result["decisions"] = comparison.decisions.to_dict()
    return result
