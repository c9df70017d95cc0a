"""The tables of a study: those of the paper, times, architectures, tests and numbers of bins."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from calibrant.calibrators.methods import methods
from calibrant.plots.style import p_words
from calibrant.study import ranks, significance
from calibrant.study.architectures import families_of
from calibrant.study.table import PAPER_METHODS
from calibrant.study.typeset import Entry, Table
from calibrant.trial import UNCALIBRATED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from calibrant.study.table import StudyTable

    Matrix = NDArray[np.float64]

BINNED = ("conf-ece", "cw-ece", "tece")
BINS = (10, 15, 25)
_MODEL_COLUMNS = ("accuracy", "conf-ece", "nll", "cw-ece", "brier", "tece")


def method_title(method: str) -> str:
    """Return the name of a method as tables print it, or as it is if there is no such method."""
    if method == UNCALIBRATED:
        return method.capitalize()
    known = methods().get(method)
    return method if known is None else known.title


def metric_title(metric: str) -> str:
    """Return the name of a metric as all tables print it, at the beginning of a line."""
    title = ranks.BY_NAME[metric].title
    return title.capitalize() if title.islower() else title


class Columns(NamedTuple):
    """Methods that are compared with each other: the paper's ("paper") or all ("all")."""

    name: str
    methods: tuple[str, ...]

    @property
    def words(self) -> str:
        """As "all 19 methods"."""
        n = len(self.methods)
        return f"the paper's {n} columns" if self.name == "paper" else f"all {n} methods"

    @property
    def titles(self) -> list[str]:
        """Names of the methods, as they are printed."""
        return [method_title(method) for method in self.methods]


def all_columns(table: StudyTable) -> Columns:
    """Return all methods in the order of the paper's Table 2: without calibration comes last."""
    return Columns("all", tuple(sorted(table.methods, key=lambda m: m == UNCALIBRATED)))


def variants(table: StudyTable) -> tuple[Columns, ...]:
    """Return the paper's columns, all methods, or both where they differ."""
    every = all_columns(table)
    paper = Columns("paper", tuple(m for m in every.methods if m in PAPER_METHODS))
    if paper.methods == every.methods:
        return (paper,)
    return (paper, every) if len(paper.methods) >= 2 else (every,)


def binned_name(metric: str, n_bins: int) -> str:
    """Return the name that the table has for an ECE with some number of bins."""
    return metric if n_bins == 15 else f"{metric}-{n_bins}"


def file_name(text: str) -> str:
    """Return a name that is safe as part of a file's name."""
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.") or "unnamed"


def format_value(value: float, metric: str) -> str:
    """Format a metric, with its unit."""
    known = ranks.BY_NAME[metric]
    return "failed" if math.isnan(value) else known.text(value) + "%" * (known.factor == 100.0)


def format_seconds(seconds: float) -> str:
    """Format a time with two significant digits."""
    if math.isnan(seconds):
        return "-"
    if seconds == 0.0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(seconds))))
    return f"{seconds:.{min(digits, 6)}f}"


def _entries(numbers: Matrix, form: str, notes: Iterable[str] | None = None) -> list[Entry]:
    """Numbers of a row, the smallest bold, with what follows them in brackets."""
    best = ranks.best_of(numbers)
    after = [""] * len(numbers) if notes is None else notes
    return [
        Entry(format(number, form), bool(bold), note)
        for number, bold, note in zip(numbers, best, after, strict=True)
    ]


def rank_table(table: StudyTable, columns: Columns) -> Table:
    """Table 2 of the paper: average ranks and first places by metric and data set."""
    rows: list[tuple[Entry, ...]] = []
    rules: list[int] = []
    for metric in ranks.known_metrics(table, ranks.TABLE_METRICS):
        by_dataset, overall = ranks.summarize_ranks(table, metric, columns.methods)
        rules.append(len(rows))
        title = metric_title(metric)
        for name, of in [*by_dataset.items(), ("all", overall)]:
            entries = _entries(of.ranks, ".1f", (f"{share:.0%}" for share in of.firsts))
            rows.append((Entry(title), Entry(name, note=str(of.n_cases)), *entries))
            title = ""
    return Table(
        f"ranks-{columns.name}",
        f"Average ranks among {columns.words}",
        f"Average ranks among {columns.words}, by metric and data set (number of classifiers); in "
        "brackets how often a method reached the best value, ties included. The lowest rank is "
        "bold.",
        ("Metric", "Data set", *columns.titles),
        tuple(rows),
        2,
        tuple(rules),
    )


