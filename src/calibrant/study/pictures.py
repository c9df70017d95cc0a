"""Every figure of a study, with its title, its words and its place on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant.plots.style import p_words
from calibrant.study import figures, ranks, significance, tables
from calibrant.study.architectures import families_of
from calibrant.study.tables import metric_title
from calibrant.trial import UNCALIBRATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from calibrant.study.table import StudyTable
    from calibrant.study.tables import Columns

    Matrix = NDArray[np.float64]

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
    is_folded: bool = False


def build_pictures(table: StudyTable) -> Iterator[Picture]:
    """Draw the figures of a study one by one, so that only one is in memory at a time."""
    for draw in (_wins, _critical_differences, _intervals, _boxes):
        for place, columns in enumerate(tables.variants(table)):
            for picture in draw(table, columns):
                name = f"{picture.name}-{columns.name}"
                yield picture._replace(name=name, is_folded=place > 0)
    yield from _architectures(table)
    if tables.binned_metrics(table):
        yield _sensitivity(table)
    yield _times(table)


def _wins(table: StudyTable, columns: Columns) -> Iterator[Picture]:
    for metric in ranks.known_metrics(table):
        shares = ranks.win_shares(table.matrix(metric, columns.methods), metric)
        title = f"{metric_title(metric)}, head to head"
        yield Picture(
            f"wins-{metric}",
            "wins",
            title,
            f"In how many percent of the {len(table.cases)} classifiers the method of the row has "
            "a better value than that of the column; ties count for neither.",
            figures.draw_wins(shares, columns.titles, title),
        )


def _critical_differences(table: StudyTable, columns: Columns) -> Iterator[Picture]:
    for metric in ranks.known_metrics(table):
        of = tables.by_classifiers(table, metric, columns.methods)
        width = significance.critical_difference(len(columns.methods), len(of))
        chance = p_words(significance.friedman_test(of).p_value) or "one classifier is too few"
        title = f"{metric_title(metric)}, average ranks of {columns.words}"
        yield Picture(
            f"critical-difference-{metric}",
            "significance",
            title,
            f"Over {len(of)} classifiers. A bar joins methods whose average ranks are closer than "
            f"the Nemenyi critical difference at the level 0.05. Friedman test: {chance}.",
            figures.draw_critical_difference(of.mean(axis=0), columns.titles, width, title),
        )


def _intervals(table: StudyTable, columns: Columns) -> Iterator[Picture]:
    averages, bounds = {}, {}
    for metric in ranks.known_metrics(table):
        of, title = tables.by_classifiers(table, metric, columns.methods), metric_title(metric)
        averages[title] = of.mean(axis=0)
        bounds[title] = significance.rank_intervals(of, table.case_datasets)
    yield Picture(
        "intervals",
        "significance",
        f"Average ranks of {columns.words}",
        f"With 95 % bootstrap intervals: the {len(table.datasets)} data sets are resampled whole, "
        "since classifiers of one data set share its rows.",
        figures.draw_intervals(averages, bounds, columns.titles),
    )


def _boxes(table: StudyTable, columns: Columns) -> Iterator[Picture]:
    wanted = [(metric, False) for metric in ranks.known_metrics(table, PLAIN)]
    wanted += [(metric, True) for metric in ranks.known_metrics(table, STANDARDIZED)]
    for metric, standard in wanted:
        shown, label = _scaled(table, metric, columns, standard=standard)
        title = f"{label} by data set, {columns.words}"
        yield Picture(
            f"boxes-{metric}{'-standardised' if standard else ''}",
            "boxes",
            title,
            "A point per classifier, a box (quartiles, whiskers of at most 1.5 times their "
            "distance) where a data set has at least four."
            + (" Mean 0 and standard deviation 1 in every data set." if standard else ""),
            figures.draw_boxes(shown, table.case_datasets, columns.titles, label, title),
        )


def _scaled(
    table: StudyTable, metric: str, columns: Columns, *, standard: bool
) -> tuple[Matrix, str]:
    """Values of a metric as box plots show them, and what they are."""
    values, known = table.matrix(metric, columns.methods), ranks.BY_NAME[metric]
    if standard:
        return ranks.standardize_within(values, table.case_datasets), f"standardised {known.title}"
    return known.factor * values, known.heading


def _architectures(table: StudyTable) -> Iterator[Picture]:
    columns, families = tables.all_columns(table), families_of(table)
    for metric in ranks.known_metrics(table, ranks.TABLE_METRICS):
        by_family, _ = ranks.summarize_ranks(table, metric, columns.methods, families)
        average = np.array([of.ranks for of in by_family.values()])
        groups = [f"{family} ({of.n_cases})" for family, of in by_family.items()]
        title = f"{metric_title(metric)}, average rank by architecture"
        yield Picture(
            f"architecture-ranks-{metric}",
            "architectures",
            title,
            "Architectures by the classifier's name, with their numbers of classifiers, over all "
            "data sets.",
            figures.draw_group_ranks(average, groups, columns.titles, title),
            metric not in {"nll", "conf-ece"},
        )
    first = tables.variants(table)[0]
    for metric in ranks.known_metrics(table, ("conf-ece", "nll")):
        shown, label = _scaled(table, metric, first, standard=metric == "nll")
        title = f"{label} by architecture"
        yield Picture(
            f"architecture-boxes-{metric}",
            "architectures",
            title,
            "A point per classifier, a box where an architecture has at least four.",
            figures.draw_boxes(shown, families, first.titles, label, title),
            is_folded=True,
        )


def _sensitivity(table: StudyTable) -> Picture:
    columns = tables.all_columns(table)
    averages = {
        metric_title(metric): {
            n: tables.binned_ranks(table, metric, n, columns.methods) for n in tables.BINS
        }
        for metric in tables.binned_metrics(table)
    }
    return Picture(
        "sensitivity",
        "bins",
        "Average ranks with 10, 15 and 25 bins",
        "A method whose marks are far apart owes part of its rank to the number of bins.",
        figures.draw_sensitivity(averages, columns.titles),
    )


def _times(table: StudyTable) -> Picture:
    fitted = [method for method in table.methods if method != UNCALIBRATED]
    titles = [tables.method_title(method) for method in fitted]
    return Picture(
        "times",
        "times",
        "Seconds of a fit",
        "A point per classifier, the median as a bar; the scale is logarithmic.",
        figures.draw_times(table.seconds(fitted), titles),
    )
