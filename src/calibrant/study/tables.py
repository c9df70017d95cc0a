"""The tables of a study: those of the paper, times, architectures, tests and numbers of bins."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from calibrant.study import ranks, significance
from calibrant.study.architectures import families_of
from calibrant.study.table import PAPER_METHODS
from calibrant.study.typeset import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from calibrant.study.table import StudyTable

    Matrix = NDArray[np.float64]

METHOD_TITLES = {
    "uncalibrated": "Uncalibrated",
    "na-fir": "NA-FIR",
    "scir": "SCIR",
    "fir": "FIR",
    "ir-ovr": "IR-OvR",
    "ts": "TS",
    "vs": "VS",
    "ms": "MS",
}
BINNED = ("conf-ece", "cw-ece", "tece")
BINS = (10, 15, 25)
_MODEL_COLUMNS = ("accuracy", "conf-ece", "nll", "cw-ece", "brier", "tece")


def method_title(method: str) -> str:
    """Return the name of a method as the paper prints it, or as it is."""
    return METHOD_TITLES.get(method, method)


def column_order(table: StudyTable, *, paper: bool) -> tuple[str, ...]:
    """Return methods in the order of the paper's Table 2: without calibration comes last."""
    chosen = [m for m in table.methods if not paper or m in PAPER_METHODS]
    return tuple(sorted(chosen, key=lambda m: m == "uncalibrated"))


def variants(table: StudyTable) -> tuple[bool, ...]:
    """Return whether to compare the paper's columns, all methods, or both where they differ."""
    n_paper, n_all = (len(column_order(table, paper=paper)) for paper in (True, False))
    if n_paper == n_all:
        return (True,)
    return (True, False) if n_paper >= 2 else (False,)


def binned_name(metric: str, n_bins: int) -> str:
    """Return the name that the table has for an ECE with some number of bins."""
    return metric if n_bins == 15 else f"{metric}-{n_bins}"


def file_name(text: str) -> str:
    """Return a name that is safe as part of a file's name.

    Examples
    --------
    >>> from calibrant.study.tables import file_name
    >>> file_name("../UDHR lang|id")
    'udhr-lang-id'
    """
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.") or "unnamed"


def format_value(value: float, metric: str) -> str:
    """Format a metric as the paper does: percentages but for NLL and Brier score."""
    if math.isnan(value):
        return "failed"
    digits = {"accuracy": 2, "conf-ece": 2, "tece": 2, "cw-ece": 3}.get(metric)
    if digits is not None:
        return f"{100 * value:.{digits}f}%"
    return f"{value:.4f}" if metric == "nll" else f"{value:.5f}"


def format_seconds(seconds: float) -> str:
    """Format a time with two significant digits.

    Examples
    --------
    >>> from calibrant.study.tables import format_seconds
    >>> format_seconds(0.01234), format_seconds(123.4), format_seconds(0.0)
    ('0.012', '123', '0')
    """
    if math.isnan(seconds):
        return "-"
    if seconds == 0.0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(seconds))))
    return f"{seconds:.{min(digits, 6)}f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _rank_cells(average: Matrix, firsts: Matrix) -> list[Cell]:
    best = ranks.best_of(average)
    return [
        Cell(f"{rank:.1f}", bool(bold), _percent(first))
        for rank, first, bold in zip(average, firsts, best, strict=True)
    ]


def rank_table(table: StudyTable, *, paper: bool) -> Table:
    """Table 2 of the paper: average ranks and first places by metric and data set."""
    methods = column_order(table, paper=paper)
    rows: list[tuple[Cell, ...]] = []
    rules: list[int] = []
    for metric in ranks.metrics_of(table, ranks.TABLE_METRICS):
        summary = ranks.summarize_ranks(table, metric, methods)
        rules.append(len(rows))
        title = ranks.TITLES[metric]
        for i, (group, n) in enumerate(zip(summary.groups, summary.n_cases, strict=True)):
            cells = _rank_cells(summary.ranks[i], summary.firsts[i])
            rows.append((Cell(title if i == 0 else ""), Cell(group, note=str(n)), *cells))
        cells = _rank_cells(summary.overall_ranks, summary.overall_firsts)
        n = len(table.cases)
        rows.append((Cell(""), Cell("all", note=str(n)), *cells))
    which = f"the paper's {len(methods)} columns" if paper else f"all {len(methods)} methods"
    return Table(
        "ranks-paper" if paper else "ranks-all",
        f"Average ranks among {which}",
        f"Average ranks among {which}, by metric and data set (number of classifiers); in brackets "
        "how often a method reached the best value, ties included. The lowest rank is bold.",
        ("Metric", "Data set", *map(method_title, methods)),
        tuple(rows),
        2,
        tuple(rules),
    )


