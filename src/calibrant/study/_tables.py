"""The tables of a study: those of the paper, times, tests and numbers of bins.

They are typeset as Markdown and as LaTeX; what stands in them is text, never markup.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._calibrators.methods import methods
from calibrant._text import p_words, printable
from calibrant._trial import UNCALIBRATED
from calibrant.study import _ranks as ranks
from calibrant.study._table import CASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pandas as pd

    from calibrant.study._table import StudyTable

BINNED = ("conf-ece", "cw-ece", "tece")
BINS = (10, 15, 25)
_MODEL_COLUMNS = tuple(dict.fromkeys(("accuracy", "conf-ece", "nll", "cw-ece", *ranks.ALL_METRICS)))

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}_%&#$"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"\u2212": r"$-$", "\u2013": "--"}
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")

_TABLE = r"""\begin{table*}[tbhp]
\centering
\caption{%(caption)s}
\label{tab:%(label)s}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%%
\begin{tabular}{%(columns)s}
\toprule
%(head)s \\
\midrule
%(body)s
\bottomrule
\end{tabular}
}
\end{table*}
"""
"""Only a table that is too wide is made smaller."""


class Entry(NamedTuple):
    """Text, bold or not; ``note`` follows it, in brackets."""

    text: str
    bold: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, not yet in any markup; the name is that of its file, without suffix.

    Rows come in groups, with a rule between them, and are as long as the head. The first
    ``n_labels`` columns are labels, set left.
    """

    name: str
    title: str
    caption: str
    head: tuple[str, ...]
    groups: Sequence[Sequence[tuple[Entry, ...]]]
    n_labels: int = 1

    @property
    def rows(self) -> list[tuple[Entry, ...]]:
        """Rows of all groups."""
        return [row for group in self.groups for row in group]


def method_title(method: str) -> str:
    """Return the name of a method as tables print it, or as it is if there is no such method."""
    if method == UNCALIBRATED:
        return method.capitalize()
    known = methods(study=True).get(method)
    return method if known is None else known.title


def metric_title(metric: str) -> str:
    """Return the name of a metric as all tables print it, at the beginning of a line."""
    title = ranks.BY_NAME[metric].title
    return title.capitalize() if title.islower() else title


def columns_of(table: StudyTable) -> dict[str, str]:
    """Return titles of all methods in the order of the paper's Table 2: uncalibrated comes last.

    Methods that are one fit for all classifiers, as ms and dirichlet on probabilities, share one.
    """
    columns: dict[str, str] = {}
    for method in sorted(table.methods, key=lambda method: method == UNCALIBRATED):
        same = [first for first in columns if _is_same_fit(table, method, first)]
        name = same[0] if same else method
        columns[name] = ", ".join([*(columns[first] for first in same), method_title(method)])
    return columns


def _is_same_fit(table: StudyTable, method: str, first: str) -> bool:
    """Whether a method derives from an earlier one and has the same numbers."""
    known = methods(study=True)
    if not (method in known and first in known and issubclass(known[method], known[first])):
        return False
    a, b = (
        table.frame[table.frame["method"] == own].set_index([*CASE, "metric"])["value"].sort_index()
        for own in (method, first)
    )
    return a.index.equals(b.index) and np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True)


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


def _entries(numbers: pd.Series, form: str, notes: Iterable[str] | None = None) -> list[Entry]:
    """Return the numbers of a row, the smallest bold, with notes in brackets."""
    best = ranks.best_of(numbers)
    after = [""] * len(numbers) if notes is None else notes
    return [
        Entry(format(number, form), bool(bold), note)
        for number, bold, note in zip(numbers, best, after, strict=True)
    ]


def _by_method(columns: dict[str, str], found: list[list[Entry]]) -> list[tuple[Entry, ...]]:
    return list(zip(map(Entry, columns.values()), *found, strict=True))