def model_table(table: StudyTable, dataset: str) -> Table:
    """All metrics of every classifier of one data set, by method."""
    columns = all_columns(table)
    metrics = ranks.known_metrics(table, _MODEL_COLUMNS)
    values = {metric: table.matrix(metric, columns.methods) for metric in metrics}
    firsts = {metric: ranks.mark_first(values[metric], metric) for metric in metrics}
    seconds = table.seconds(columns.methods)
    rows: list[tuple[Entry, ...]] = []
    rules: list[int] = []
    for i, (name, model) in enumerate(table.cases):
        if name != dataset:
            continue
        rules.append(len(rows))
        for j, title in enumerate(columns.titles):
            entries = [
                Entry(format_value(values[m][i, j], m), bool(firsts[m][i, j])) for m in metrics
            ]
            time = Entry(format_seconds(float(seconds[i, j])))
            rows.append((Entry(model if j == 0 else ""), Entry(title), *entries, time))
    return Table(
        f"models-{file_name(dataset)}",
        f"Classifiers of {dataset}",
        f"Classifiers of {dataset}: every metric on the test part, and the seconds of the fit. "
        "The best value of a classifier is bold.",
        ("Classifier", "Method", *map(metric_title, metrics), "Seconds"),
        tuple(rows),
        2,
        tuple(rules),
    )


def win_table(table: StudyTable, metric: str, columns: Columns) -> Table:
    """How often the method of the row is better than that of the column."""
    shares = ranks.win_shares(table.matrix(metric, columns.methods), metric)
    rows = tuple(
        (Entry(title), *(Entry("" if math.isnan(share) else f"{share:.0%}") for share in line))
        for title, line in zip(columns.titles, shares, strict=True)
    )
    title = metric_title(metric)
    return Table(
        f"wins-{metric}-{columns.name}",
        f"{title}, wins in percent, {len(columns.methods)} methods",
        f"{title}: how often the method of the row has a better value than that of the column, "
        f"over {len(table.cases)} classifiers. Ties win for neither.",
        ("", *columns.titles),
        rows,
    )


def time_table(table: StudyTable) -> Table:
    """Median seconds of a fit, by data set and method."""
    fitted = [m for m in all_columns(table).methods if m != UNCALIBRATED]
    seconds = table.seconds(fitted)
    names = np.asarray(table.case_datasets)
    parts = [
        (Entry(name, note=str((names == name).sum())), median_of(seconds[names == name]))
        for name in table.datasets
    ]
    parts += [
        (Entry("all, median"), median_of(seconds)),
        (Entry("all, longest"), np.fmax.reduce(seconds, axis=0)),
    ]
    return Table(
        "times",
        "Seconds of a fit by data set",
        "Wall-clock seconds of a fit: the median over the classifiers of a data set.",
        ("Data set", *map(method_title, fitted)),
        tuple((label, *(Entry(format_seconds(s)) for s in line)) for label, line in parts),
        1,
        (len(parts) - 2,),
    )


def median_of(numbers: Matrix) -> Matrix:
    """Return the median of every column, of what is there; NaN where nothing is."""
    held = (column[~np.isnan(column)] for column in numbers.T)
    return np.array([np.median(part) if len(part) else math.nan for part in held])


def architecture_table(table: StudyTable, metric: str) -> Table:
    """Mean value and average rank by architecture."""
    columns, families = all_columns(table), families_of(table)
    by_family, _ = ranks.summarize_ranks(table, metric, columns.methods, families)
    values = table.matrix(metric, columns.methods)
    rows = []
    for family, of in by_family.items():
        means = values[np.asarray(families) == family].mean(axis=0)  # NaN where a method failed
        notes = [format_value(mean, metric) for mean in means]
        rows.append((Entry(family, note=str(of.n_cases)), *_entries(of.ranks, ".1f", notes)))
    title = metric_title(metric)
    return Table(
        f"architectures-{metric}",
        f"{title} by architecture",
        f"{title} by architecture (number of classifiers), over all data sets: the average rank "
        "and, in brackets, the mean value. The lowest average rank is bold.",
        ("Architecture", *columns.titles),
        tuple(rows),
    )


