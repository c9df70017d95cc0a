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


def evaluation_table(source: str, result: Any, test: Any) -> Any:
    """Every metric with its interval, and the verdict of the test."""
    from calibrant.metrics.table import METRICS

    title = f"{source}: {result.n_rows:,} rows, {result.n_classes:,} classes"
    level = f"{result.confidence_level:.0%} interval"
    table = plain_table("metric", "value", level)
    for name, estimate in result.estimates().items():
        value, low, high = map(METRICS[name].text, estimate)
        table.add_row(METRICS[name].heading, value, f"{low} .. {high}")
    verdict = (
        "no sign of miscalibration" if test.p_value > 0.05 else "the confidences are not calibrated"
    )
    return Group(
        Text(title),
        table,
        Text(f"Calibration test of the confidence: p = {test.p_value:.3g}: {verdict}."),
    )


def comparison_table(comparison: Any) -> Any:
    """Compare methods, the best of each column starred, and the verdict under it."""
    from calibrant.metrics.table import METRICS
    from calibrant.report import reach_verdict

    metrics = [metric for metric in METRICS.values() if metric.id != "kernel_density_ece"]
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
