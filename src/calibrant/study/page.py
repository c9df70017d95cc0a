"""The page of a study: one HTML file, with nothing to load and nothing that runs."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

from calibrant.pages.shell import render_page
from calibrant.study import ranks, significance, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.study.pictures import Picture
    from calibrant.study.table import StudyTable
    from calibrant.study.typeset import Table

SECTIONS = {
    "ranks": "Average ranks",
    "significance": "More than chance?",
    "wins": "Head to head",
    "boxes": "By data set",
    "architectures": "By architecture",
    "bins": "Numbers of bins",
    "times": "Wall-clock times",
    "models": "Every classifier",
}
_HOME = {"intervals": "significance", "tests": "significance", "sensitivity": "bins"}
"""Section of tables whose names do not begin with it."""


def build_page(
    table: StudyTable, all_tables: Sequence[Table], shown: Sequence[tuple[Picture, bytes]]
) -> str:
    """Return the page, of tables and of pictures with their SVG; names are plain text in it."""
    parts: dict[str, dict[str, Any]] = {
        name: {"id": name, "title": title, "pictures": [], "tables": []}
        for name, title in SECTIONS.items()
    }
    for picture, svg in shown:
        parts[picture.section]["pictures"].append(_embed(picture, svg))
    for entry in all_tables:
        kind = entry.name.partition("-")[0]
        parts[_HOME.get(kind, kind)]["tables"].append(entry)
    return render_page(
        "calibrant.study",
        has_images=True,
        title="Calibration study",
        sections=[
            {"id": "best", "title": "Best methods"},
            *(part for part in parts.values() if part["pictures"] or part["tables"]),
            {"id": "run", "title": "What was run"},
        ],
        unfolded={"ranks-paper", "times", "tests"},
        n_cases=len(table.cases),
        n_datasets=len(table.datasets),
        n_methods=len(table.methods),
        findings=find_best(table),
        compared=[columns.name for columns in tables.variants(table)],
        failures=count_failures(table),
        versions=sorted({row.versions for row in table.rows if row.versions}),
    )


def _embed(picture: Picture, svg: bytes) -> dict[str, Any]:
    width = picture.figure.get_size_inches()[0]
    return {
        **picture._asdict(),
        "inches": min(max(math.ceil(width), 4), 14),
        "pixels": round(96 * width),
        # Inside an image nothing runs and nothing is loaded, whatever the names are.
        "source": "data:image/svg+xml;base64," + base64.b64encode(svg).decode(),
    }


def find_best(table: StudyTable) -> list[dict[str, str]]:
    """Return the best of the paper's columns and the best of all, for every metric.

    "Not worse by chance" are the methods within the Nemenyi critical difference of the best.
    """
    found = []
    for metric in ranks.known_metrics(table):
        line = {"metric": tables.metric_title(metric)}
        for columns in tables.variants(table):
            of = tables.by_classifiers(table, metric, columns.methods)
            average, best = of.mean(axis=0), ranks.best_of(of.mean(axis=0))
            width = significance.critical_difference(len(columns.methods), len(of))
            near = ((average <= average.min() + width) & ~best).nonzero()[0]
            titles = columns.titles
            first = ", ".join(titles[j] for j in best.nonzero()[0])
            line[columns.name] = f"{first} ({average.min():.2f})"
            line[f"{columns.name}_near"] = ", ".join(
                f"{titles[j]} ({average[j]:.2f})" for j in sorted(near, key=average.__getitem__)
            )
        found.append(line)
    return found


def count_failures(table: StudyTable) -> list[dict[str, str]]:
    """Return the methods that have no number on some classifiers, and on which."""
    values = table.matrix(ranks.known_metrics(table, ranks.TABLE_METRICS)[0])
    where = {
        method: [
            " / ".join(case)
            for case, value in zip(table.cases, column, strict=True)
            if math.isnan(value)
        ]
        for method, column in zip(table.methods, values.T, strict=True)
    }
    return [
        {"method": method, "n": str(len(cases)), "cases": ", ".join(cases)}
        for method, cases in sorted(where.items(), key=lambda item: -len(item[1]))
        if cases
    ]
