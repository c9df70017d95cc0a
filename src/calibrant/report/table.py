"""A comparison as a table: text for people, records for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calibrant.metrics.table import METRICS, metrics_of
from calibrant.plots.style import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.report.results import Comparison, MethodResult


def best_texts(results: Sequence[MethodResult]) -> dict[str, str]:
    """Return the best value of each metric, as it is printed."""
    return {
        name: metric.text(metric.best(getattr(r.evaluation, name).value for r in results))
        for name, metric in metrics_of(results[0].evaluation.n_classes).items()
    }


def table_text(comparison: Comparison) -> str:
    """Every method in a line, the best of each column starred."""
    results = comparison.results
    columns = [["method", *(shorten(result.method) for result in results)]]
    for name, best in best_texts(results).items():
        texts = [METRICS[name].text(getattr(r.evaluation, name).value) for r in results]
        stars = (f"{text}{'*' if text == best else ' '}" for text in texts)
        columns.append([f"{METRICS[name].heading} ", *stars])
    columns.append(["fit, s", *(f"{result.fit_seconds:.2f}" for result in results)])
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
        for first, *others in zip(*columns, strict=True)
    ]
    lines += [f"{f.method} failed: {f.error}: {f.message}" for f in comparison.failures]
    n_val, n_test = (comparison.settings[name] for name in ("n_val", "n_test"))
    sizes = f"{n_val:,} rows to fit, {n_test:,} to judge, {comparison.n_classes:,} classes"
    return "\n".join([*lines, f"{sizes}; * the best"])


def table_records(comparison: Comparison) -> list[dict[str, Any]]:
    """Numbers of every method by name, in units of one."""
    records = []
    for result in comparison.results:
        record: dict[str, Any] = {"method": result.method, "class": result.title}
        for name, estimate in result.evaluation.estimates().items():
            record |= {name: estimate.value, f"{name}_low": estimate.low}
            record[f"{name}_high"] = estimate.high
        record |= {f"{name}_p_value": p for name, p in result.p_values.items()}
        gap = result.difference
        record["nll_difference"] = 0.0 if gap is None else gap.value
        record["nll_difference_p_value"] = math.nan if gap is None else gap.p_value
        record |= {"fit_seconds": result.fit_seconds, "predict_seconds": result.predict_seconds}
        records.append(record)
    return records
