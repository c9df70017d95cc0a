"""What people see: tables that line up."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

NAMES = {
    "accuracy": ("accuracy %", 100.0, ".1f"),
    "negative_log_likelihood": ("NLL", 1.0, ".4f"),
    "brier_score": ("Brier", 1.0, ".4f"),
    "confidence_ece": ("conf-ECE %", 100.0, ".2f"),
    "classwise_ece": ("cw-ECE %", 100.0, ".2f"),
    "thresholded_ece": ("TECE %", 100.0, ".2f"),
    "kernel_density_ece": ("KDE-ECE %", 100.0, ".2f"),
}


def plain_table(*headings: str) -> Table:
    """Return an empty table; every column but the first is of numbers."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right")
    return table


def evaluation_table(source: str, result: Any, test: Any) -> Any:
    """Every metric with its interval, and the verdict of the test."""
    title = f"{source}: {result.n_rows:,} rows, {result.n_classes:,} classes"
    level = f"{result.confidence_level:.0%} interval"
    table = plain_table("metric", "value", level)
    for field, (name, factor, form) in NAMES.items():
        value, low, high = (factor * x for x in getattr(result, field))
        table.add_row(name, format(value, form), f"{low:{form}} .. {high:{form}}")
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
    from calibrant.report import reach_verdict

    names = {field: form for field, form in NAMES.items() if field != "kernel_density_ece"}
    table = plain_table("method", *(name for name, *_ in names.values()), "fit s")
    shown = {
        field: [
            format(factor * getattr(r.evaluation, field).value, form) for r in comparison.results
        ]
        for field, (_, factor, form) in names.items()
    }
    best = {
        field: (max if field == "accuracy" else min)(map(float, cells))
        for field, cells in shown.items()
    }
    for i, result in enumerate(comparison.results):
        cells = [
            Text(f"{texts[i]}*", "bold") if float(texts[i]) == best[field] else Text(f"{texts[i]} ")
            for field, texts in shown.items()
        ]
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
