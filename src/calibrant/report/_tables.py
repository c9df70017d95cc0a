"""Tables of the page: key numbers, methods, groups, and what calibration is worth."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._text import amount, clean, p_words, percent
from calibrant._trial import UNCALIBRATED
from calibrant.metrics import LARGEST_SHARE, METRICS, SIGNIFICANT, metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from calibrant._result import Estimate
    from calibrant.report._decisions import Decisions
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


def _texts(own: Estimate, write: Callable[[float], str]) -> tuple[str, str]:
    """Return a number and its interval as they are printed; "" is for none."""
    value, low, high = map(write, own)
    return value, "" if math.isnan(own.low) else f"{low} to {high}"


def distinct_rows(results: Sequence[MethodResult]) -> dict[str, MethodResult]:
    """Return rows of a table by label: methods that are one fit here share a row, "ms, dirichlet".

    A method is taken for the same as an earlier one if its class derives from that one's and its
    numbers are equal: so is Dirichlet calibration matrix scaling, where scores are probabilities.
    A row is that of its first method, or of the baseline, so that the verdict names one of them.
    """
    rows: list[list[MethodResult]] = []
    for own in results:
        same = [row for row in rows if _is_same_fit(own, row[0])]
        same[0].append(own) if same else rows.append([own])
    firsts = [next((own for own in row if own.method in BASELINES), row[0]) for row in rows]
    return {", ".join(own.method for own in row): f for row, f in zip(rows, firsts, strict=True)}


def _is_same_fit(own: MethodResult, first: MethodResult) -> bool:
    if own.calibrator is None or not isinstance(own.calibrator, type(first.calibrator)):
        return False
    a, b = ([each.value for each in r.evaluation.estimates().values()] for r in (own, first))
    return np.allclose(a, b, rtol=1e-9, atol=0.0)


def best_texts(comparison: Comparison) -> dict[str, str]:
    """Return the best value of each metric that tables of methods have, as it is printed."""
    found = {}
    for name in shown_metrics(comparison):
        own = METRICS[name]
        values = (getattr(r.evaluation, name).value for r in comparison.results)
        found[name] = own.text(own.best(values))
    return found


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
        first, last = (getattr(own.evaluation, metric.id) for own in (before, after))
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
    for label, result in distinct_rows(comparison.results).items():
        cells = [_metric_cell(result, name, text) for name, text in best.items()]
        cells[after_nll:after_nll] = [_difference_cell(result), *_binary_cells(result)]
        seconds = "-" if result.calibrator is None else f"{result.fit_seconds:.2f}"
        cells.append(cell(result.fit_seconds, seconds))
        row = {"method": result.method, "label": label, "is_chosen": result.method == chosen}
        words = re.split(r"(?<=[a-z])(?=[A-Z])", clean(result.title))
        rows.append({**row, "title": words, "cells": cells})
    first = [row for row in rows if row["method"] in listed]
    others = [row for row in rows if row["method"] not in listed]
    found = {"heads": [*heads, "fit, s"], "rows": first, "others": others}
    return found | {"is_shared": len(rows) < len(comparison.results)}


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
    return [cell(own.value, text, [interval]) for own, (text, interval) in pairs]


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
        pairs = [(own, of.estimates[own.id]) for own in (nll, error) for of in (before[g.group], g)]
        cells = [cell(g.n_rows, f"{g.n_rows:,}", ["few"] * g.has_few_rows)]
        cells += [_with_interval(estimate, own.text) for own, estimate in pairs]
        cells.append(cell(g.adjusted_p_value, f"{g.adjusted_p_value:.3g}".replace("nan", "-")))
        rows.append({"name": g.group, "cells": cells})
    found = {"heads": ["test rows", *names, "p after, corrected"], "rows": rows}
    return found | {"is_chance": not after.rows[0].adjusted_p_value <= SIGNIFICANT}


def worth_table(found: Decisions | None) -> dict[str, Any] | None:
    """Heads and rows of what decisions cost and how large sets are, before and after."""
    if found is None:
        return None
    title = "What it is worth" if found.costs else "Sets of classes"
    heads = ["cost of a decision", "promised by the probabilities"] if found.costs else []
    for own in [*found.sets.values()][:1]:
        heads += [f"sets for {100 * own.coverage:g} % that hold the label", "classes in a set"]
    rows = []
    for method in found.costs or found.sets:
        cells = []
        if found.costs:
            cost = found.costs[method]
            cells += [
                _with_interval(each, partial(amount, scale=each.value))
                for each in (cost.realised, cost.predicted)
            ]
        if found.sets:
            sets = found.sets[method]
            cells.append(_with_interval(sets.measured, percent))
            cells.append(cell(sets.mean_size, f"{sets.mean_size:.2f}"))
        rows.append({"name": method, "cells": cells})
    saved = found.describe()[0] if found.costs else ""
    return {"title": title, "heads": heads, "rows": rows, "saved": saved}


def _with_interval(own: Estimate, write: Callable[[float], str]) -> dict[str, Any]:
    text, interval = _texts(own, write)
    return cell(own.value, text, [interval])