def rank_table(table: StudyTable) -> Table:
    """Table 2 of the paper: average ranks and first places by metric and data set."""
    groups, columns = [], columns_of(table)
    for metric in ranks.known_metrics(table, ranks.TABLE_METRICS):
        values = table.wide(metric, columns)
        ranked, first = ranks.rank_methods(values, metric), ranks.mark_first(values, metric)
        rows: list[tuple[Entry, ...]] = []
        for name in (*table.datasets, None):
            part = slice(None) if name is None else [name]
            own, shares = ranked.loc[part], first.loc[part].mean()
            rows.append(
                (
                    Entry("" if rows else metric_title(metric)),
                    Entry(name or "all", note=str(len(own))),
                    *_entries(own.mean(), ".1f", (f"{share:.0%}" for share in shares)),
                )
            )
        groups.append(rows)
    return Table(
        "ranks",
        f"Average ranks among {len(columns)} methods",
        f"Average ranks among {len(columns)} methods, by metric and data set (number of "
        "classifiers); in brackets how often a method reached the best value, ties included. The "
        "lowest rank is bold.",
        ("Metric", "Data set", *columns.values()),
        groups,
        2,
    )


def model_table(table: StudyTable, dataset: str) -> Table:
    """All metrics of every classifier of one data set, by method."""
    columns = columns_of(table)
    metrics = ranks.known_metrics(table, _MODEL_COLUMNS)
    values = {metric: table.wide(metric, columns).loc[dataset] for metric in metrics}
    firsts = {metric: ranks.mark_first(values[metric], metric) for metric in metrics}
    seconds = table.seconds(columns).loc[dataset]

    def line(model: str, method: str) -> tuple[Entry, ...]:
        result = ((m, values[m].loc[model, method], firsts[m].loc[model, method]) for m in metrics)
        return (
            Entry(model if method == next(iter(columns)) else ""),
            Entry(columns[method]),
            *(Entry(format_value(value, m), bool(first)) for m, value, first in result),
            Entry(format_seconds(seconds.loc[model, method])),
        )

    return Table(
        f"models-{file_name(dataset)}",
        f"Classifiers of {dataset}",
        f"Classifiers of {dataset}: every metric on the test part, and the seconds of the fit. "
        "The best value of a classifier is bold.",
        ("Classifier", "Method", *map(metric_title, metrics), "Seconds"),
        [[line(model, method) for method in columns] for model in seconds.index],
        2,
    )


def time_table(table: StudyTable) -> Table:
    """Median seconds of a fit, by data set and method."""
    fitted = [method for method in columns_of(table) if method != UNCALIBRATED]
    seconds = table.seconds(fitted)
    parts = [
        (Entry(str(name), note=str(len(part))), part.median())
        for name, part in seconds.groupby(level="dataset")
    ]
    total = [(Entry("all, median"), seconds.median()), (Entry("all, longest"), seconds.max())]
    return Table(
        "times",
        "Seconds of a fit by data set",
        "Wall-clock seconds of a fit: the median over the classifiers of a data set.",
        ("Data set", *map(method_title, fitted)),
        [
            [(name, *(Entry(format_seconds(s)) for s in line)) for name, line in g]
            for g in (parts, total)
        ],
    )


def significance_table(table: StudyTable) -> Table:
    """Friedman tests and critical differences, by classifiers and by data sets."""

    def tests(ranked: pd.DataFrame) -> list[str]:
        test = ranks.friedman_test(ranked)
        width = ranks.critical_difference(ranked.shape[1], len(ranked))
        p_value = p_words(test.p_value).removeprefix("p = ").removeprefix("p ")
        return [str(len(ranked)), f"{test.statistic:.1f}", p_value, f"{width:.2f}"]

    rows = []
    for metric in ranks.known_metrics(table):
        ranked = ranks.rank_cases(table, metric)
        by_dataset = ranked.groupby(level="dataset").mean().rank(axis=1)
        rows.append(tuple(map(Entry, [metric_title(metric), *tests(ranked), *tests(by_dataset)])))
    heads = ("blocks", "Friedman", "p", "critical difference")
    return Table(
        "tests",
        "Friedman tests and critical differences",
        "Friedman test that all methods are equally good, and the Nemenyi critical difference of "
        "average ranks at the level 0.05; first with classifiers as blocks, then with data sets, "
        "which are independent of each other, unlike classifiers of one data set.",
        ("Metric", *heads, *(f"{head}, data sets" for head in heads)),
        [rows],
    )


