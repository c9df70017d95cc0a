"""``write_outputs``: a study as Markdown, LaTeX, PNG, SVG and one page.

The page is one HTML file, with nothing to load and nothing that runs.
"""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from calibrant._atomic_file import replace_file
from calibrant._text import p_words
from calibrant._trial import UNCALIBRATED
from calibrant.errors import ParameterError
from calibrant.study import _figures as figures
from calibrant.study import _ranks as ranks
from calibrant.study import _tables as tables
from calibrant.study._tables import columns_of, method_title, metric_title

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from matplotlib.figure import Figure

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

STANDARDIZED = ("nll", "brier", "cw-ece")
PLAIN = ("conf-ece", "tece", "cw-ece")
"""Which box plots the paper has: NLL and Brier score standardised, cw-ECE both ways."""


class Picture(NamedTuple):
    """A figure that is drawn, the name of its files, its section of the page, and its words."""

    name: str
    section: str
    title: str
    caption: str
    figure: Figure


def write_outputs(table: StudyTable, directory: str | os.PathLike[str]) -> list[Path]:
    """Write the tables and figures of a study, and a page that shows all of them.

    Parameters
    ----------
    table : StudyTable
        Table with at least two methods and one metric of the paper.
    directory : path-like
        Directory to write to; it is created if needed. Other files in it are kept.

    Returns
    -------
    paths : list of Path
        What was written: ``tables/*.md``, ``tables/*.tex``, ``figures/*.png``,
        ``figures/*.svg`` and ``index.html``.

    Raises
    ------
    ParameterError
        If there are fewer than two methods, or no metric of the paper.

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
        write(f"tables/{one.name}.md", tables.to_markdown(one).encode("utf-8"))
        write(f"tables/{one.name}.tex", tables.to_latex(one).encode("utf-8"))
    shown = []
    for picture in build_pictures(table):
        svg = figures.figure_bytes(picture.figure, "svg")
        shown.append((picture, svg))
        write(f"figures/{picture.name}.svg", svg)
        write(f"figures/{picture.name}.png", figures.figure_bytes(picture.figure, "png"))
    write("index.html", build_page(table, all_tables, shown).encode("utf-8"))
    return written


# The page


def build_page(
    table: StudyTable, all_tables: Sequence[tables.Table], shown: Sequence[tuple[Picture, bytes]]
) -> str:
    """Return the page, of tables and of pictures with their SVG; names are plain text in it."""
    from calibrant._pages.shell import render_page  # which needs a template engine

    sections: list[dict[str, object]] = [{"id": "best", "title": "Best methods"}]
    for name, title in SECTIONS.items():
        pictures = [_embed(picture, svg) for picture, svg in shown if picture.section == name]
        own = [one for one in all_tables if _section_of(one) == name]
        if pictures or own:
            sections.append({"id": name, "title": title, "pictures": pictures, "tables": own})
    return render_page(
        "calibrant.study",
        has_images=True,
        title="Calibration study",
        sections=[*sections, {"id": "run", "title": "What was run"}],
        unfolded={"ranks", "times", "tests"},
        n_cases=len(table.cases),
        n_datasets=len(table.datasets),
        n_methods=len(table.methods),
        findings=find_best(table),
        failures=find_failures(table),
        versions=sorted(filter(None, table.frame["versions"].unique())),
    )


def _section_of(table: tables.Table) -> str:
    kind = table.name.partition("-")[0]
    return _HOME.get(kind, kind)


def _embed(picture: Picture, svg: bytes) -> dict[str, object]:
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
    result = []
    for metric in ranks.known_metrics(table):
        ranked = ranks.rank_cases(table, metric, columns := columns_of(table))
        average = ranked.mean().set_axis(list(columns.values()))
        best = ranks.best_of(average)
        width = ranks.critical_difference(*reversed(ranked.shape))
        near = average[~best & (average <= average.min() + width)].sort_values(kind="stable")
        first = f"{', '.join(average.index[best])} ({average.min():.2f})"
        others = ", ".join(f"{title} ({rank:.2f})" for title, rank in near.items())
        result.append((metric_title(metric), first, others))
    return result


def find_failures(table: StudyTable) -> dict[str, list[str]]:
    """Return the methods that have no number on some classifiers, and on which."""
    values = table.wide(ranks.known_metrics(table, ranks.TABLE_METRICS)[0])
    where = {
        method: [" / ".join(case) for case in column.index[column.isna()]]
        for method, column in values.items()
        if column.isna().any()
    }
    return dict(sorted(where.items(), key=lambda item: -len(item[1])))


# The pictures


def build_pictures(table: StudyTable) -> Iterator[Picture]:
    """Draw the figures of a study one by one, so that only one is in memory at a time."""
    columns = columns_of(table)
    titles = list(columns.values())
    for metric in ranks.known_metrics(table):
        ranked = ranks.rank_cases(table, metric, columns)
        yield _wins(table.wide(metric, columns), titles, metric)
        yield _critical_difference(ranked, titles, metric)
    for standard, metrics in ((False, PLAIN), (True, STANDARDIZED)):
        for metric in ranks.known_metrics(table, metrics):
            yield _boxes(table.wide(metric, columns), titles, metric, standard)
    fitted = [method for method in table.methods if method != UNCALIBRATED]
    yield Picture(
        "times",
        "times",
        "Seconds of a fit",
        "A point per classifier, the median as a bar; the scale is logarithmic.",
        figures.draw_times(
            table.seconds(fitted).to_numpy(), [method_title(method) for method in fitted]
        ),
    )


def _wins(values: pd.DataFrame, titles: list[str], metric: str) -> Picture:
    title = f"{metric_title(metric)}, head to head"
    return Picture(
        f"wins-{metric}",
        "wins",
        title,
        f"Percentage of the {len(values)} classifiers for which the method of the row is better "
        "than the method of the column; ties count for neither.",
        figures.draw_wins(ranks.win_shares(values, metric).to_numpy(), titles, title),
    )


def _critical_difference(ranked: pd.DataFrame, titles: list[str], metric: str) -> Picture:
    width = ranks.critical_difference(*reversed(ranked.shape))
    chance = p_words(ranks.friedman_test(ranked).p_value) or "one classifier is too few"
    title = f"{metric_title(metric)}, average ranks of {len(titles)} methods"
    return Picture(
        f"critical-difference-{metric}",
        "significance",
        title,
        f"Over {len(ranked)} classifiers. A bar joins methods whose average ranks are closer than "
        f"the Nemenyi critical difference at the level 0.05. Friedman test: {chance}.",
        figures.draw_critical_difference(ranked.mean().to_numpy(), titles, width, title),
    )


def _boxes(values: pd.DataFrame, titles: list[str], metric: str, standard: bool) -> Picture:
    known = ranks.BY_NAME[metric]
    shown = ranks.standardize_within(values) if standard else known.factor * values
    label = f"standardised {known.title}" if standard else known.heading
    title = f"{label} by data set"
    return Picture(
        f"boxes-{metric}{'-standardised' if standard else ''}",
        "boxes",
        title,
        "A point per classifier, and a box (quartiles, whiskers of at most 1.5 times their "
        "distance) for data sets with at least four."
        + (" Mean 0 and standard deviation 1 in every data set." if standard else ""),
        figures.draw_boxes(shown, titles, label, title),
    )
