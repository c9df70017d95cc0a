"""``build_report`` and ``write_report``: a comparison as one self-contained HTML page."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

import calibrant
from calibrant import _drawing as style
from calibrant._atomic_file import replace_file
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._calibrators.methods import find_method
from calibrant._pages.shell import Markup, render_page
from calibrant._predictions import usual_column
from calibrant._text import clean, p_words, percent
from calibrant.errors import in_words
from calibrant.metrics import headline
from calibrant.plots import compute_map, draw_map, draw_reliability
from calibrant.report._tables import group_table, key_numbers, method_table, worth_table
from calibrant.report._verdict import describe_claim

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from calibrant.metrics import ReliabilityCurve
    from calibrant.report._results import Comparison, MethodResult

DIAGRAM, MAP = (3.7, 4.3), (3.7, 3.6)
"""Sizes, in inches; the style sheet scales them."""

RARE = 0.1
"""Share of the positive class below which its diagrams have logarithmic axes."""

SMALLEST = 1e-5
"""Lower end of a logarithmic axis at least."""


STATIC_CLASSES = 20
"""Rows of the class table that are there without scripts."""

SECTIONS = {
    "verdict": "Verdict",
    "methods": "Methods",
    "diagrams": "Diagrams",
    "classes": "Classes",
    "segments": "Segments",
    "groups": "Groups",
    "worth": "What it is worth",
    "apply": "How to apply it",
    "run": "What was run",
}


def build_report(
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> str:
    """Return the page: no network, no other files, names of classes and files as plain text.

    Parameters
    ----------
    comparison : Comparison
        From :func:`calibrant.report.compare`.
    title : str, default="Calibration report"
        Heading of the page.
    commands : sequence of str, optional
        Command lines that apply the method of the verdict, where the ones that are derived from
        ``comparison.sources`` do not suit.

    Returns
    -------
    page : str
        HTML.

    Examples
    --------
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.report import build_report, compare
    >>> scores, y, new_scores, new_y = overconfident_digits()
    >>> page = build_report(compare(y, scores, new_y, new_scores, "ts", n_resamples=20))
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'
    """
    verdict = comparison.verdict
    usual = usual_column(comparison.n_classes)
    columns = _class_columns(comparison)
    groups, worth = group_table(comparison), worth_table(comparison.decisions)
    on_demand = {"groups": groups, "segments": comparison.segments, "worth": worth}
    sections = {name: words for name, words in SECTIONS.items() if on_demand.get(name, words)}
    if worth is not None:
        sections["worth"] = worth["title"]
    in_view = [comparison.result(method) for method in verdict.in_view]
    smallest = lower_end(comparison)
    return render_page(
        "calibrant.report",
        title=title,
        sections=[{"id": name, "title": words} for name, words in sections.items()],
        groups=groups,
        worth=worth,
        is_log=smallest > 0.0,
        comparison=comparison,
        settings=comparison.settings,
        verdict=verdict,
        level=f"{100 * comparison.settings['confidence_level']:g} %",
        key_numbers=key_numbers(comparison),
        table=method_table(comparison),
        pictures=_diagrams(comparison, in_view[:2], "first", smallest),
        views={
            "all": _diagrams(comparison, in_view, "all", smallest),
            **{f"c{j}": _class_diagrams(comparison, in_view[:2], j) for j in comparison.shown},
        },
        maps=[
            map_picture(result, f"map-{place}", smallest)
            for place, result in enumerate(in_view)
            if result.calibrator is not None
        ],
        notes=[(result.method, note) for result in in_view for note in _notes(result)],
        positive=None if usual is None else comparison.classes[usual],
        headline=headline(comparison.n_classes).title,
        class_columns=columns,
        worst=comparison.results[0].classwise.order[:STATIC_CLASSES].tolist(),
        python=python_lines(comparison, verdict.applied),
        commands=command_lines(comparison, verdict.applied, commands),
        facts=_run_facts(comparison),
        numbers=_page_numbers(comparison, columns),
    )


def write_report(
    path: str | os.PathLike[str],
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> None:
    """Write the page to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        The file to write.
    comparison, title, commands
        As in :func:`build_report`.

    Examples
    --------
    >>> from calibrant.report import write_report
    >>> write_report("report.html", comparison)  # doctest: +SKIP
    """
    page = build_report(comparison, title=title, commands=commands).encode("utf-8")
    with replace_file(path) as file:
        file.write(page)


def _class_columns(comparison: Comparison) -> list[tuple[str, int, NDArray[np.float64]]]:
    """Head, digits and numbers of each column of the class table."""
    before = comparison.results[0].classwise
    after = comparison.result(comparison.verdict.applied).classwise
    return [
        ("test rows", 0, comparison.test_counts.astype(np.float64)),
        ("calibration rows", 0, comparison.val_counts.astype(np.float64)),
        ("share, %", 3, 100 * before.frequency),
        ("predicted before, %", 3, 100 * before.mean_probability),
        ("predicted after, %", 3, 100 * after.mean_probability),
        ("ECE before, %", 3, 100 * before.ece),
        ("ECE after, %", 3, 100 * after.ece),
    ]


def _page_numbers(comparison: Comparison, columns: list[Any]) -> dict[str, Any]:
    """Return what the script of the page needs: the table of classes."""
    return {
        "names": [clean(name) for name in comparison.classes],
        "order": comparison.results[0].classwise.order.tolist(),
        "shown": comparison.shown,
        "columns": [
            {"digits": digits, "values": [_number(round(v, digits + 1)) for v in values.tolist()]}
            for _, digits, values in columns
        ],
    }


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def python_lines(comparison: Comparison, applied: str) -> str:
    """Lines of Python that fit and apply a method."""
    calibrator = comparison.result(applied).calibrator
    if calibrator is None:
        calibrator = calibrant.TemperatureScaling(scores=comparison.settings["scores"])
    fresh = clone(calibrator).set_params(classes=None)
    for key, value in fresh.get_params().items():
        if isinstance(value, np.generic):  # which would be written as np.float64(...)
            fresh.set_params(**{key: value.item()})
    name = type(fresh).__name__
    home = type(fresh).__module__
    if home.startswith("calibrant."):
        home = home.partition("._")[0]  # the public module above it
    inner = set(re.findall(r"\b[A-Z]\w*(?=\()", repr(fresh))) & set(calibrant.__all__)
    names = ", ".join([name, *sorted(inner - {name})])
    weights = ", sample_weight" if comparison.settings["weights"] else ""
    is_grouped = isinstance(fresh, GroupedCalibrator)
    groups, new_groups = (", groups=groups", ", groups=new_groups") if is_grouped else ("", "")
    if isinstance(fresh, FeatureCalibrator):
        groups, new_groups = ", features=features", ", features=new_features"
    return (
        f"from {home} import {names}\n\n"
        f"calibrator = {fresh!r}\n"
        f"calibrator.fit(scores, y{weights}{groups})  # the calibration part\n"
        f"probabilities = calibrator.predict_proba(new_scores{new_groups})"
    )


def command_lines(comparison: Comparison, applied: str, commands: Sequence[str] | None) -> str:
    """Command lines that fit and apply a method."""
    if commands is not None:
        return "\n".join(commands)
    if find_method(applied) is None:
        return "# a calibrator of your own: apply it in Python"
    # The part of a file that holds two; it is what the command reads by default.
    source = comparison.sources.get("calibration", "calibration.npz").removesuffix(" (val)")
    kind = f" --scores {comparison.settings['scores']}".replace(" --scores probabilities", "")
    return (
        f"calibrant fit {shlex.quote(source)} --method {shlex.quote(applied)}{kind} "
        "--output model.calibrant\n"
        "calibrant apply model.calibrant new.npz --output calibrated.npz"
    )


def _run_facts(comparison: Comparison) -> list[tuple[str, str]]:
    """Sizes, seeds, names and versions."""
    settings = comparison.settings
    seed = in_words(settings["random_state"])
    draws = f"{settings['n_resamples']} for tests and intervals, seed {seed}"
    return [
        *comparison.sources.items(),
        ("calibration rows", f"{settings['n_val']:,}"),
        ("test rows", f"{settings['n_test']:,}"),
        ("classes", f"{comparison.n_classes:,}"),
        ("scores", settings["scores"] + (", weighted rows" if settings["weights"] else "")),
        ("bins", str(settings["n_bins"])),
        ("resamples", draws),
        ("time", f"{comparison.seconds:.1f} s in all"),
        ("made", comparison.created),
        ("versions", ", ".join(f"{name} {v}" for name, v in comparison.versions.items())),
    ]


def _diagrams(
    comparison: Comparison, methods: list[MethodResult], place: str, smallest: float
) -> list[dict[str, Any]]:
    """Return diagrams of the confidence, or of the positive class of two."""
    usual = usual_column(comparison.n_classes)
    name = None if usual is None else clean(comparison.classes[usual])
    return [
        reliability_picture(result.curve, f"{place}-{i}", result.method, name, smallest)
        for i, result in enumerate(methods)
    ]


def _class_diagrams(
    comparison: Comparison, methods: list[MethodResult], j: int
) -> list[dict[str, Any]]:
    """Return diagrams of one class of many."""
    name = clean(comparison.classes[j])
    return [
        reliability_picture(result.classwise.curves[j], f"c{j}-{i}", result.method, name)
        for i, result in enumerate(methods)
    ]


def _notes(result: MethodResult) -> list[str]:
    """Say what a method in view claims, how it was fitted, and what it warned of."""
    nll = result.evaluation.negative_log_likelihood.value
    notes = [f"{describe_claim(result)}; NLL {nll:.4f}.", *result.warnings]
    solver = None if result.calibrator is None else vars(result.calibrator).get("solver_report_")
    if solver is not None:
        state = "converged" if solver.converged else "NOT converged"
        notes.append(
            f"Fitted in {result.fit_seconds:.2f} s ({solver.solver}, {solver.rounds} "
            f"rounds, {state}: optimality violated by {solver.violation:.1e} at most), applied in "
            f"{result.predict_seconds:.2f} s."
        )
        notes += solver.notes
    return notes


def lower_end(comparison: Comparison) -> float:
    """Return the lower end of logarithmic axes where the positive class is rare, else 0.

    On linear axes all points of a rare class lie in one corner.
    """
    if comparison.n_classes != 2 or comparison.results[0].shares.observed[1] >= RARE:
        return 0.0
    seen = [result.curve.mean_probability[result.curve.weight > 0] for result in comparison.results]
    # The median over methods: one that gives almost nothing to some rows would squeeze the others.
    smallest = float(np.median([x[x > 0].min(initial=1.0) for x in seen]))
    return float(10.0 ** math.floor(math.log10(min(max(smallest, SMALLEST), 0.1))))


def reliability_picture(
    curve: ReliabilityCurve,
    place: str,
    method: str,
    class_name: str | None,
    smallest: float = 0.0,
) -> dict[str, Any]:
    """Return a reliability diagram of a method, of the confidence or of a class, and its caption.

    ``place`` is its name in the page.
    """
    head = "before calibration" if method == "uncalibrated" else f"after {clean(method)}"
    who = head if class_name is None else f"class {class_name}, {head}"
    chance = p_words(curve.p_value)
    error = f"conf-ECE {percent(curve.ece, 2)}"
    if class_name is not None:
        error = f"ECE {percent(curve.ece, 2)} in {curve.n_bins} bins"
        curve = replace(curve, kind="the class")  # whose name is in the caption
    bins = [
        f"{percent(x, 0)} predicted, {percent(y, 0)} observed"
        for x, y, weight in zip(curve.mean_probability, curve.frequency, curve.weight, strict=True)
        if weight > 0
    ]
    words = f"{error}, {chance}" if chance else error

    def draw(ax: Axes) -> None:
        draw_reliability(curve, ax, notes=None, smallest=smallest)

    label = f"Reliability diagram of {who}: {words}. {'; '.join(bins)}."
    return {
        "svg": Markup(style.to_svg(draw, DIAGRAM, name=place, label=label)),
        "head": head[0].upper() + head[1:],
        "class_name": class_name,
        "words": words,
    }


def map_picture(result: MethodResult, place: str, smallest: float) -> dict[str, Any]:
    """Return the calibration map of a method; that of two classes has the axes of its diagrams."""
    calibrator: Any = result.calibrator
    if isinstance(calibrator, GroupedCalibrator):
        calibrator = calibrator.for_group(None)
    if isinstance(calibrator, FeatureCalibrator):
        calibrator = calibrator.calibrator_
    picture = compute_map(calibrator)
    curves = tuple(curve._replace(name=clean(curve.name)) for curve in picture.curves)
    picture = replace(picture, curves=curves)
    if picture.kind == "two classes":  # the class is named in the caption
        picture = replace(picture, x_label="probability before", y_label="probability after")
        picture = replace(picture, curves=(curves[0]._replace(name="map"),))

    def draw(ax: Axes) -> None:
        draw_map(picture, ax, show_note=False, smallest=smallest)

    label = f"Calibration map of {clean(result.method)}. {picture.note}"
    svg = Markup(style.to_svg(draw, MAP, name=place, label=label))
    return {"svg": svg, "method": result.method, "words": picture.note}