def significance_table(table: StudyTable) -> Table:
    """Friedman tests and critical differences, by classifiers and by data sets."""
    rows: list[tuple[Entry, ...]] = []
    rules: list[int] = []
    for columns in variants(table):
        n = len(columns.methods)
        rules.append(len(rows))
        for metric in ranks.known_metrics(table):
            words = [f"{n} methods", metric_title(metric)]
            for block in (by_classifiers, by_data_sets):
                of = block(table, metric, columns.methods)
                test = significance.friedman_test(of)
                width = significance.critical_difference(n, len(of))
                p_value = p_words(test.p_value).removeprefix("p = ").removeprefix("p ")
                words += [str(len(of)), f"{test.statistic:.1f}", p_value, f"{width:.2f}"]
            rows.append(tuple(map(Entry, words)))
    heads = ("blocks", "Friedman", "p", "critical difference")
    return Table(
        "tests",
        "Friedman tests and critical differences",
        "Friedman test that all methods are equally good, and the Nemenyi critical difference of "
        "average ranks at the level 0.05; first with classifiers as blocks, then with data sets, "
        "which are independent where classifiers of one data set are not.",
        ("", "Metric", *heads, *(f"{head}, data sets" for head in heads)),
        tuple(rows),
        2,
        tuple(rules),
    )


def by_classifiers(table: StudyTable, metric: str, methods: Sequence[str]) -> Matrix:
    """Return the ranks of methods, one row per classifier."""
    return ranks.rank_methods(table.matrix(metric, methods), metric)


def by_data_sets(table: StudyTable, metric: str, methods: Sequence[str]) -> Matrix:
    """Return the ranks of the methods' average ranks, one row per data set."""
    by_dataset, _ = ranks.summarize_ranks(table, metric, methods)
    of: Matrix = stats.rankdata([average.ranks for average in by_dataset.values()], axis=1)
    return of


def interval_table(table: StudyTable, columns: Columns) -> Table:
    """Average ranks with bootstrap intervals over data sets, by metric."""
    metrics = ranks.known_metrics(table)
    found = []
    for metric in metrics:
        of = by_classifiers(table, metric, columns.methods)
        bounds = significance.rank_intervals(of, table.case_datasets)
        notes = (f"{low:.1f}\u2013{high:.1f}" for low, high in bounds)
        found.append(_entries(of.mean(axis=0), ".2f", notes))
    return Table(
        f"intervals-{columns.name}",
        f"Average ranks with intervals, {len(columns.methods)} methods",
        "Average rank over all classifiers, with its 95% bootstrap interval: whole data sets are "
        "resampled. The lowest is bold.",
        ("Method", *map(metric_title, metrics)),
        tuple(zip(map(Entry, columns.titles), *found, strict=True)),
    )


def sensitivity_table(table: StudyTable) -> Table | None:
    """Average ranks by ECEs of 10, 15 and 25 bins; None without these metrics."""
    columns, kinds = all_columns(table), binned_metrics(table)
    if not kinds:
        return None
    found, last = [], []
    for metric in kinds:
        average = {n: binned_ranks(table, metric, n, columns.methods) for n in BINS}
        found += [_entries(average[n], ".2f") for n in BINS]
        last += [Entry(f"{rank_correlation(average[n], average[15]):.3f}") for n in BINS]
    rows = tuple(zip(map(Entry, columns.titles), *found, strict=True))
    return Table(
        "sensitivity",
        "Average ranks by number of bins",
        "Average ranks by calibration errors of 10, 15 and 25 bins. The last line is Spearman's "
        "correlation of a column with that of 15 bins.",
        ("Method", *(f"{metric_title(m)}, {n} bins" for m in kinds for n in BINS)),
        (*rows, (Entry("correlation"), *last)),
        1,
        (len(rows),),
    )


def binned_metrics(table: StudyTable) -> tuple[str, ...]:
    """Return the calibration errors that a table has with every number of bins."""
    present = {row.metric for row in table.rows}
    return tuple(m for m in BINNED if all(binned_name(m, n) in present for n in BINS))


def binned_ranks(table: StudyTable, metric: str, n_bins: int, methods: Sequence[str]) -> Matrix:
    """Return average ranks by a calibration error of some number of bins."""
    average: Matrix = by_classifiers(table, binned_name(metric, n_bins), methods).mean(axis=0)
    return average


def rank_correlation(first: Matrix, second: Matrix) -> float:
    """Return Spearman's correlation; NaN where one of the two is constant."""
    if np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return math.nan
    return float(stats.spearmanr(first, second).statistic)


def build_tables(table: StudyTable) -> list[Table]:
    """Return every table of a study, in the order in which the page shows them."""
    binned = sensitivity_table(table)
    both = variants(table)
    return [
        *(rank_table(table, columns) for columns in both),
        *(interval_table(table, columns) for columns in both),
        significance_table(table),
        *([binned] if binned is not None else []),
        *(win_table(table, m, columns) for m in ranks.known_metrics(table) for columns in both),
        *(architecture_table(table, m) for m in ranks.known_metrics(table, ranks.TABLE_METRICS)),
        time_table(table),
        *(model_table(table, dataset) for dataset in table.datasets),
    ]
