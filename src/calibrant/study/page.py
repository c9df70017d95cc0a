"""The page of a study: one HTML file, with nothing to load and nothing that runs."""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant.report.markup import Environment, Markup, StrictUndefined
from calibrant.study import ranks, significance, tables
from calibrant.study.typeset import plain, to_html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.study.pictures import Picture
    from calibrant.study.table import StudyTable
    from calibrant.study.typeset import Table

SECTIONS = (
    ("ranks", "Average ranks", "As Table 2 of the paper."),
    ("significance", "More than chance?", ""),
    ("wins", "Head to head", ""),
    ("boxes", "By data set", ""),
    ("architectures", "By architecture", ""),
    ("bins", "Numbers of bins", ""),
    ("times", "Wall-clock times", ""),
    ("models", "Every classifier", ""),
)
_HOME = {
    "ranks": "ranks",
    "intervals": "significance",
    "tests": "significance",
    "sensitivity": "bins",
    "wins": "wins",
    "architectures": "architectures",
    "times": "times",
    "models": "models",
}


class Shown(NamedTuple):
    """A picture and its SVG."""

    picture: Picture
    svg: bytes


def build_page(table: StudyTable, all_tables: Sequence[Table], shown: Sequence[Shown]) -> str:
    """Return the page; names of data sets, classifiers and methods are plain text in it.

    Parameters
    ----------
    table : StudyTable
    all_tables : sequence of Table
        From :func:`calibrant.study.tables.build_tables`.
    shown : sequence of Shown
        From :func:`calibrant.study.pictures.build_pictures`, drawn.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_resource("page.html.jinja"))
    css = _resource("page.css")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    sections = [
        {
            "id": name,
            "title": title,
            "words": words,
            "pictures": [_picture(one) for one in shown if one.picture.section == name],
            "tables": [_table(one) for one in all_tables if _home(one) == name],
        }
        for name, title, words in SECTIONS
    ]
    page = template.render(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        css=Markup(css),  # comes with the package
        n_cases=len(table.cases),
        n_datasets=len(table.datasets),
        n_methods=len(table.methods),
        findings=find_best(table),
        compared=["paper" if paper else "all" for paper in tables.variants(table)],
        sections=[s for s in sections if s["pictures"] or s["tables"]],
        failures=count_failures(table),
        versions=sorted({plain(row.versions) for row in table.rows if row.versions}),
    )
    return page + "\n"


def _resource(name: str) -> str:
    return resources.files("calibrant.study").joinpath(name).read_text(encoding="utf-8")


def _home(table: Table) -> str:
    return _HOME[table.name.partition("-")[0]]


def _picture(one: Shown) -> dict[str, Any]:
    width = one.picture.figure.get_size_inches()[0]
    return {
        "title": plain(one.picture.title),
        "caption": plain(one.picture.caption),
        "is_folded": one.picture.is_folded,
        "inches": min(max(math.ceil(width), 4), 14),
        "pixels": round(96 * width),
        # Inside an image nothing runs and nothing is loaded, whatever the names are.
        "source": "data:image/svg+xml;base64," + base64.b64encode(one.svg).decode(),
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": plain(table.title),
        "caption": plain(table.caption),
        "html": Markup(to_html(table)),  # escaped cell by cell
        "is_folded": table.name not in {"ranks-paper", "times", "tests"},
    }


def find_best(table: StudyTable) -> list[dict[str, str]]:
    """Return the best of the paper's columns and the best of all, for every metric.

    "Not worse by chance" are the methods within the Nemenyi critical difference of the best.
    """
    found = []
    for metric in ranks.metrics_of(table):
        line = {"metric": ranks.TITLES[metric]}
        for paper in tables.variants(table):
            key = "paper" if paper else "all"
            methods = tables.column_order(table, paper=paper)
            of = tables.by_classifiers(table, metric, methods)
            average = of.mean(axis=0)
            width = significance.critical_difference(len(methods), len(of))
            best = [
                plain(tables.method_title(methods[j])) for j in ranks.best_of(average).nonzero()[0]
            ]
            near = ((average <= average.min() + width) & ~ranks.best_of(average)).nonzero()[0]
            near = sorted(near, key=lambda j: float(average[j]))
            line[key] = f"{', '.join(best)} ({average.min():.2f})"
            line[f"{key}_near"] = ", ".join(
                plain(f"{tables.method_title(methods[j])} ({average[j]:.2f})") for j in near
            )
        found.append(line)
    return found


def count_failures(table: StudyTable) -> list[dict[str, str]]:
    """Return the methods that have no number on some classifiers, and on which."""
    failed: Counter[str] = Counter()
    where: dict[str, list[str]] = {}
    metric = ranks.metrics_of(table, ranks.TABLE_METRICS)[0]
    values = table.matrix(metric)
    for i, case in enumerate(table.cases):
        for j, method in enumerate(table.methods):
            if math.isnan(values[i, j]):
                failed[method] += 1
                where.setdefault(method, []).append(plain(" / ".join(case)))
    return [
        {"method": plain(method), "n": str(n), "cases": ", ".join(where[method])}
        for method, n in failed.most_common()
    ]
