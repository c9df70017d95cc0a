"""``write_claims``: every claim of the paper beside the numbers of a study, as Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

import claim_rules as rules
import printed
from assumptions import measure_assumptions
from calibrant._atomic_file import replace_file
from calibrant.study import _ranks as ranks
from calibrant.study._methods import PAPER_METHODS
from calibrant.study._tables import (
    Entry,
    Table,
    escape_markdown,
    method_title,
    metric_title,
    to_markdown,
)
from claim_list import judge_claims
from printed import DATA_SETS_HERE

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from assumptions import Measured
    from calibrant.study._table import StudyTable
    from claim_rules import Check, Claim

_MARKS = {True: "yes", False: "no", None: ""}


def write_claims(table: StudyTable, path: str | os.PathLike[str]) -> None:
    """Write the page of claims.

    Parameters
    ----------
    table : StudyTable
        With some of the paper's columns and metrics; what is missing is not tested.
    path : path-like
        A Markdown file, written whole or not at all.
    """
    methods = [m for m in PAPER_METHODS if m in table.methods and m != "uncalibrated"]
    page = build_claims(table, measure_assumptions(methods))
    with replace_file(path) as file:
        file.write(page.encode("utf-8"))


def build_claims(table: StudyTable, measured: Mapping[str, Measured] | None = None) -> str:
    """Return the page of claims; ``measured`` as in :func:`judge_claims`."""
    claims = judge_claims(table, measured)
    parts = [_head(table, claims), _overview(claims), _main_results(table), _ranks_beside(table)]
    parts += [_claim_part(number, claim) for number, claim in enumerate(claims, 1)]
    parts.append(_sources(table))
    return "\n".join(parts).rstrip("\n") + "\n"


def _head(table: StudyTable, claims: Sequence[Claim]) -> str:
    counts = Counter(claim.verdict for claim in claims)
    found = ", ".join(f"*{verdict}* {number}" for verdict, number in counts.most_common())
    intro = (
        "Arad and Rosset (ICML 2025) introduce NA-FIR and SCIR, and compare eight methods on 75 "
        "classifiers of 7 data sets. Here the same methods are compared on "
        f"{len(table.cases)} classifiers of {len(table.datasets)} data sets. Verdicts on "
        f"{len(claims)} claims of the paper: {found}."
    )
    more = (
        f"{rules.RULE} All methods have the defaults of this package, where TS, VS, MS and IR-OvR "
        "have a weak prior that the paper does not use. Average ranks are among the eight methods, "
        "over all classifiers; 1 is best. The paper prints ranks by data set; the averages of the "
        "paper on this page weight them by the number of classifiers. `paper/write_claims.py` "
        "writes this page from the table of a study."
    )
    return f"# The paper's claims, measured again\n\n{intro}\n\n{more}\n"


def _overview(claims: Sequence[Claim]) -> str:
    rows = []
    for number, claim in enumerate(claims, 1):
        known = [c.here.passed for c in claim.checks if c.here.passed is not None]
        rows.append(
            (
                Entry(f"{number}. {claim.title}"),
                Entry(claim.verdict, bold=True),
                Entry(f"{sum(known)} of {len(known)}"),
            )
        )
    head = ("Claim", "Verdict", "Checks passed")
    return to_markdown(Table("overview", "", "Verdicts:", head, [rows], 2))


def _main_results(table: StudyTable) -> str:
    """Say whether the two main results hold and, if not, what speaks against them."""
    lines = ["## The two main results", ""]
    for metric, wanted, words in (
        ("nll", ("na-fir",), "NA-FIR has the best average NLL rank of the eight methods"),
        ("conf-ece", ("scir", "na-fir"), "SCIR and NA-FIR have the two best conf-ECE ranks"),
    ):
        found = rules.lowest_rank(rules.read_study(table), metric, wanted)
        answer = {True: "Yes", False: "**No**", None: "Not measured"}[found.passed]
        lines += [f"{words}: {answer} ({escape_markdown(found.words)}).", ""]
        if found.passed is False:
            lines += [*explain_loss(table, metric, wanted), ""]
    return "\n".join(lines)


def explain_loss(table: StudyTable, metric: str, wanted: Sequence[str]) -> list[str]:
    """Return the evidence on why a method is not where the paper has it.

    For every method that ranks before it: how large the difference is against what chance allows,
    on which data sets it arises, and in how many of its wins it also has the higher accuracy, which
    an order-preserving map cannot raise.
    """
    methods = [m for m in PAPER_METHODS if m in table.methods]
    ranked = ranks.rank_cases(table, metric, methods)
    average = ranked.mean().to_dict()
    order = sorted(methods, key=lambda m: average[m])
    limit = average[order[len(wanted) - 1]] + 1e-9
    lost = [m for m in wanted if average[m] > limit]
    draws = ranks.resample_means(ranked, ranked.index.get_level_values("dataset"))
    lines = []
    for method in lost:
        rivals = [m for m in order[: order.index(method)] if m not in wanted]
        for rival in rivals:
            i, j = methods.index(method), methods.index(rival)
            gap = average[method] - average[rival]
            low, high = np.quantile(draws[:, i] - draws[:, j], [0.025, 0.975])
            lines.append(
                f"- {method_title(rival)} ranks before {method_title(method)} by {gap:.2f}; "
                f"over resampled data sets the difference is {low:.2f} to {high:.2f}"
                f"{', which is chance' if low <= 0.0 <= high else ''}. "
                + _where_lost(table, metric, method, rival)
            )
    return lines


def _where_lost(table: StudyTable, metric: str, method: str, rival: str) -> str:
    """Describe the classifiers on which a method loses against another."""
    pair = ranks.as_losses(table.wide(metric, (method, rival)), metric)
    is_lost = pair[rival] < pair[method]
    where = is_lost.groupby(level="dataset").sum().sort_values(ascending=False, kind="stable")
    most = ", ".join(f"{escape_markdown(name)} ({n})" for name, n in where[:4].items() if n)
    words = f"It is better on {is_lost.sum()} of {len(is_lost)} classifiers, most of {most}."
    if "accuracy" in table.metrics and is_lost.any():
        accuracy = table.wide("accuracy", (method, rival))[is_lost]
        n_better = (accuracy[rival] > accuracy[method]).sum()
        words += f" On {n_better} of these it is also more accurate."
    names, lost = is_lost.index.get_level_values("dataset"), is_lost.to_numpy()
    rows = _rows_for_a_class(names)
    counted = ~np.isnan(rows)
    if (lost & counted).any() and (~lost & counted).any():
        there, elsewhere = np.median(rows[lost & counted]), np.median(rows[~lost & counted])
        words += (
            f" The median number of calibration rows for a class is {there:.0f} there, and "
            f"{elsewhere:.0f} where {method_title(method)} is not worse."
        )
    return words


def _rows_for_a_class(names: Iterable[object]) -> NDArray[np.float64]:
    known = [DATA_SETS_HERE.get(str(name)) for name in names]
    return np.array([np.nan if one is None else one.n_val / one.n_classes for one in known])


def _ranks_beside(table: StudyTable) -> str:
    """Print the average ranks and first places of both sides."""
    here, there = rules.read_study(table), rules.read_paper()
    lines = ["## Average ranks here and in Table 2 of the paper", ""]
    rows = []
    for metric in ranks.TABLE_METRICS:
        for name, source in (("paper", there), ("here", here)):
            if metric not in source.rank:
                continue
            line = source.rank[metric]
            best = min(line.values())
            cells = [
                Entry(
                    f"{line[m]:.2f}",
                    line[m] <= best + 1e-9,
                    f"{100 * source.first[metric][m]:.0f}%",
                )
                if m in line
                else Entry("-")
                for m in printed.COLUMNS
            ]
            rows.append((Entry(metric_title(metric)), Entry(name), *cells))
    head = ("Metric", "", *map(method_title, printed.COLUMNS))
    caption = (
        "Average rank over all classifiers and share of first places; the lowest rank is bold."
    )
    overall = to_markdown(Table("beside", "", caption, head, [rows], 2))
    return "\n".join([*lines, overall, _shared_datasets(there, here)])


def _shared_datasets(there: rules.Source, here: rules.Source) -> str:
    """Print the ranks on data sets that both sides have, with other classifiers."""
    rows = []
    for metric in ("nll", "conf-ece"):
        for theirs, ours in printed.SAME.items():
            if ours not in here.by_dataset.get(metric, {}):
                continue
            for name, line in (
                (f"{theirs}, paper", there.by_dataset[metric][theirs]),
                (f"{ours}, here", here.by_dataset[metric][ours]),
            ):
                best = min(line.values()) + 1e-9
                cells = [
                    Entry(f"{line[m]:.1f}", line[m] <= best) if m in line else Entry("-")
                    for m in printed.COLUMNS
                ]
                rows.append((Entry(metric_title(metric)), Entry(name), *cells))
    if not rows:
        return ""
    caption = "Average ranks on the data sets that both use; the classifiers differ."
    head = ("Metric", "Data set", *map(method_title, printed.COLUMNS))
    return to_markdown(Table("shared", "", caption, head, [rows], 2))


def _claim_part(number: int, claim: Claim) -> str:
    rows = [_check_row(check) for check in claim.checks]
    head = ("Check", "Paper", "passes there", "Here", "passes here")
    table = to_markdown(Table("claim", "", f"Verdict: {claim.verdict}.", head, [rows], len(head)))
    lines = [
        f"## {number}. {escape_markdown(claim.title)}",
        "",
        f"> {escape_markdown(claim.quote)}",
    ]
    return "\n".join([*lines, "", table, *([claim.note, ""] if claim.note else [])])


def _check_row(check: Check) -> tuple[Entry, ...]:
    here = _MARKS[check.here.passed]
    return (
        Entry(check.text),
        Entry(check.paper.words),
        Entry(_MARKS[check.paper.passed]),
        Entry(check.here.words),
        Entry(here, bold=bool(here)),
    )


def _sources(table: StudyTable) -> str:
    unknown = [name for name in table.datasets if name not in DATA_SETS_HERE]
    names = escape_markdown(", ".join(table.datasets))
    origin = "its Table 2, transcribed in `paper/printed.py`, and its table of data sets"
    lines = ["## Where the numbers come from", "", f"- The paper's: {origin}."]
    lines.append(f"- Here: {len(table.cases)} classifiers, of {names}.")
    if unknown:
        lines.append(
            "- Data sets of unknown kind, which take no part in claims 7 and 8: "
            + escape_markdown(", ".join(unknown))
            + "."
        )
    counts = table.wide("nll").isna().sum()
    failed = [f"{method_title(m)} {n}" for m, n in counts.items() if n and m in PAPER_METHODS]
    if failed:
        lines.append(f"- Without a number, and ranked last there: {', '.join(failed)} classifiers.")
    versions = sorted(filter(None, table.frame["versions"].unique()))
    lines += [f"- Computed with {escape_markdown(version)}." for version in versions[:3]]
    return "\n".join([*lines, ""])
