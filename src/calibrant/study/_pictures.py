"""Every figure of a study, with its title, its words and its place on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from calibrant._trial import UNCALIBRATED
from calibrant.plots._style import p_words
from calibrant.study import _figures as figures
from calibrant.study import _ranks as ranks
from calibrant.study import _tables as tables
from calibrant.study._tables import columns_of, metric_title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from calibrant.study._table import StudyTable

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


def build_pictures(table: StudyTable) -> Iterator[Picture]:
    """Draw the figures of a study one by one, so that only one is in memory at a time."""
    for metric in ranks.known_metrics(table):
        yield _wins(table, metric)
        yield _critical_difference(table, metric)
    yield _intervals(table)
    yield from _boxes(table)
    if tables.binned_metrics(table):
        yield _sensitivity(table)
    yield _times(table)


def _wins(table: StudyTable, metric: str) -> Picture:
    columns = columns_of(table)
    shares = ranks.win_shares(table.wide(metric, columns), metric).to_numpy()
    title = f"{metric_title(metric)}, head to head"
    return Picture(
        f"wins-{metric}",
        "wins",
        title,
        f"In how many percent of the {len(table.cases)} classifiers the method of the row has "
        "a better value than that of the column; ties count for neither.",
        figures.draw_wins(shares, list(columns.values()), title),
    )


def _critical_difference(table: StudyTable, metric: str) -> Picture:
    columns = columns_of(table)
    ranked = ranks.rank_cases(table, metric, columns)
    width = ranks.critical_difference(*reversed(ranked.shape))
    chance = p_words(ranks.friedman_test(ranked).p_value) or "one classifier is too few"
    title = f"{metric_title(metric)}, average ranks of {len(columns)} methods"
    average, titles = ranked.mean().to_numpy(), list(columns.values())
    return Picture(
        f"critical-difference-{metric}",
        "significance",
        title,
        f"Over {len(ranked)} classifiers. A bar joins methods whose average ranks are closer than "
        f"the Nemenyi critical difference at the level 0.05. Friedman test: {chance}.",
        figures.draw_critical_difference(average, titles, width, title),
    )


def _intervals(table: StudyTable) -> Picture:
    panels, columns = {}, columns_of(table)
    for metric in ranks.known_metrics(table):
        ranked = ranks.rank_cases(table, metric, columns)
        low, high = ranks.rank_intervals(ranked).T
        panels[metric_title(metric)] = pd.DataFrame(
            {"average": ranked.mean(), "low": low, "high": high}
        )
    label = "average rank, with 95 % interval over data sets"
    return Picture(
        "intervals",
        "significance",
        f"Average ranks of {len(columns)} methods",
        f"With 95 % bootstrap intervals: the {len(table.datasets)} data sets are resampled whole, "
        "since classifiers of one data set share its rows.",
        figures.draw_rank_panels(panels, list(columns.values()), label),
    )


def _boxes(table: StudyTable) -> Iterator[Picture]:
    columns = columns_of(table)
    wanted = [(metric, False) for metric in ranks.known_metrics(table, PLAIN)]
    wanted += [(metric, True) for metric in ranks.known_metrics(table, STANDARDIZED)]
    for metric, standard in wanted:
        shown, known = table.wide(metric, columns), ranks.BY_NAME[metric]
        shown = ranks.standardize_within(shown) if standard else known.factor * shown
        label = f"standardised {known.title}" if standard else known.heading
        title = f"{label} by data set"
        yield Picture(
            f"boxes-{metric}{'-standardised' if standard else ''}",
            "boxes",
            title,
            "A point per classifier, a box (quartiles, whiskers of at most 1.5 times their "
            "distance) where a data set has at least four."
            + (" Mean 0 and standard deviation 1 in every data set." if standard else ""),
            figures.draw_boxes(shown, list(columns.values()), label, title),
        )


def _sensitivity(table: StudyTable) -> Picture:
    columns = columns_of(table)
    panels = {
        metric_title(metric): pd.DataFrame(tables.binned_ranks(table, metric)).add_suffix(" bins")
        for metric in tables.binned_metrics(table)
    }
    return Picture(
        "sensitivity",
        "bins",
        "Average ranks with 10, 15 and 25 bins",
        "A method whose marks are far apart owes part of its rank to the number of bins.",
        figures.draw_rank_panels(panels, list(columns.values()), "average rank"),
    )


def _times(table: StudyTable) -> Picture:
    fitted = [method for method in table.methods if method != UNCALIBRATED]
    titles = [tables.method_title(method) for method in fitted]
    return Picture(
        "times",
        "times",
        "Seconds of a fit",
        "A point per classifier, the median as a bar; the scale is logarithmic.",
        figures.draw_times(table.seconds(fitted).to_numpy(), titles),
    )
