"""A comparison as a table: text for people, records for programs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant.plots.style import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.report.results import Comparison, MethodResult


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of methods: its metric, its unit and how it is printed."""

    head: str
    name: str
    factor: float = 100.0
    form: str = ".2f"
    more_is_better: bool = False

    def text(self, result: MethodResult) -> str:
        """Value of a method, as it is printed."""
        return format(self.factor * getattr(result.evaluation, self.name).value, self.form)

    def best(self, results: Sequence[MethodResult]) -> str:
        """Return the best value of all methods, as it is printed."""
        values = [getattr(result.evaluation, self.name).value for result in results]
        value = max(values) if self.more_is_better else min(values)
        return format(self.factor * value, self.form)


COLUMNS = (
    Column("accuracy, %", "accuracy", form=".1f", more_is_better=True),
    Column("NLL", "negative_log_likelihood", 1.0, ".4f"),
    Column("conf-ECE, %", "confidence_ece"),
    Column("cw-ECE, %", "classwise_ece", form=".3f"),
    Column("TECE, %", "thresholded_ece"),
    Column("KDE-ECE, %", "kernel_density_ece"),
    Column("Brier", "brier_score", 1.0, "#.3g"),
)


def table_text(comparison: Comparison) -> str:
    """Every method in a line, the best of each column starred."""
    results = comparison.results
    columns = [["method", *(shorten(result.method) for result in results)]]
    for column in COLUMNS:
        best = column.best(results)
        texts = [column.text(result) for result in results]
        columns.append([f"{column.head} ", *(f"{t}{'*' if t == best else ' '}" for t in texts)])
    columns.append(["fit, s", *(f"{result.fit_seconds:.2f}" for result in results)])
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in zip(*columns, strict=True)
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
