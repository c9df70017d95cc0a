"""Tables, code lines and numbers of the page."""

from __future__ import annotations

import math
import re
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

import calibrant
from calibrant._calibrators.methods import methods as all_methods
from calibrant._pages.text import clean
from calibrant._trial import UNCALIBRATED
from calibrant.errors import in_words
from calibrant.metrics._table import METRICS
from calibrant.plots._style import p_words
from calibrant.report._results import BASELINE, best_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant.report._results import Comparison, MethodResult
    from calibrant.report._verdict import Verdict


def method_table(
    comparison: Comparison, verdict: Verdict
) -> tuple[list[str], list[dict[str, Any]]]:
    """Heads and rows of the table of methods."""
    best = best_texts(comparison.results)
    heads = [METRICS[name].heading for name in best]
    heads.insert(2, f"NLL minus {comparison.baseline}")
    rows = []
    for result in comparison.results:
        cells = [_cell(result, name, text) for name, text in best.items()]
        cells.insert(2, _difference_cell(result))
        seconds = result.fit_seconds
        cells.append(_plain(seconds, "-" if result.calibrator is None else f"{seconds:.2f}"))
        rows.append(
            {
                "method": result.method,
                "title": re.split(r"(?<=[a-z])(?=[A-Z])", clean(result.title)),
                "is_chosen": result.method == verdict.chosen,
                "cells": cells,
            }
        )
    return [*heads, "fit, s"], rows


def _plain(value: float, text: str, notes: Sequence[str] = ()) -> dict[str, Any]:
    sort = repr(float(value)) if math.isfinite(value) else ""
    return {"sort": sort, "text": text, "notes": notes, "is_best": False}


def _cell(result: MethodResult, name: str, best: str) -> dict[str, Any]:
    estimate = getattr(result.evaluation, name)
    text, low, high = map(METRICS[name].text, estimate)
    notes = [] if math.isnan(estimate.low) else [f"{low} to {high}"]
    chance = p_words(result.p_values.get(name, math.nan))
    notes += [chance] if chance else []
    return {**_plain(estimate.value, text, notes), "is_best": text == best}


def _difference_cell(result: MethodResult) -> dict[str, Any]:
    gap = result.difference
    if gap is None:
        return _plain(0.0, "0")
    notes = []
    if not math.isnan(gap.p_value):
        notes = [f"{gap.low:+.4f} to {gap.high:+.4f}", p_words(gap.p_value)]
    return _plain(gap.value, f"{gap.value:+.4f}", notes)


def applied_method(comparison: Comparison, verdict: Verdict) -> str:
    """Return the method whose use is explained: the chosen one, or temperature scaling."""
    if verdict.chosen != UNCALIBRATED:
        return verdict.chosen
    others = [result.method for result in comparison.results[1:]]
    return BASELINE if BASELINE in others or not others else others[0]


def class_columns(
    comparison: Comparison, applied: str
) -> list[tuple[str, int, NDArray[np.float64]]]:
    """Head, digits and numbers of each column of the class table."""
    before = comparison.results[0].classwise
    name = applied if applied in comparison.methods else UNCALIBRATED
    after = comparison.result(name).classwise
    return [
        ("test rows", 0, comparison.test_counts.astype(np.float64)),
        ("calibration rows", 0, comparison.val_counts.astype(np.float64)),
        ("share, %", 3, 100 * before.frequency),
        ("predicted before, %", 3, 100 * before.mean_probability),
        ("predicted after, %", 3, 100 * after.mean_probability),
        ("ECE before, %", 3, 100 * before.ece),
        ("ECE after, %", 3, 100 * after.ece),
    ]


def page_numbers(comparison: Comparison, applied: str) -> dict[str, Any]:
    """Everything that the script of the page needs, and the metrics for whoever reads it."""
    return {
        "methods": {
            result.method: {
                METRICS[name].title: [_number(v) for v in estimate]
                for name, estimate in result.evaluation.estimates().items()
            }
            for result in comparison.results
        },
        "classes": {
            "names": [clean(name) for name in comparison.classes],
            "order": comparison.results[0].classwise.order.tolist(),
            "shown": comparison.shown,
            "columns": [
                {
                    "digits": digits,
                    "values": [_number(round(v, digits + 1)) for v in values.tolist()],
                }
                for _, digits, values in class_columns(comparison, applied)
            ],
        },
    }


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def python_lines(comparison: Comparison, applied: str) -> str:
    """Lines of Python that fit and apply a method."""
    known = applied in comparison.methods
    calibrator = comparison.result(applied).calibrator if known else None
    if calibrator is None:
        calibrator = calibrant.TemperatureScaling(scores=comparison.settings["scores"])
    fresh = clone(calibrator).set_params(classes=None)
    for key, value in fresh.get_params().items():
        if isinstance(value, np.generic):  # which would be written as np.float64(...)
            fresh.set_params(**{key: value.item()})
    name = type(fresh).__name__
    home = "calibrant" if name in calibrant.__all__ else type(fresh).__module__
    inner = set(re.findall(r"\b[A-Z]\w*(?=\()", repr(fresh))) & set(calibrant.__all__)
    names = ", ".join([name, *sorted(inner - {name})])
    weights = ", sample_weight" if comparison.settings["weights"] else ""
    return (
        f"from {home} import {names}\n\n"
        f"calibrator = {fresh!r}\n"
        f"calibrator.fit(scores, y{weights})  # the calibration part\n"
        "probabilities = calibrator.predict_proba(new_scores)"
    )


def command_lines(comparison: Comparison, applied: str, commands: Sequence[str] | None) -> str:
    """Command lines that fit and apply a method."""
    if commands is not None:
        return "\n".join(commands)
    if applied not in all_methods():
        return "# a calibrator of your own: apply it in Python"
    # The part of a file that holds two; it is what the command reads by default.
    source = comparison.sources.get("calibration", "calibration.npz").removesuffix(" (val)")
    kind = " --scores logits" if comparison.settings["scores"] == "logits" else ""
    return (
        f"calibrant fit {shlex.quote(source)} --method {shlex.quote(applied)}{kind} "
        "--output model.calibrant\n"
        "calibrant apply model.calibrant new.npz --output calibrated.npz"
    )


def run_facts(comparison: Comparison) -> list[tuple[str, str]]:
    """Sizes, seeds, names and versions."""
    settings = comparison.settings
    return [
        *comparison.sources.items(),
        ("calibration rows", f"{settings['n_val']:,}"),
        ("test rows", f"{settings['n_test']:,}"),
        ("classes", f"{comparison.n_classes:,}"),
        ("scores", settings["scores"] + (", weighted rows" if settings["weights"] else "")),
        ("bins", str(settings["n_bins"])),
        (
            "resamples",
            f"{settings['n_resamples']} for intervals, seed {in_words(settings['random_state'])}",
        ),
        ("time", f"{comparison.seconds:.1f} s in all"),
        ("made", comparison.created),
        ("versions", ", ".join(f"{name} {v}" for name, v in comparison.versions.items())),
    ]
