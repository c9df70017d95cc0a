"""``write_report`` and ``write_models``: results as one self-contained HTML page each."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sklearn.base import clone

import calibrant
from calibrant import _drawing as style
from calibrant._atomic_file import replace_file
from calibrant._calibrators.features import FeatureCalibrator
from calibrant._calibrators.grouped import GroupedCalibrator
from calibrant._pages.shell import Markup, render_page
from calibrant._predictions import usual_column
from calibrant._text import SIGNIFICANT, amount, p_words, percent, printable
from calibrant._trial import UNCALIBRATED
from calibrant.errors import in_words
from calibrant.metrics import METRICS, headline
from calibrant.plots import compute_map, draw_map, draw_reliability, find_lower_end
from calibrant.report._models import describe
from calibrant.report._results import with_interval

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from calibrant._calibrators.base import Calibrator
    from calibrant._result import Estimate
    from calibrant.metrics import SegmentTable
    from calibrant.report._models import ModelTable
    from calibrant.report._results import Comparison, Decisions, MethodResult


MOST_CLASSES = 20
"""Rows of the table of classes."""


class PageCell(NamedTuple):
    """A number of a table, with smaller lines under it."""

    text: str
    notes: tuple[str, ...] = ()  # "" is none
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
    listed: list[PageRow] = []
    others: list[PageRow] = []
    for own in comparison.results:
        cells = []
        for name, best_text in best.items():
            text, interval = with_interval(getattr(own.evaluation, name), METRICS[name].text)
            chance = p_words(own.p_values.get(name, math.nan))
            cells.append(PageCell(text, (interval, chance), text == best_text))
        gap, beside = own.difference, PageCell("0")
        if gap is not None:
            ends = "" if math.isnan(gap.low) else f"{gap.low:+.4f} to {gap.high:+.4f}"
            beside = PageCell(f"{gap.value:+.4f}", (ends, p_words(gap.p_value)))
        binary = [PageCell(text, (below,)) for text, below in own.binary_texts.values()]
        cells[after_nll:after_nll] = [beside, *binary]
        cells.append(PageCell("-" if own.calibrator is None else f"{own.fit_seconds:.2f}"))
        row = PageRow(own.method, cells, printable(own.title), own.method == verdict.chosen)
        (listed if own.method in verdict.listed else others).append(row)
    heads.append("fit, s")
    return PageTable("method", heads, listed), PageTable("method", heads, others)


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
        cells = [PageCell(f"{g.n_rows:,}", ("few" * g.has_few_rows,))]
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
    rows = []
    for method, cost in decisions.costs.items():
        told = cost.realised, cost.predicted
        cells = [_estimate_cell(one, partial(amount, scale=one.value)) for one in told]
        rows.append(PageRow(method, cells))
    return PageTable("method", ["cost of a decision", "promised by the probabilities"], rows)


def _estimate_cell(estimate: Estimate, write: Callable[[float], str]) -> PageCell:
    text, interval = with_interval(estimate, write)
    return PageCell(text, (interval,))


SIZE = (3.7, 3.6)
"""Size of diagrams, in inches; the style sheet scales them."""


def write_report(
    path: str | os.PathLike[str],
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> None:
    """Write a comparison to a page of HTML, whole or not at all.

    The page needs no network and no other files; names of classes and files are plain text in it.

    Parameters
    ----------
    path : path-like
        The file to write.
    comparison : Comparison
        From :func:`calibrant.report.compare`.
    title : str, default="Calibration report"
        Heading of the page.
    commands : sequence of str, optional
        Command lines that apply the method of the verdict, to be shown beside those of Python.

    Examples
    --------
    >>> from calibrant.report import write_report
    >>> write_report("report.html", comparison)  # doctest: +SKIP
    """
    page = page_of(comparison, title=title, commands=commands)
    with replace_file(path) as file:
        file.write(page.encode("utf-8"))


def page_of(
    comparison: Comparison,
    *,
    title: str = "Calibration report",
    commands: Sequence[str] | None = None,
) -> str:
    """Return the page of a comparison."""
    verdict, settings = comparison.verdict, comparison.settings
    listed, others = method_tables(comparison)
    in_view = [comparison.result(method) for method in verdict.in_view]
    by_group = None if comparison.by_group is None else comparison.by_group[verdict.applied]
    smallest, seed = lower_end(comparison), in_words(settings["random_state"])
    sections = {
        "verdict": "Verdict",
        "methods": "Methods",
        "maps": "Calibration maps" if len(in_view) > 1 else "",
        "classes": "Classes" if comparison.n_classes > 2 else "",
        "segments": "Segments" if comparison.segments else "",
        "groups": "Groups" if by_group is not None else "",
        "worth": "What it is worth" if comparison.decisions is not None else "",
        "apply": "How to apply it",
        "run": "What was run",
    }
    return render_page(
        "calibrant.report",
        title=title,
        sections=[{"id": name, "title": words} for name, words in sections.items() if words],
        comparison=comparison,
        settings=settings,
        verdict=verdict,
        level=f"{100 * settings['confidence_level']:g} %",
        is_log=smallest > 0.0,
        headline=headline(comparison.n_classes).title,
        pictures=[reliability_picture(comparison, result, smallest) for result in in_view],
        methods=listed,
        others=others,
        maps=[
            map_picture(result.method, result.calibrator, smallest)
            for result in in_view
            if result.calibrator is not None
        ],
        warnings=[(result.method, text) for result in in_view for text in result.warnings],
        classes=class_table(comparison),
        segments=[
            (method, segment_table(segments), segments.describe())
            for method, segments in (comparison.segments or {}).items()
        ],
        groups=group_table(comparison),
        is_chance=by_group is not None and not by_group.rows[0].adjusted_p_value <= SIGNIFICANT,
        worth=decision_table(comparison.decisions),
        python=python_lines(comparison, verdict.applied),
        commands=None if commands is None else "\n".join(commands),
        facts=[
            *comparison.sources.items(),
            ("rows", f"{settings['n_val']:,} for calibration, {settings['n_test']:,} for the test"),
            ("scores", settings["scores"] + (", weighted rows" if settings["weights"] else "")),
            ("bins", str(settings["n_bins"])),
            ("resamples", f"{settings['n_resamples']} for tests and intervals, seed {seed}"),
            ("time", f"{comparison.seconds:.1f} s in all"),
            ("versions", ", ".join(f"{name} {v}" for name, v in comparison.versions.items())),
        ],
    )


def python_lines(comparison: Comparison, applied: str) -> str:
    """Lines of Python that fit and apply a method."""
    calibrator = comparison.result(applied).calibrator
    if calibrator is None:
        calibrator = calibrant.TemperatureScaling(scores=comparison.settings["scores"])
    fresh = clone(calibrator).set_params(classes=None)
    module = type(fresh).__module__
    if module.startswith("calibrant."):
        module = module.partition("._")[0]  # the public module above it
    name, code = type(fresh).__name__, repr(fresh)
    parts = set(re.findall(r"\b[A-Z]\w*(?=\()", code)) & set(calibrant.__all__)
    names = ", ".join([name, *sorted(parts - {name})])
    numpy = "import numpy as np\n" if "np." in code else ""
    weights = ", sample_weight" if comparison.settings["weights"] else ""
    known, new = "", ""
    if isinstance(fresh, GroupedCalibrator):
        known, new = ", groups=groups", ", groups=new_groups"
    if isinstance(fresh, FeatureCalibrator):
        known, new = ", features=features", ", features=new_features"
    return (
        f"{numpy}from {module} import {names}\n\n"
        f"calibrator = {code}\n"
        f"calibrator.fit(scores, y{weights}{known})  # the calibration part\n"
        f"probabilities = calibrator.predict_proba(new_scores{new})"
    )


def lower_end(comparison: Comparison) -> float:
    """Return the lower end of logarithmic axes where the positive class is rare, else 0."""
    is_one = comparison.n_classes == 2
    return find_lower_end([result.curve for result in comparison.results]) if is_one else 0.0


def reliability_picture(
    comparison: Comparison, result: MethodResult, smallest: float
) -> dict[str, str]:
    """Return the diagram of the confidence, or of the positive class of two, and its caption."""
    curve, usual = result.curve, usual_column(comparison.n_classes)
    head = "after " + printable(result.method) if result.calibrator else "before calibration"
    error = f"conf-ECE {percent(curve.ece, 2)}"
    if usual is not None:
        name = printable(comparison.classes[usual])
        head = f"class {name}, {head}"
        error = f"ECE {percent(curve.ece, 2)} in {curve.n_bins} bins"
        curve = replace(curve, kind="the class")  # whose name is in the caption
    chance = p_words(curve.p_value).replace(" ", "\N{NO-BREAK SPACE}")
    words = ", ".join(filter(None, (error, chance)))
    bins = [
        f"{percent(x, 0)} predicted, {percent(y, 0)} observed"
        for x, y, weight in zip(curve.mean_probability, curve.frequency, curve.weight, strict=True)
        if weight > 0
    ]

    draw = partial(draw_reliability, curve, notes=None, smallest=smallest)
    label = f"Reliability diagram of {head}: {words}. {'; '.join(bins)}."
    svg = style.to_svg(draw, SIZE, name=f"diagram of {result.method}", label=label)
    return {"svg": Markup(svg), "head": head[0].upper() + head[1:], "words": words}


def map_picture(method: str, calibrator: Calibrator, smallest: float) -> dict[str, str]:
    """Return the calibration map of a method; that of two classes has the axes of its diagrams."""
    if isinstance(calibrator, GroupedCalibrator):
        calibrator = calibrator.for_group(None)
    if isinstance(calibrator, FeatureCalibrator):
        calibrator = calibrator.calibrator_
    picture = compute_map(calibrator)
    curves = tuple(curve._replace(name=printable(curve.name)) for curve in picture.curves)
    if picture.kind == "two classes":  # the class is named in the caption
        curves = (curves[0]._replace(name="map"),)
        picture = replace(picture, x_label="probability before", y_label="probability after")
    draw = partial(draw_map, replace(picture, curves=curves), smallest=smallest)
    label = f"Calibration map of {printable(method)}. {picture.note}"
    svg = style.to_svg(draw, SIZE, name=f"map of {method}", label=label)
    return {"svg": Markup(svg), "head": printable(method), "words": picture.note}


MOST_MODELS = 30
"""Rows of the picture: those of all tasks, if models have several."""


def write_models(
    path: str | os.PathLike[str], table: ModelTable, *, title: str = "Models side by side"
) -> None:
    """Write a table of models to a page of HTML, with a picture and their differences.

    Parameters
    ----------
    path : path-like
        The file to write.
    table : ModelTable
        From :func:`compare_models`; its order is that of the page.
    title : str, default="Models side by side"
        Heading of the page.

    Examples
    --------
    >>> from calibrant.report import write_models
    >>> write_models("models.html", table)  # doctest: +SKIP
    """
    head, *lines = table.cells()
    page = render_page(
        "calibrant.report",
        template="models.html.jinja",
        title=title,
        sections=[
            {"id": "models", "title": "Models"},
            {"id": "differences", "title": "Differences"},
        ],
        level=f"{100 * table.confidence_level:g} %",
        n_models=len({row.model for row in table.rows}),
        picture=Markup(models_picture(table)),
        head=head,
        n_names=1 + ("task" in head),
        lines=lines,
        differences=[describe(one) for one in table.differences],
    )
    with replace_file(path) as file:
        file.write(page.encode("utf-8"))


def models_picture(table: ModelTable) -> str:
    """Return the accuracy of models, and how sure they are, before and after calibration."""
    rows = [row for row in table.rows if row.task == table.rows[0].task][:MOST_MODELS]

    def draw(ax: Axes) -> None:
        for place, row in enumerate(rows):
            low, high = row.accuracy.low, row.accuracy.high
            ax.plot([low, high], [place, place], color=style.BLUE, linewidth=2)
            after = row.accuracy_calibrated + row.overconfidence_calibrated.value
            dots = (
                ("accuracy", row.accuracy.value, style.BLUE, "o", "full"),
                ("confidence", row.confidence, style.VERMILION, "D", "full"),
                ("accuracy after", row.accuracy_calibrated, style.BLUE, "o", "none"),
                ("confidence after", after, style.VERMILION, "D", "none"),
            )
            for name, x, color, marker, filled in dots:
                label = name if place == 0 else None
                ax.plot([x], [place], marker, color=color, fillstyle=filled, label=label)
        ax.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)))
        ax.set_yticklabels([style.literal(printable(row.model, 28)) for row in rows])
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)

    told = "; ".join(
        f"{printable(row.model)} {row.accuracy.value:.0%} right, {row.confidence:.0%} sure"
        for row in rows
    )
    size = (7.6, 1.1 + 0.42 * len(rows))
    return style.to_svg(draw, size, name="models", label=f"Accuracy and confidence: {told}.")
