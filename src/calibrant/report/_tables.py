"""Tables of the page that are there on demand: groups, and what calibration is worth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calibrant._trial import UNCALIBRATED
from calibrant.metrics._groups import SIGNIFICANT
from calibrant.metrics._table import METRICS
from calibrant.plots._style import percent
from calibrant.report._decisions import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from calibrant.metrics._result import Estimate
    from calibrant.report._decisions import Decisions
    from calibrant.report._results import Comparison


def cell(value: float, text: str, notes: Sequence[str] = (), best: str = "") -> dict[str, Any]:
    """Return a cell: what it is sorted by, its text, and lines under it."""
    sort = repr(float(value)) if math.isfinite(value) else ""
    return {"sort": sort, "text": text, "notes": [*filter(None, notes)], "is_best": text == best}


def group_table(comparison: Comparison, applied: str) -> dict[str, Any] | None:
    """Heads and rows of the table of groups, the worst after calibration first."""
    if comparison.by_group is None:
        return None
    before = {g.group: g for g in comparison.by_group[UNCALIBRATED]}
    after = comparison.by_group.get(applied, comparison.by_group[UNCALIBRATED])
    error, nll = METRICS[after.metric], METRICS["negative_log_likelihood"]
    names = [f"{name} {when}" for name in ("NLL", error.title) for when in ("before", "after")]
    names[2:] = [f"{name}, %" for name in names[2:]]
    rows = []
    for g in after:
        pairs = [(own, of.estimates[own.id]) for own in (nll, error) for of in (before[g.group], g)]
        cells = [cell(g.n_rows, f"{g.n_rows:,}", ["few"] * g.has_few_rows)]
        for own, (value, low, high) in pairs:
            interval = "" if math.isnan(low) else f"{own.text(low)} to {own.text(high)}"
            cells.append(cell(value, own.text(value), [interval]))
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
            cells += [_with_interval(each, amount) for each in (cost.realised, cost.predicted)]
        if found.sets:
            sets = found.sets[method]
            cells.append(_with_interval(sets.measured, lambda share, _: percent(share)))
            cells.append(cell(sets.mean_size, f"{sets.mean_size:.2f}"))
        rows.append({"name": method, "cells": cells})
    saved = found.describe()[0] if found.costs else ""
    return {"title": title, "heads": heads, "rows": rows, "saved": saved}


def _with_interval(own: Estimate, write: Callable[[float, float], str]) -> dict[str, Any]:
    value, low, high = (write(number, own.value) for number in own)
    return cell(own.value, value, [] if math.isnan(own.low) else [f"{low} to {high}"])
