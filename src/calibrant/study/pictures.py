"""Every figure of a study, with its title, its words and its place on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.study import boxes, figures, ranks, significance, tables
from calibrant.study.architectures import families_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from calibrant.study.table import StudyTable

    Matrix = NDArray[np.float64]

STANDARDIZED = ("nll", "brier", "cw-ece")
PLAIN = ("conf-ece", "tece", "cw-ece")
"""Which box plots the paper has: NLL and Brier score standardised, cw-ECE both ways."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure that is drawn, and what is said about it.

    Attributes
    ----------
    name : str
        Of its files, without suffix.
    section : str
        Of the page.
    title, caption : str
    is_folded : bool
        Whether the page shows it only when asked.
    figure : Figure
    """

    name: str
    section: str
    title: str
    caption: str
    is_folded: bool
    figure: Figure


def build_pictures(table: StudyTable) -> Iterator[Picture]:
    """Draw the figures of a study one by one, so that only one is in memory at a time."""
    both = tables.variants(table)
    for paper in both:
        yield from _wins(table, paper=paper)
    for paper in both:
        yield from _critical_differences(table, paper=paper)
    for paper in both:
        yield _intervals(table, paper=paper)
    for paper in both:
        yield from _boxes(table, paper=paper)
    yield from _architectures(table)
    if tables.binned_metrics(table):
        yield _sensitivity(table)
    yield _times(table)


def _titles(methods: tuple[str, ...]) -> list[str]:
    return [tables.method_title(method) for method in methods]


def _which(n_methods: int, *, paper: bool) -> str:
    return f"the paper's {n_methods} columns" if paper else f"all {n_methods} methods"


def _suffix(*, paper: bool) -> str:
    return "paper" if paper else "all"


def _is_second(table: StudyTable, *, paper: bool) -> bool:
    return paper != tables.variants(table)[0]


def _wins(table: StudyTable, *, paper: bool) -> Iterator[Picture]:
    methods = tables.column_order(table, paper=paper)
    for metric in ranks.metrics_of(table):
        shares = ranks.win_shares(ranks.select_methods(table, metric, methods), metric)
        title = f"{ranks.TITLES[metric]}, head to head"
        yield Picture(
            f"wins-{metric}-{_suffix(paper=paper)}",
            "wins",
            title,
            f"In how many percent of the {len(table.cases)} classifiers the method of the row has "
            "a better value than that of the column; ties count for neither.",
            _is_second(table, paper=paper),
            figures.draw_wins(shares, _titles(methods), title),
        )


def _critical_differences(table: StudyTable, *, paper: bool) -> Iterator[Picture]:
    methods = tables.column_order(table, paper=paper)
    for metric in ranks.metrics_of(table):
        of = tables.by_classifiers(table, metric, methods)
        test = significance.friedman_test(of)
        width = significance.critical_difference(len(methods), len(of))
        title = f"{ranks.TITLES[metric]}, average ranks of {_which(len(methods), paper=paper)}"
        words = "p < 0.0001" if test.p_value < 1e-4 else f"p = {test.p_value:.4f}"
        yield Picture(
            f"critical-difference-{metric}-{_suffix(paper=paper)}",
            "significance",
            title,
            f"Over {len(of)} classifiers. A bar joins methods whose average ranks are closer than "
            f"the Nemenyi critical difference at the level 0.05. Friedman test: {words}.",
            _is_second(table, paper=paper),
            figures.draw_critical_difference(of.mean(axis=0), _titles(methods), width, title),
        )


def _intervals(table: StudyTable, *, paper: bool) -> Picture:
    methods = tables.column_order(table, paper=paper)
    groups = [case[0] for case in table.cases]
    averages, bounds = {}, {}
    for metric in ranks.metrics_of(table):
        of = tables.by_classifiers(table, metric, methods)
        averages[ranks.TITLES[metric]] = of.mean(axis=0)
        bounds[ranks.TITLES[metric]] = significance.rank_intervals(of, groups)
    return Picture(
        f"intervals-{_suffix(paper=paper)}",
        "significance",
        f"Average ranks of {_which(len(methods), paper=paper)}",
        f"With 95 % bootstrap intervals: the {len(table.datasets)} data sets are resampled whole, "
        "since classifiers of one data set share its rows.",
        _is_second(table, paper=paper),
        figures.draw_intervals(averages, bounds, _titles(methods)),
    )


def _boxes(table: StudyTable, *, paper: bool) -> Iterator[Picture]:
    methods = tables.column_order(table, paper=paper)
    groups = [case[0] for case in table.cases]
    present = ranks.metrics_of(table)
    wanted = [(m, False) for m in PLAIN if m in present]
    wanted += [(m, True) for m in STANDARDIZED if m in present]
    for metric, standard in wanted:
        values = ranks.select_methods(table, metric, methods)
        shown, label = _scaled(table, metric, values, standard=standard)
        title = f"{label} by data set, {_which(len(methods), paper=paper)}"
        yield Picture(
            f"boxes-{metric}{'-standardised' if standard else ''}-{_suffix(paper=paper)}",
            "boxes",
            title,
            "A point per classifier, a box (quartiles, whiskers of at most 1.5 times their "
            "distance) where a data set has at least four."
            + (" Mean 0 and standard deviation 1 in every data set." if standard else ""),
            _is_second(table, paper=paper),
            boxes.draw_boxes(shown, groups, _titles(methods), label, title),
        )


def _scaled(
    table: StudyTable, metric: str, values: Matrix, *, standard: bool
) -> tuple[Matrix, str]:
    title = ranks.TITLES[metric]
    if not standard:
        return 100 * values, f"{title}, %"
    groups = [case[0] for case in table.cases]
    return ranks.standardize_within(values, groups), f"standardised {title}"


def _architectures(table: StudyTable) -> Iterator[Picture]:
    methods = tables.column_order(table, paper=False)
    families = families_of(table)
    for metric in ranks.metrics_of(table, ranks.TABLE_METRICS):
        summary = ranks.summarize_ranks(table, metric, methods, families)
        groups = [f"{g} ({n})" for g, n in zip(summary.groups, summary.n_cases, strict=True)]
        title = f"{ranks.TITLES[metric]}, average rank by architecture"
        yield Picture(
            f"architecture-ranks-{metric}",
            "architectures",
            title,
            "Architectures by the classifier's name, with their numbers of classifiers, over all "
            "data sets.",
            metric not in {"nll", "conf-ece"},
            figures.draw_group_ranks(summary.ranks, groups, _titles(methods), title),
        )
    first = tables.column_order(table, paper=tables.variants(table)[0])
    for metric in ranks.metrics_of(table, ("conf-ece", "nll")):
        values = ranks.select_methods(table, metric, first)
        shown, label = _scaled(table, metric, values, standard=metric == "nll")
        title = f"{label} by architecture"
        yield Picture(
            f"architecture-boxes-{metric}",
            "architectures",
            title,
            "A point per classifier, a box where an architecture has at least four.",
            True,
            boxes.draw_boxes(shown, families, _titles(first), label, title),
        )


def _sensitivity(table: StudyTable) -> Picture:
    methods = tables.column_order(table, paper=False)
    averages = {
        ranks.TITLES[metric]: {
            n: tables.binned_ranks(table, metric, n, methods) for n in tables.BINS
        }
        for metric in tables.binned_metrics(table)
    }
    return Picture(
        "sensitivity",
        "bins",
        "Average ranks with 10, 15 and 25 bins",
        "A method whose marks are far apart owes part of its rank to the number of bins.",
        False,
        figures.draw_sensitivity(averages, _titles(methods)),
    )


def _times(table: StudyTable) -> Picture:
    fitted = [j for j, method in enumerate(table.methods) if method != "uncalibrated"]
    titles = [tables.method_title(table.methods[j]) for j in fitted]
    return Picture(
        "times",
        "times",
        "Seconds of a fit",
        "A point per classifier, the median as a bar; the scale is logarithmic.",
        False,
        figures.draw_times(table.seconds()[:, fitted], titles),
    )
