"""``write_models``: many models on one page, with one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant import _drawing as style
from calibrant._atomic_file import replace_file
from calibrant._pages.shell import Markup, render_page
from calibrant._text import printable
from calibrant.report._models import describe

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes

    from calibrant.report._models import ModelTable

MOST_DRAWN = 30
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
    rows = [row for row in table.rows if row.task == table.rows[0].task][:MOST_DRAWN]

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
