"""``write_claims``: every claim of the paper beside the numbers of a study, as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

import claim_rules as rules
import printed
from architectures import by_architecture
from assumptions import measure_assumptions
from calibrant._atomic_file import replace_file
from calibrant.study import StudyTable
from calibrant.study import _ranks as ranks
from calibrant.study._methods import PAPER_ESTIMATORS, PAPER_METHODS
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
    from claim_rules import Check, Claim

_MARKS = {True: "yes", False: "no", None: ""}


def write_claims(table: StudyTable, path: str | os.PathLike[str]) -> Counter[str]:
    """Write the page of claims; return how many have each verdict.

    Parameters
    ----------
    table : StudyTable
        With some of the paper's columns and metrics; what is missing is not tested.
    path : path-like
        A Markdown file, written whole or not at all.
    """
    names = [m for m in PAPER_METHODS if m in table.methods and m != "uncalibrated"]
    ours = measure_assumptions(names)
    own = {PAPER_ESTIMATORS[m]: m for m in names if PAPER_ESTIMATORS[m] in table.methods}
    found = measure_assumptions([*own])
    here = {name: found[method] for method, name in own.items()} if own else ours
    page = build_claims(table, here, ours)
    with replace_file(path) as file:
        file.write(page.encode("utf-8"))
    return Counter(re.findall(r"^Verdict: ([a-z ]+)\.", page, flags=re.MULTILINE))


def paper_table(table: StudyTable) -> StudyTable:
    """Return the part of the paper's own estimators, under the names of the paper's columns."""
    names = {method: column for column, method in PAPER_ESTIMATORS.items()}
    frame = table.frame[table.frame["method"].isin([*names])]
    return StudyTable(frame.assign(method=frame["method"].map(names)))


def default_table(table: StudyTable) -> StudyTable:
    """Return the part of the paper's columns with the defaults of this package."""
    return StudyTable(table.frame[table.frame["method"].isin(PAPER_METHODS)])


def build_claims(
    table: StudyTable,
    measured: Mapping[str, Measured] | None = None,
    measured_ours: Mapping[str, Measured] | None = None,
) -> str:
    """Return the page of claims.

    They are judged by the paper's own estimators; where a study has none, by our defaults.
    ``measured`` is that of :func:`judge_claims`, for the two kinds of estimators.
    """
    ours = default_table(table)
    own = any(method.endswith("-paper") for method in table.methods)
    here = paper_table(table) if own else ours
    claims = judge_claims(here, measured)
    beside = judge_claims(ours, measured_ours) if own else None
    parts = [_head(table, claims), _overview(claims, beside), _main_results(here)]
    parts.append(_ranks_beside(here, ours if own else None))
    for number, claim in enumerate(claims, 1):
        parts.append(_claim_part(number, claim, None if beside is None else beside[number - 1]))
    parts += [_families(here), _decomposition(table), _annealing(table), _sources(table)]
    return "\n".join(part for part in parts if part).rstrip("\n") + "\n"


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
        f'{rules.RULE} "Here" are the paper\'s own estimators: no priors and no penalties, TS, VS '
        "and MS of logits where a file has them, outputs of at least 1e-12 (`na-fir-paper`, "
        "`scir-paper`, `fir`, `ir-ovr-paper`, `ts-paper`, `vs-paper`, `ms-paper` of "
        '`calibrant.study`). "Our defaults" are the same methods as this package fits them, '
        "where all but FIR have a prior. Average ranks are among the eight methods of a kind, over "
        "all classifiers; 1 is best. The paper prints ranks by data set; its averages on this page "
        "weight them by the number of classifiers. `paper/write_claims.py` writes this page from "
        "the table of a study, and [the paper, section by section](../explanation/the-paper.md) "
        "says where all of it is."
    )
    return f"# The paper's claims, measured again\n\n{intro}\n\n{more}\n"


def _overview(claims: Sequence[Claim], ours: Sequence[Claim] | None) -> str:
    def passed(claim: Claim) -> str:
        known = [c.here.passed for c in claim.checks if c.here.passed is not None]
        return f"{sum(known)} of {len(known)}"

    rows: list[tuple[Entry, ...]] = []
    for number, claim in enumerate(claims, 1):
        cells = [Entry(f"{number}. {claim.title}"), Entry(claim.verdict, bold=True)]
        cells.append(Entry(passed(claim)))
        if ours is not None:
            other = ours[number - 1]
            cells += [Entry(other.verdict), Entry(passed(other))]
        rows.append(tuple(cells))
    head: tuple[str, ...] = ("Claim", "Verdict", "Checks passed")
    if ours is not None:
        head += ("Our defaults", "Checks passed by them")
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


def _ranks_beside(table: StudyTable, ours: StudyTable | None) -> str:
    """Print the average ranks and first places of all sides."""
    here, there = rules.read_study(table), rules.read_paper()
    sides = [("paper", there), ("here", here)]
    if ours is not None:
        sides.append(("our defaults", rules.read_study(ours)))
    lines = ["## Average ranks here and in Table 2 of the paper", ""]
    rows = []
    for metric in ranks.PAPER_METRICS:
        for name, source in sides:
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


