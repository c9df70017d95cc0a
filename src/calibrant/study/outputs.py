"""``write_outputs``: a study as Markdown, LaTeX, PNG, SVG and one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.atomic_file import replace_file
from calibrant.errors import ParameterError
from calibrant.study import ranks, tables, typeset
from calibrant.study.figures import figure_bytes
from calibrant.study.pictures import build_pictures

if TYPE_CHECKING:
    import os

    from calibrant.study.table import StudyTable


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
    """
    from calibrant.study.page import build_page  # which needs a template engine

    if len(table.methods) < 2 or not ranks.known_metrics(table, ranks.TABLE_METRICS):
        raise ParameterError(
            f"table has the methods {table.methods!r} and {len(table.rows)} numbers; ranks need "
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
