"""``write_outputs``: a study as Markdown, LaTeX, PNG, SVG and one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.atomic_file import replace_file
from calibrant.errors import ParameterError
from calibrant.study import ranks, tables, typeset
from calibrant.study.figures import figure_bytes
from calibrant.study.page import Shown, build_page
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
    if len(table.methods) < 2 or not ranks.known_metrics(table, ranks.TABLE_METRICS):
        raise ParameterError(
            f"table has the methods {table.methods!r} and {len(table.rows)} numbers; ranks need "
            f"two methods and one of the metrics {ranks.TABLE_METRICS}"
        )
    folder = Path(directory)
    for name in ("tables", "figures"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    all_tables = tables.build_tables(table)
    for one in all_tables:
        for suffix, render in (("md", typeset.to_markdown), ("tex", typeset.to_latex)):
            path = folder / "tables" / f"{one.name}.{suffix}"
            written.append(_write(path, render(one).encode("utf-8")))
    shown = []
    for picture in build_pictures(table):
        svg = figure_bytes(picture.figure, "svg")
        shown.append(Shown(picture, svg))
        written.append(_write(folder / "figures" / f"{picture.name}.svg", svg))
        png = figure_bytes(picture.figure, "png")
        written.append(_write(folder / "figures" / f"{picture.name}.png", png))
    page = build_page(table, all_tables, shown)
    written.append(_write(folder / "index.html", page.encode("utf-8")))
    return written


def _write(path: Path, content: bytes) -> Path:
    with replace_file(path) as file:
        file.write(content)
    return path
