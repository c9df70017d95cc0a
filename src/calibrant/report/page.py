"""``build_report`` and ``write_report``: a comparison as one self-contained HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.atomic_file import replace_file
from calibrant.metrics.chunk import usual_column
from calibrant.metrics.table import headline
from calibrant.pages.shell import render_page
from calibrant.pages.text import clean
from calibrant.report import content
from calibrant.report.figures import forest_figure, reliability_frames
from calibrant.report.panels import build_panels
from calibrant.report.verdict import reach_verdict

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from calibrant.report.results import Comparison

STATIC_CLASSES = 20
"""Rows of the class table that are there without scripts."""

SECTIONS = {
    "verdict": "Verdict",
    "methods": "Methods",
    "diagrams": "Diagrams",
    "classes": "Classes",
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
    verdict = reach_verdict(comparison)
    settings = comparison.settings
    applied = content.applied_method(comparison, verdict)
    columns, rows = content.method_table(comparison, verdict)
    return render_page(
        "calibrant.report",
        title=title,
        sections=[{"id": name, "title": words} for name, words in SECTIONS.items()],
        frames=reliability_frames(),
        baseline=comparison.baseline,
        created=comparison.created,
        n_methods=len(comparison.results),
        n_val=f"{settings['n_val']:,}",
        n_test=f"{settings['n_test']:,}",
        n_classes=comparison.n_classes,
        n_bins=settings["n_bins"],
        level=f"{100 * settings['confidence_level']:g} %",
        has_intervals=settings["n_resamples"] > 0,
        verdict=verdict,
        columns=columns,
        rows=rows,
        failures=comparison.failures,
        forest=forest_figure(comparison, verdict.chosen),
        panels=build_panels(comparison, verdict),
        overall=_overall(comparison),
        headline=headline(comparison.n_classes).title,
        views={f"c{j}": comparison.classes[j] for j in comparison.shown},
        classes=comparison.classes,
        class_columns=content.class_columns(comparison, applied),
        worst=comparison.results[0].classwise.order[:STATIC_CLASSES].tolist(),
        applied=applied,
        python=content.python_lines(comparison, applied),
        commands=content.command_lines(comparison, applied, commands),
        facts=content.run_facts(comparison),
        numbers=content.page_numbers(comparison, applied),
    )


def _overall(comparison: Comparison) -> str:
    """Name what the first diagram of a method is of."""
    usual = usual_column(comparison.n_classes)
    if usual is None:
        return "the confidence, all classes"
    return f"class {clean(comparison.classes[usual])}, the positive one"


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
    """
    page = build_report(comparison, title=title, commands=commands).encode("utf-8")
    with replace_file(path) as file:
        file.write(page)
