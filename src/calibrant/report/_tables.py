"""Tables of the page: key numbers, methods, groups, and what calibration is worth."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _notices as notices
from calibrant._result import Estimate, doc, result
from calibrant._text import amount, clean, money, p_words, percent
from calibrant._trial import UNCALIBRATED
from calibrant.decisions import expected_cost, value_of_calibration
from calibrant.metrics import LARGEST_SHARE, METRICS, SIGNIFICANT, metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from calibrant._predictions import Predictions
    from calibrant.decisions import CalibrationValue, ExpectedCost
    from calibrant.report._results import Comparison, MethodResult

BASELINES = {"ts": "temperature scaling", "platt-ovr": "Platt scaling"}
"""Simple methods that others are compared with, by short name."""

DEFAULT = "auto"
"""The method that is recommended unless another is clearly better."""

LEFT_OUT_OF_TWO = frozenset({"confidence_ece", "classwise_ece", "thresholded_ece"})
"""Metrics that tables of two classes leave out: of two, each is nearly the positive class's error,
or of the few probabilities above one half alone."""


def baseline_of(n_classes: int) -> str:
    """Return the baseline: two classes have a share to be corrected, which TS cannot change."""
    return "platt-ovr" if n_classes == 2 else "ts"


def cell(value: float, text: str, notes: Sequence[str] = (), best: str = "") -> dict[str, Any]:
    """Return a cell: what it is sorted by, its text, and lines under it."""
    sort = repr(float(value)) if math.isfinite(value) else ""
    return {"sort": sort, "text": text, "notes": [*filter(None, notes)], "is_best": text == best}


def _texts(estimate: Estimate, write: Callable[[float], str]) -> tuple[str, str]:
    """Return a number and its interval as they are printed; "" is for none."""
    value, low, high = map(write, estimate)
    return value, "" if math.isnan(estimate.low) else f"{low} to {high}"


def distinct_rows(results: Sequence[MethodResult]) -> dict[str, MethodResult]:
    """Return rows of a table by label: methods that are one fit here share a row, "ms, dirichlet".

    A method is taken for the same as an earlier one if its class derives from that one's and its
    numbers are equal: so is Dirichlet calibration matrix scaling, where scores are probabilities.
    A row is that of its first method, or of the baseline, so that the verdict names one of them.
    """
    rows: list[list[MethodResult]] = []
    for method in results:
        same = [row for row in rows if _is_same_fit(method, row[0])]
        same[0].append(method) if same else rows.append([method])
    firsts = [
        next((result for result in row if result.method in BASELINES), row[0]) for row in rows
    ]
    return {
        ", ".join(result.method for result in row): f for row, f in zip(rows, firsts, strict=True)
    }


def _is_same_fit(result: MethodResult, first: MethodResult) -> bool:
    if result.calibrator is None or not isinstance(result.calibrator, type(first.calibrator)):
        return False
    a, b = ([each.value for each in r.evaluation.estimates().values()] for r in (result, first))
    return np.allclose(a, b, rtol=1e-9, atol=0.0)


def best_texts(comparison: Comparison) -> dict[str, str]:
    """Return the best value of each metric that tables of methods have, as it is printed."""
    result = {}
    for name in shown_metrics(comparison):
        metric = METRICS[name]
        values = (getattr(r.evaluation, name).value for r in comparison.results)
        result[name] = metric.text(metric.best(values))
    return result


def shown_metrics(comparison: Comparison) -> list[str]:
    """Return the metrics in tables of methods by id.

    Of two classes, errors of the confidence and class by class are that of the positive class once
    more. Accuracy is no headline where to predict one class is as accurate, and says nothing of
    confidences that were stated, which are no predictions of a class.
    """
    names = [*metrics_of(comparison.n_classes)]
    if comparison.n_classes == 2:
        names = [name for name in names if name not in LEFT_OUT_OF_TWO]
    if not accuracy_is_headline(comparison):
        names.append(names.pop(names.index("accuracy")))
    return [name for name in names if name != "accuracy" or not comparison.is_stated]


def accuracy_is_headline(comparison: Comparison) -> bool:
    """Whether accuracy tells more than the share of the most frequent class."""
    is_lopsided = comparison.results[0].evaluation.largest_share > LARGEST_SHARE
    return not is_lopsided and not comparison.is_stated


def key_numbers(comparison: Comparison) -> list[dict[str, str]]:
    """Return the numbers of the verdict, before and after, with the interval after."""
    before, after = comparison.results[0], comparison.result(comparison.verdict.applied)
    error, nll = before.headline, METRICS["negative_log_likelihood"]
    titles = {error: f"calibration error ({error.title})", nll: "log loss (NLL)"}
    titles |= {METRICS["accuracy"]: "accuracy"} if accuracy_is_headline(comparison) else {}
    rows = []
    for metric, words in titles.items():
        first, last = (getattr(result.evaluation, metric.id) for result in (before, after))
        unit = "" if metric.factor == 1.0 else " %"
        text, interval = _texts(last, metric.text)
        interval += unit if interval else ""
        rows.append((words, metric.text(first.value) + unit, text + unit, interval))
    first_texts = before.binary_texts
    for title, (text, interval) in after.binary_texts.items():
        rows.append((title, first_texts[title][0], text, interval))
    names = ("words", "before", "after", "interval")
    return [dict(zip(names, row, strict=True)) for row in rows]


def method_table(comparison: Comparison) -> dict[str, Any]:
    """Heads of the table of methods, its rows, and those that are folded away."""
    chosen, listed = comparison.verdict.chosen, comparison.verdict.listed
    best = best_texts(comparison)
    heads = [METRICS[name].heading for name in best]
    after_nll = 1 + [*best].index("negative_log_likelihood")
    heads[after_nll:after_nll] = [
        f"NLL minus {comparison.baseline}",
        *comparison.results[0].binary_texts,
    ]
    rows: list[dict[str, Any]] = []
    for label, method in distinct_rows(comparison.results).items():
        cells = [_metric_cell(method, name, text) for name, text in best.items()]
        cells[after_nll:after_nll] = [_difference_cell(method), *_binary_cells(method)]
        seconds = "-" if method.calibrator is None else f"{method.fit_seconds:.2f}"
        cells.append(cell(method.fit_seconds, seconds))
        row = {"method": method.method, "label": label, "is_chosen": method.method == chosen}
        words = re.split(r"(?<=[a-z])(?=[A-Z])", clean(method.title))
        rows.append({**row, "title": words, "cells": cells})
    first = [row for row in rows if row["method"] in listed]
    others = [row for row in rows if row["method"] not in listed]
    table = {"heads": [*heads, "fit, s"], "rows": first, "others": others}
    return table | {"is_shared": len(rows) < len(comparison.results)}


def _metric_cell(result: MethodResult, name: str, best: str) -> dict[str, Any]:
    estimate = getattr(result.evaluation, name)
    text, interval = _texts(estimate, METRICS[name].text)
    chance = p_words(result.p_values.get(name, math.nan))
    return cell(estimate.value, text, [interval, chance], best)


def _binary_cells(result: MethodResult) -> list[dict[str, Any]]:
    """Return the cells of what only two classes have."""
    binary = result.evaluation.binary
    if binary is None:
        return []
    pairs = zip(binary.estimates().values(), binary.texts().values(), strict=True)
    return [cell(estimate.value, text, [interval]) for estimate, (text, interval) in pairs]


def _difference_cell(result: MethodResult) -> dict[str, Any]:
    gap = result.difference
    if gap is None:
        return cell(0.0, "0")
    interval = "" if math.isnan(gap.low) else f"{gap.low:+.4f} to {gap.high:+.4f}"
    return cell(gap.value, f"{gap.value:+.4f}", [interval, p_words(gap.p_value)])


def group_table(comparison: Comparison) -> dict[str, Any] | None:
    """Heads and rows of the table of groups, the worst after calibration first."""
    if comparison.by_group is None:
        return None
    before = {g.group: g for g in comparison.by_group[UNCALIBRATED]}
    after = comparison.by_group[comparison.verdict.applied]
    error, nll = METRICS[after.metric], METRICS["negative_log_likelihood"]
    names = [f"{name} {when}" for name in ("NLL", error.title) for when in ("before", "after")]
    names[2:] = [f"{name}, %" for name in names[2:]]
    rows = []
    for g in after:
        pairs = [
            (metric, of.estimates[metric.id])
            for metric in (nll, error)
            for of in (before[g.group], g)
        ]
        cells = [cell(g.n_rows, f"{g.n_rows:,}", ["few"] * g.has_few_rows)]
        cells += [_with_interval(estimate, metric.text) for metric, estimate in pairs]
        cells.append(cell(g.adjusted_p_value, f"{g.adjusted_p_value:.3g}".replace("nan", "-")))
        rows.append({"name": g.group, "cells": cells})
    result = {"heads": ["test rows", *names, "p after, corrected"], "rows": rows}
    return result | {"is_chance": not after.rows[0].adjusted_p_value <= SIGNIFICANT}


@result()
class Decisions:
    """What decisions cost, before calibration and after."""

    method: str = doc("Method after calibration, that of the verdict.")
    value: CalibrationValue = doc("Cost that calibration saves.")
    costs: dict[str, ExpectedCost] = doc("Expected cost by method.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers by name."""
        costs = {method: cost.to_dict() for method, cost in self.costs.items()}
        return {"method": self.method, "value": self.value.to_dict(), "costs": costs}

    def describe(self) -> list[str]:
        """Describe the saving and the costs, a sentence each."""
        saved = self.value.total
        chance = ", which may be chance" if saved.low <= 0.0 <= saved.high else ""
        words = f"saves {money(saved)}"
        if saved.value < 0.0:
            words = f"loses {money(Estimate(-saved.value, -saved.high, -saved.low))}"
        first, *_, last = [money(each.realised) for each in self.costs.values()] * 2
        saving = (
            f"{self.method} {words} in {self.value.n_decisions:,.0f} decisions{chance}; it "
            f"decides otherwise for {percent(self.value.changed)} of the rows."
        )
        return [saving, f"A decision costs {first} before calibration and {last} after."]


