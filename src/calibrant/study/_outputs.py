"""``write_outputs``: a study as Markdown, LaTeX, PNG, SVG and one page.

The page is one HTML file, with nothing to load and nothing that runs.
"""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._atomic_file import replace_file
from calibrant.errors import ParameterError
from calibrant.study import _ranks as ranks
from calibrant.study import _tables as tables
from calibrant.study import _typeset as typeset
from calibrant.study._figures import figure_bytes
from calibrant.study._pictures import build_pictures

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from calibrant.study._pictures import Picture
    from calibrant.study._table import StudyTable

SECTIONS = {
    "ranks": "Average ranks",
    "significance": "More than chance?",
    "wins": "Head to head",
    "boxes": "By data set",
    "bins": "Numbers of bins",
    "times": "Wall-clock times",
    "models": "Every classifier",
}
_HOME = {"intervals": "significance", "tests": "significance", "sensitivity": "bins"}
"""Section of tables whose names do not begin with it."""


def write_outputs(table: StudyTable, directory: str | os.PathLike[str]) -> list[Path]:
    """Write the tables and figures of a study, and a page that shows all of them.

    Parameters
    ----------
    table : StudyTable
        With two methods and one metric of the paper at least.
    directory : path-like
        Is made if it is not there. Files of other names in it stay as they are.

    Returns
    -------
    paths : list of Path
        What was written: ``tables/*.md``, ``tables/*.tex``, ``figures/*.png``,
        ``figures/*.svg`` and ``index.html``.

    Raises
    ------
    ParameterError
        If there is nothing to compare.

    Examples
    --------
    >>> from calibrant.study import read_table, write_outputs
    >>> paths = write_outputs(read_table("out/study.csv"), "out")  # doctest: +SKIP
    """
    if len(table.methods) < 2 or not ranks.known_metrics(table, ranks.TABLE_METRICS):
        raise ParameterError(
            f"table has the methods {table.methods!r} and {len(table.frame)} numbers; ranks need "
            f"two methods and one of the metrics {ranks.TABLE_METRICS}"
        )
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as file:
            file.write(content)
        written.append(path)

    all_tables = tables.build_tables(table)
    for one in all_tables:
        write(f"tables/{one.name}.md", typeset.to_markdown(one).encode("utf-8"))
        write(f"tables/{one.name}.tex", typeset.to_latex(one).encode("utf-8"))
    shown = []
    for picture in build_pictures(table):
        svg = figure_bytes(picture.figure, "svg")
        shown.append((picture, svg))
        write(f"figures/{picture.name}.svg", svg)
        write(f"figures/{picture.name}.png", figure_bytes(picture.figure, "png"))
    write("index.html", build_page(table, all_tables, shown).encode("utf-8"))
    return written


def build_page(
    table: StudyTable, all_tables: Sequence[typeset.Table], shown: Sequence[tuple[Picture, bytes]]
) -> str:
    """Return the page, of tables and of pictures with their SVG; names are plain text in it."""
    from calibrant._pages.shell import render_page  # which needs a template engine

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
        unfolded={"ranks", "times", "tests"},
        n_cases=len(table.cases),
        n_datasets=len(table.datasets),
        n_methods=len(table.methods),
        findings=find_best(table),
        failures=find_failures(table),
        versions=sorted(filter(None, table.frame["versions"].unique())),
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


def find_best(table: StudyTable) -> list[tuple[str, str, str]]:
    """Return for every metric its name, the best method, and those that may be as good.

    These are within the Nemenyi critical difference of the best.
    """
    found = []
    for metric in ranks.known_metrics(table):
        ranked = ranks.rank_cases(table, metric, columns := tables.columns_of(table))
        average = ranked.mean().set_axis(list(columns.values()))
        best = ranks.best_of(average)
        width = ranks.critical_difference(*reversed(ranked.shape))
        near = average[~best & (average <= average.min() + width)].sort_values(kind="stable")
        first = f"{', '.join(average.index[best])} ({average.min():.2f})"
        others = ", ".join(f"{title} ({rank:.2f})" for title, rank in near.items())
        found.append((tables.metric_title(metric), first, others))
    return found


def find_failures(table: StudyTable) -> dict[str, list[str]]:
    """Return the methods that have no number on some classifiers, and on which."""
    values = table.wide(ranks.known_metrics(table, ranks.TABLE_METRICS)[0])
    where = {
        method: [" / ".join(case) for case in column.index[column.isna()]]
        for method, column in values.items()
    }
    failed = {method: cases for method, cases in where.items() if cases}
    return dict(sorted(failed.items(), key=lambda item: -len(item[1])))