def model_table(table: StudyTable, dataset: str) -> Table:
    """All metrics of every classifier of one data set, by method."""
    methods = column_order(table, paper=False)
    metrics = ranks.metrics_of(table, _MODEL_COLUMNS)
    place = {method: j for j, method in enumerate(table.methods)}
    values = {metric: table.matrix(metric) for metric in metrics}
    seconds = table.seconds()
    rows: list[tuple[Cell, ...]] = []
    rules: list[int] = []
    for i, (name, model) in enumerate(table.cases):
        if name != dataset:
            continue
        rules.append(len(rows))
        first = {m: ranks.mark_first(values[m][i : i + 1], m)[0] for m in metrics}
        for j, method in enumerate(methods):
            at = place[method]
            cells = [Cell(format_value(values[m][i, at], m), bool(first[m][at])) for m in metrics]
            label = Cell(model if j == 0 else "")
            time = Cell(format_seconds(float(seconds[i, at])))
            rows.append((label, Cell(method_title(method)), *cells, time))
    return Table(
        f"models-{file_name(dataset)}",
        f"Classifiers of {dataset}",
        f"Classifiers of {dataset}: every metric on the test part, and the seconds of the fit. "
        "The best value of a classifier is bold.",
        ("Classifier", "Method", *(ranks.TITLES[m] for m in metrics), "Seconds"),
        tuple(rows),
        2,
        tuple(rules),
    )


def win_table(table: StudyTable, metric: str, *, paper: bool) -> Table:
    """How often the method of the row is better than that of the column."""
    methods = column_order(table, paper=paper)
    shares = ranks.win_shares(ranks.select_methods(table, metric, methods), metric)
    rows = tuple(
        (Cell(method_title(method)), *(Cell("" if math.isnan(s) else _percent(s)) for s in line))
        for method, line in zip(methods, shares, strict=True)
    )
    return Table(
        f"wins-{metric}-{'paper' if paper else 'all'}",
        f"{ranks.TITLES[metric]}, wins in percent, {len(methods)} methods",
        f"{ranks.TITLES[metric]}: how often the method of the row has a better value than that of "
        f"the column, over {len(table.cases)} classifiers. Ties win for neither.",
        ("", *map(method_title, methods)),
        rows,
    )


def time_table(table: StudyTable) -> Table:
    """Median seconds of a fit, by data set and method."""
    methods = [m for m in column_order(table, paper=False) if m != "uncalibrated"]
    place = {method: j for j, method in enumerate(table.methods)}
    seconds = table.seconds()[:, [place[m] for m in methods]]
    names = np.asarray([case[0] for case in table.cases])
    rows = []
    for name in table.datasets:
        part = seconds[names == name]
        medians = [Cell(format_seconds(median_of(column))) for column in part.T]
        rows.append((Cell(name, note=str(len(part))), *medians))
    for words, of in (("all, median", median_of), ("all, longest", _longest)):
        rows.append((Cell(words), *(Cell(format_seconds(of(column))) for column in seconds.T)))
    return Table(
        "times",
        "Seconds of a fit by data set",
        "Wall-clock seconds of a fit: the median over the classifiers of a data set.",
        ("Data set", *map(method_title, methods)),
        tuple(rows),
        1,
        (len(rows) - 2,),
    )


def median_of(column: Matrix) -> float:
    """Return the median of what is there; NaN where nothing is."""
    held = column[~np.isnan(column)]
    return float(np.median(held)) if len(held) else math.nan


def _longest(column: Matrix) -> float:
    held = column[~np.isnan(column)]
    return float(held.max()) if len(held) else math.nan


def architecture_table(table: StudyTable, metric: str) -> Table:
    """Mean value and average rank by architecture."""
    methods = column_order(table, paper=False)
    families = families_of(table)
    summary = ranks.summarize_ranks(table, metric, methods, families)
    values = ranks.select_methods(table, metric, methods)
    rows = []
    for i, family in enumerate(summary.groups):
        part = values[np.asarray(families) == family]
        means = part.mean(axis=0)  # NaN where a method failed on one of them
        best = ranks.best_of(summary.ranks[i])
        cells = [
            Cell(f"{rank:.1f}", bool(bold), format_value(float(mean), metric))
            for rank, mean, bold in zip(summary.ranks[i], means, best, strict=True)
        ]
        rows.append((Cell(family, note=str(summary.n_cases[i])), *cells))
    return Table(
        f"architectures-{metric}",
        f"{ranks.TITLES[metric]} by architecture",
        f"{ranks.TITLES[metric]} by architecture (number of classifiers), over all data sets: the "
        "average rank and, in brackets, the mean value. The lowest average rank is bold.",
        ("Architecture", *map(method_title, methods)),
        tuple(rows),
    )