def interval_table(table: StudyTable) -> Table:
    """Average ranks with bootstrap intervals over data sets, by metric."""
    metrics, columns = ranks.known_metrics(table), columns_of(table)
    result = []
    for metric in metrics:
        ranked = ranks.rank_cases(table, metric, columns)
        notes = (f"{low:.1f}\u2013{high:.1f}" for low, high in ranks.rank_intervals(ranked))
        result.append(_entries(ranked.mean(), ".2f", notes))
    return Table(
        "intervals",
        f"Average ranks with intervals, {len(columns)} methods",
        "Average rank over all classifiers, with its 95% bootstrap interval: whole data sets are "
        "resampled. The lowest is bold.",
        ("Method", *map(metric_title, metrics)),
        [_by_method(columns, result)],
    )


def sensitivity_table(table: StudyTable) -> Table | None:
    """Average ranks by ECEs of 10, 15 and 25 bins; None without these metrics."""
    columns, present = columns_of(table), set(table.metrics)
    names = {m: [m if n == 15 else f"{m}-{n}" for n in BINS] for m in BINNED}
    kinds = [metric for metric in BINNED if present.issuperset(names[metric])]
    if not kinds:
        return None
    result, last = [], []
    for metric in kinds:
        average = [ranks.rank_cases(table, name, columns).mean() for name in names[metric]]
        for ranked in average:
            result.append(_entries(ranked, ".2f"))
            rho = ranks.rank_correlation(ranked, average[BINS.index(15)])
            last.append(Entry(f"{rho:.3f}"))
    return Table(
        "sensitivity",
        "Average ranks by number of bins",
        "Average ranks by calibration errors of 10, 15 and 25 bins. The last line is Spearman's "
        "correlation of each column with 15 bins.",
        ("Method", *(f"{metric_title(m)}, {n} bins" for m in kinds for n in BINS)),
        [_by_method(columns, result), [(Entry("correlation"), *last)]],
    )


def build_tables(table: StudyTable) -> list[Table]:
    """Return every table of a study, in the order in which the page shows them."""
    first = [rank_table, interval_table, significance_table, sensitivity_table, time_table]
    result = [build(table) for build in first]
    result += [model_table(table, dataset) for dataset in table.datasets]
    return [one for one in result if one is not None]


# Markup


def escape_markdown(text: object) -> str:
    """Return text that Markdown prints as it is, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", printable(text, None)).replace("&", "&amp;")


def escape_latex(text: object) -> str:
    """Return text that LaTeX prints as it is."""
    return printable(text, None).translate(_LATEX)


def _marked(row: Sequence[Entry], escape: Callable[[str], str], bold: str) -> list[str]:
    """Return entries of a row in a markup, in which ``bold`` sets a text in bold."""
    texts = [escape(one.text + f" ({one.note})" * bool(one.note)) for one in row]
    return [
        bold % text if one.bold and text else text for one, text in zip(row, texts, strict=True)
    ]


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with its caption above."""
    marks = ["---"] * table.n_labels + ["---:"] * (len(table.head) - table.n_labels)
    lines = [[*map(escape_markdown, table.head)], marks]
    lines += [_marked(row, escape_markdown, "**%s**") for row in table.rows]
    rows = [f"| {' | '.join(words)} |" for words in lines]
    return "\n".join([escape_markdown(table.caption), "", *rows, ""])


def to_latex(table: Table) -> str:
    """Return the table as LaTeX, of the text's width at most; it needs booktabs and graphicx."""
    groups = [
        "\n".join(" & ".join(_marked(row, escape_latex, r"\textbf{%s}")) + r" \\" for row in group)
        for group in table.groups
    ]
    return _TABLE % {
        "caption": escape_latex(table.caption),
        "label": re.sub(r"[^a-z0-9-]+", "-", table.name.lower()),
        "columns": "l" * table.n_labels + "r" * (len(table.head) - table.n_labels),
        "head": " & ".join(map(escape_latex, table.head)),
        "body": "\n\\midrule\n".join(groups),
    }
