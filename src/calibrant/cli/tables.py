"""What people see: tables that line up."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text


def plain_table(*headings: str) -> Table:
    """Return an empty table; every column but the first is of numbers."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right")
    return table


def evaluation_table(source: str, result: Any, test: Any, shares: Any) -> Any:
    """Every metric with its interval, and the verdict of the test, if there was one."""
    from calibrant.metrics.table import METRICS
    from calibrant.report.verdict import describe_shares

    title = f"{source}: {result.n_rows:,} rows, {result.n_classes:,} classes"
    headings = ["metric", "value"]
    if result.n_resamples:
        headings.append(f"{result.confidence_level:.0%} interval")
    table = plain_table(*headings)
    for name, estimate in result.estimates().items():
        value, low, high = map(METRICS[name].text, estimate)
        interval = [f"{low} .. {high}"] if result.n_resamples else []
        table.add_row(METRICS[name].heading, value, *interval)
    lines = []
    if test is not None:
        of = "the confidence" if test.metric == "confidence" else f"class {shares.classes[1]}"
        verdict = "no sign of miscalibration" if test.p_value > 0.05 else "it is not calibrated"
        lines.append(f"Calibration test of {of}: p = {test.p_value:.3g}: {verdict}.")
    off = describe_shares(shares)
    lines += [f"{off[0].upper()}{off[1:]}."] if off else []
    return Group(Text(title), table, *map(Text, lines))


def comparison_table(comparison: Any) -> Any:
    """Compare methods, the best of each column starred, and the verdict under it."""
    from calibrant.metrics.table import metrics_of
    from calibrant.report import reach_verdict

    # Of two classes the class-wise error is that of the positive one.
    left_out = {"kernel_density_ece", "classwise_ece" if comparison.n_classes == 2 else None}
    known = metrics_of(comparison.n_classes).values()
    metrics = [metric for metric in known if metric.id not in left_out]
    headings = [*(metric.heading for metric in metrics), "fit, s"]
    # Units under the names: so the table fits into 80 columns.
    table = plain_table("method", *(heading.replace(", ", "\n") for heading in headings))
    columns = []
    for metric in metrics:
        texts = [metric.text(r.evaluation.estimates()[metric.id].value) for r in comparison.results]
        best = metric.best(map(float, texts))
        columns.append(
            [Text(f"{t}*", "bold") if float(t) == best else Text(f"{t} ") for t in texts]
        )
    for result, *cells in zip(comparison.results, *columns, strict=True):
        table.add_row(result.method, *cells, f"{result.fit_seconds:.2f}")
    failures = [f"{f.method} failed: {f.error}: {f.message}" for f in comparison.failures]
    lines = [reach_verdict(comparison).headline, *failures]
    return Group(table, *map(Text, lines))  # names of classes are data, not markup


def comparison_numbers(comparison: Any) -> dict[str, Any]:
    """Put a comparison into plain numbers, for programs."""
    from calibrant.report import reach_verdict

    verdict = reach_verdict(comparison)
    return {
        "chosen": verdict.chosen,
        "verdict": verdict.headline,
        "methods": [
            {"method": r.method, "fit_seconds": r.fit_seconds, **r.evaluation.to_dict()}
            for r in comparison.results
        ],
        "failures": [{"method": f.method, "message": f.message} for f in comparison.failures],
    }