def judge_decisions(
    judged: Mapping[str, Predictions], costs: ArrayLike, confidence_level: float
) -> Decisions:
    """Measure decisions on the predictions of two methods: as they came first, then calibrated."""
    methods = [*judged]
    first, last = judged[methods[0]], judged[methods[-1]]
    with notices.kept():  # of the order of columns metrics have warned
        paid = {
            method: expected_cost(rows, costs=costs, confidence_level=confidence_level)
            for method, rows in judged.items()
        }
        value = value_of_calibration(
            first.class_index,
            first.rows,
            last.rows,
            costs,
            confidence_level=confidence_level,
            sample_weight=first.weight,
            classes=np.arange(first.n_classes),
        )
    return Decisions(methods[-1], value, paid)


def worth_table(result: Decisions | None) -> dict[str, Any] | None:
    """Heads and rows of what decisions cost, before and after."""
    if result is None:
        return None
    rows = []
    for method, cost in result.costs.items():
        cells = [
            _with_interval(each, partial(amount, scale=each.value))
            for each in (cost.realised, cost.predicted)
        ]
        rows.append({"name": method, "cells": cells})
    return {
        "title": "What it is worth",
        "heads": ["cost of a decision", "promised by the probabilities"],
        "rows": rows,
        "saved": result.describe()[0],
    }


def _with_interval(estimate: Estimate, write: Callable[[float], str]) -> dict[str, Any]:
    text, interval = _texts(estimate, write)
    return cell(estimate.value, text, [interval])