def _claim_part(number: int, claim: Claim, ours: Claim | None) -> str:
    others = [None] * len(claim.checks) if ours is None else [c.here for c in ours.checks]
    rows = [_check_row(check, own) for check, own in zip(claim.checks, others, strict=True)]
    head: tuple[str, ...] = ("Check", "Paper", "passes there", "Here", "passes here")
    verdict = f"Verdict: {claim.verdict}."
    if ours is not None:
        head += ("Our defaults", "pass")
        verdict += f" Of our defaults: {ours.verdict}."
    table = to_markdown(Table("claim", "", verdict, head, [rows], len(head)))
    lines = [
        f"## {number}. {escape_markdown(claim.title)}",
        "",
        f"> {escape_markdown(claim.quote)}",
    ]
    turned = [
        check.text
        for check, own in zip(claim.checks, others, strict=True)
        if own is not None and None not in (own.passed, check.here.passed)
        if own.passed is not check.here.passed
    ]
    notes = [claim.note] if claim.note else []
    if turned:
        listed = "; ".join(map(escape_markdown, turned))
        notes.append(f"The priors of our defaults decide {len(turned)} of the checks: {listed}.")
    return "\n".join([*lines, "", table, *(text for note in notes for text in (note, ""))])


def _check_row(check: Check, ours: rules.Finding | None) -> tuple[Entry, ...]:
    here = _MARKS[check.here.passed]
    cells = (
        Entry(check.text),
        Entry(check.paper.words),
        Entry(_MARKS[check.paper.passed]),
        Entry(check.here.words),
        Entry(here, bold=bool(here)),
    )
    return cells if ours is None else (*cells, Entry(ours.words), Entry(_MARKS[ours.passed]))


def _families(table: StudyTable) -> str:
    """Print the average ranks of families of classifiers, as the paper's figures by model do."""
    methods = [m for m in printed.COLUMNS if m in table.methods]
    by_family = by_architecture(table)
    rows = []
    for metric in ("nll", "conf-ece"):
        if metric not in table.metrics or len(methods) < 2:
            continue
        ranked = ranks.rank_cases(by_family, metric, methods)
        for family, part in ranked.groupby(level="dataset"):
            average = part.mean()
            cells = [
                Entry(f"{average[m]:.1f}", average[m] <= average.min() + 1e-9) for m in methods
            ]
            rows.append(
                (Entry(metric_title(metric)), Entry(str(family), note=str(len(part))), *cells)
            )
    if not rows:
        return ""
    caption = (
        "Average ranks by family of classifiers (how many), of the paper's own estimators; a "
        "family spans data sets, which differ more than families do."
    )
    head = ("Metric", "Family", *map(method_title, methods))
    return "\n".join(
        ["## By architecture", "", to_markdown(Table("families", "", caption, head, [rows], 2))]
    )


def _decomposition(table: StudyTable) -> str:
    """Print which part of a gain in Brier score is calibration, and which refinement."""
    parts = ("miscalibration", "refinement")
    if not {*parts} <= {*table.metrics}:
        return ""
    values = {part: table.wide(part) for part in parts}
    rows = []
    for method in table.methods:
        if method == "uncalibrated" or values["refinement"][method].isna().all():
            continue
        gains = {p: 1e4 * (values[p]["uncalibrated"] - values[p][method]).dropna() for p in parts}
        total = gains["miscalibration"] + gains["refinement"]
        names = total.index.get_level_values("dataset")
        draws = ranks.resample_means(gains["refinement"].to_frame(), [*names])
        low, high = np.quantile(draws, [0.025, 0.975])
        rows.append(
            (
                Entry(method_title(method)),
                Entry(f"{total.mean():.1f}"),
                Entry(f"{gains['miscalibration'].mean():.1f}"),
                Entry(f"{gains['refinement'].mean():.1f}", note=f"{low:.1f} to {high:.1f}"),
                Entry(f"{int((gains['refinement'] < 0).sum())} of {len(total)}"),
            )
        )
    n_cases = int(values["refinement"]["uncalibrated"].notna().sum())
    caption = (
        f"Mean gain in Brier score over the uncalibrated classifier on {n_cases} classifiers, "
        "times 10,000, and its two parts by the CORP decomposition of every class; a negative "
        "refinement is lost. In brackets the 95 % interval over resampled data sets."
    )
    head = ("Method", "Gain", "of it calibration", "of it refinement", "refinement lost on")
    question = (
        "The paper leaves open how calibration and refinement relate. A map that keeps the order "
        "of the values of a class cannot change the refinement of that class but by ties; division "
        "by the sum of a row can, and so can a matrix."
    )
    return "\n".join(
        [
            "## Calibration and refinement",
            "",
            question,
            "",
            to_markdown(Table("parts", "", caption, head, [rows], 1)),
        ]
    )


def _annealing(table: StudyTable) -> str:
    """Compare the paper's Algorithm 1 with the exact optimum of the same objective."""
    pair = ("na-fir-annealing", "na-fir-paper")
    if not {*pair} <= {*table.methods}:
        return ""
    lines = []
    for metric in ranks.known_metrics(table, ("nll", "conf-ece")):
        found = rules.sign_test(table, metric, *pair)
        values = table.wide(metric, pair)
        means = [f"{metric_title(metric)} {values[m].mean():.4f}" for m in pair]
        lines.append(f"- {means[0]} by annealing, {means[1]} exact; annealing has {found.words}.")
    intro = (
        "Algorithm 1 (`na-fir-annealing`) and the exact optimum (`na-fir-paper`) on test parts. It "
        "keeps the blocks of PAVA and stops early, which is a kind of shrinkage to FIR:"
    )
    return "\n".join(["## Annealing and the optimum", "", intro, "", *lines, ""])


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