def significance_table(table: StudyTable) -> Table:
    """Friedman tests and critical differences, by classifiers and by data sets."""
    rows: list[tuple[Cell, ...]] = []
    rules: list[int] = []
    for paper in variants(table):
        methods = column_order(table, paper=paper)
        rules.append(len(rows))
        for metric in ranks.metrics_of(table):
            cells = []
            for block in (by_classifiers, by_data_sets):
                of = block(table, metric, methods)
                test = significance.friedman_test(of)
                width = significance.critical_difference(len(methods), len(of))
                p_value = "< 0.0001" if test.p_value < 1e-4 else f"{test.p_value:.4f}"
                numbers = (f"{test.statistic:.1f}", p_value, f"{width:.2f}")
                cells += [Cell(str(len(of))), *map(Cell, numbers)]
            rows.append((Cell(f"{len(methods)} methods"), Cell(ranks.TITLES[metric]), *cells))
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
    return ranks.rank_methods(ranks.select_methods(table, metric, methods), metric)


def by_data_sets(table: StudyTable, metric: str, methods: Sequence[str]) -> Matrix:
    """Return the ranks of the methods' average ranks, one row per data set."""
    return ranks.rank_methods(ranks.summarize_ranks(table, metric, methods).ranks, "rank")


def interval_table(table: StudyTable, *, paper: bool) -> Table:
    """Average ranks with bootstrap intervals over data sets, by metric."""
    methods = column_order(table, paper=paper)
    groups = [case[0] for case in table.cases]
    metrics = ranks.metrics_of(table)
    columns = []
    for metric in metrics:
        of = by_classifiers(table, metric, methods)
        average, bounds = of.mean(axis=0), significance.rank_intervals(of, groups)
        best = ranks.best_of(average)
        columns.append(
            [
                Cell(f"{mean:.2f}", bool(bold), f"{low:.1f}\u2013{high:.1f}")
                for mean, (low, high), bold in zip(average, bounds, best, strict=True)
            ]
        )
    rows = zip(*columns, strict=True)
    return Table(
        f"intervals-{'paper' if paper else 'all'}",
        f"Average ranks with intervals, {len(methods)} methods",
        "Average rank over all classifiers, with its 95% bootstrap interval: whole data sets are "
        "resampled. The lowest is bold.",
        ("Method", *(ranks.TITLES[m] for m in metrics)),
        tuple((Cell(method_title(m)), *cells) for m, cells in zip(methods, rows, strict=True)),
    )


def sensitivity_table(table: StudyTable) -> Table | None:
    """Average ranks by ECEs of 10, 15 and 25 bins; None without these metrics."""
    methods = column_order(table, paper=False)
    kinds = binned_metrics(table)
    if not kinds:
        return None
    columns, last = [], []
    for metric in kinds:
        average = {n: binned_ranks(table, metric, n, methods) for n in BINS}
        for n in BINS:
            best = ranks.best_of(average[n])
            columns.append(
                [Cell(f"{rank:.2f}", bool(b)) for rank, b in zip(average[n], best, strict=True)]
            )
            last.append(Cell(f"{rank_correlation(average[n], average[15]):.3f}"))
    rows = [
        (Cell(method_title(m)), *cells)
        for m, cells in zip(methods, zip(*columns, strict=True), strict=True)
    ]
    return Table(
        "sensitivity",
        "Average ranks by number of bins",
        "Average ranks by calibration errors of 10, 15 and 25 bins. The last line is Spearman's "
        "correlation of a column with that of 15 bins.",
        ("Method", *(f"{ranks.TITLES[m]}, {n} bins" for m in kinds for n in BINS)),
        (*rows, (Cell("correlation"), *last)),
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
    """Return Spearman's correlation; NaN where one of the two is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.study.tables import rank_correlation
    >>> round(rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0])), 2)
    0.5
    """
    pair = ranks.rank_methods(np.stack([first, second]), "rank")
    centred = pair - pair.mean(axis=1, keepdims=True)
    scale = math.sqrt(float((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
    return float(centred[0] @ centred[1]) / scale if scale > 0.0 else math.nan


def build_tables(table: StudyTable) -> list[Table]:
    """Return every table of a study, in the order in which the page shows them."""
    binned = sensitivity_table(table)
    both = variants(table)
    return [
        *(rank_table(table, paper=paper) for paper in both),
        *(interval_table(table, paper=paper) for paper in both),
        significance_table(table),
        *([binned] if binned is not None else []),
        *(win_table(table, m, paper=p) for m in ranks.metrics_of(table) for p in both),
        *(architecture_table(table, m) for m in ranks.metrics_of(table, ranks.TABLE_METRICS)),
        time_table(table),
        *(model_table(table, dataset) for dataset in table.datasets),
    ]
