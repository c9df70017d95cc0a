"""Tables of the page: methods, classes, segments, groups, and what calibration is worth."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from calibrant._text import amount, clean, p_words
from calibrant._trial import UNCALIBRATED
from calibrant.metrics import METRICS
from calibrant.report._results import with_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibrant._result import Estimate
    from calibrant.metrics import SegmentTable
    from calibrant.report._results import Comparison, Decisions, MethodResult

MOST_CLASSES = 20
"""Rows of the table of classes."""


class PageCell(NamedTuple):
    """A number of a table, with smaller lines under it."""

    text: str
    notes: tuple[str, ...] = ()
    is_best: bool = False


class PageRow(NamedTuple):
    """A row of a table; its title is in smaller letters under its name."""

    name: str
    cells: list[PageCell]
    title: str = ""
    is_chosen: bool = False


class PageTable(NamedTuple):
    """A table of the page: what a row is, the heads of the other columns, and the rows."""

    what: str
    heads: list[str]
    rows: list[PageRow]


def method_tables(comparison: Comparison) -> tuple[PageTable, PageTable]:
    """Return the table of methods, and that of those that are folded away."""
    verdict, best = comparison.verdict, comparison.best_texts()
    heads = [METRICS[name].heading for name in best]
    after_nll = 1 + [*best].index("negative_log_likelihood")
    heads[after_nll:after_nll] = [
        f"NLL minus {comparison.baseline}",
        *comparison.results[0].binary_texts,
    ]
    rows = {}
    for method in comparison.results:
        cells = [_metric_cell(method, name, text) for name, text in best.items()]
        binary = [PageCell(text, _lines(below)) for text, below in method.binary_texts.values()]
        cells[after_nll:after_nll] = [_difference_cell(method), *binary]
        cells.append(PageCell("-" if method.calibrator is None else f"{method.fit_seconds:.2f}"))
        is_chosen = method.method == verdict.chosen
        rows[method.method] = PageRow(method.method, cells, clean(method.title), is_chosen)
    listed = [row for method, row in rows.items() if method in verdict.listed]
    others = [row for method, row in rows.items() if method not in verdict.listed]
    heads.append("fit, s")
    return PageTable("method", heads, listed), PageTable("method", heads, others)


def _lines(*texts: str) -> tuple[str, ...]:
    return tuple(filter(None, texts))


def _metric_cell(result: MethodResult, name: str, best: str) -> PageCell:
    text, interval = with_interval(getattr(result.evaluation, name), METRICS[name].text)
    chance = p_words(result.p_values.get(name, math.nan))
    return PageCell(text, _lines(interval, chance), text == best)


def _difference_cell(result: MethodResult) -> PageCell:
    gap = result.difference
    if gap is None:
        return PageCell("0")
    interval = "" if math.isnan(gap.low) else f"{gap.low:+.4f} to {gap.high:+.4f}"
    return PageCell(f"{gap.value:+.4f}", _lines(interval, p_words(gap.p_value)))


def class_table(comparison: Comparison) -> PageTable | None:
    """Return the worst classes before calibration; None of two, whose numbers stand above."""
    if comparison.n_classes == 2:
        return None
    before = comparison.results[0].classwise
    after = comparison.result(comparison.verdict.applied).classwise
    rows = []
    for j in before.order[:MOST_CLASSES].tolist():
        shares = before.frequency[j], before.mean_probability[j], after.mean_probability[j]
        numbers = [f"{100 * value:.3f}" for value in (*shares, before.ece[j], after.ece[j])]
        cells = [PageCell(text) for text in (f"{comparison.test_counts[j]:,}", *numbers)]
        rows.append(PageRow(str(comparison.classes[j]), cells))
    heads = ["share, %", "predicted before, %", "after, %", "ECE before, %", "after, %"]
    return PageTable("class", ["test rows", *heads], rows)


def segment_table(segments: SegmentTable) -> PageTable:
    """Return the segments whose predictions are wrong."""
    heads = ["predicted, %", "observed, %", "from", "to", "rows", "p-value"]
    cells = [[PageCell(text) for text in segment.cells()[1:]] for segment in segments.segments]
    names = [segment.condition for segment in segments.segments]
    return PageTable("segment", heads, list(map(PageRow, names, cells)))


def group_table(comparison: Comparison) -> PageTable | None:
    """Return the groups, the worst after calibration first."""
    if comparison.by_group is None:
        return None
    before = {g.group: g for g in comparison.by_group[UNCALIBRATED]}
    after = comparison.by_group[comparison.verdict.applied]
    error, nll = METRICS[after.metric], METRICS["negative_log_likelihood"]
    heads = [f"{m.heading} {when}" for m in (nll, error) for when in ("before", "after")]
    rows = []
    for g in after:
        cells = [PageCell(f"{g.n_rows:,}", ("few",) * g.has_few_rows)]
        cells += [
            _estimate_cell(one.estimates[metric.id], metric.text)
            for metric in (nll, error)
            for one in (before[g.group], g)
        ]
        cells.append(PageCell(f"{g.adjusted_p_value:.3g}".replace("nan", "-")))
        rows.append(PageRow(str(g.group), cells))
    return PageTable("group", ["test rows", *heads, "p after, corrected"], rows)


def decision_table(decisions: Decisions | None) -> PageTable | None:
    """Return what decisions cost, before and after."""
    if decisions is None:
        return None
    rows = [
        PageRow(
            method,
            [
                _estimate_cell(estimate, partial(amount, scale=estimate.value))
                for estimate in (cost.realised, cost.predicted)
            ],
        )
        for method, cost in decisions.costs.items()
    ]
    return PageTable("method", ["cost of a decision", "promised by the probabilities"], rows)


def _estimate_cell(estimate: Estimate, write: Callable[[float], str]) -> PageCell:
    text, interval = with_interval(estimate, write)
    return PageCell(text, _lines(interval))
