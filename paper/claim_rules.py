"""The claims of the paper as rules: each a list of checks that numbers pass or do not.

A rule looks at two sources in the same way: the paper's Table 2 and the table of a study. Verdicts
follow from the checks of the study alone (``reach_verdict``); nothing is written by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import printed
from calibrant.study import _ranks as ranks
from calibrant.study._methods import PAPER_METHODS
from calibrant.study._tables import format_seconds, method_title

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assumptions import Measured
    from calibrant.study._table import StudyTable
    from printed import DataSet

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold here"
UNTESTED = "not tested here"
RULE = (
    "Every claim is a list of checks. It *holds* if all of them pass here, *holds in part* if some "
    "pass, and *does not hold here* if none passes; checks without numbers do not count. A check "
    "compares numbers as they are; whether chance alone may explain the difference stands beside "
    "it."
)
ORDER_PRESERVING = ("na-fir", "fir", "ts")
OTHERS = ("scir", "ir-ovr", "vs", "ms")


class Finding(NamedTuple):
    """Numbers as words, and whether they pass; None where there are none."""

    words: str
    passed: bool | None


NOTHING = Finding("not measured", None)


class Check(NamedTuple):
    """One line of a claim."""

    text: str
    paper: Finding
    here: Finding


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper, and what the numbers say of it."""

    title: str
    quote: str
    checks: tuple[Check, ...]
    note: str = ""

    @property
    def verdict(self) -> str:
        """Return what the checks amount to."""
        return reach_verdict([check.here.passed for check in self.checks])


def reach_verdict(passed: Sequence[bool | None]) -> str:
    """Return the verdict of a claim, by the rule that the page states.

    Examples
    --------
    >>> from claim_rules import reach_verdict
    >>> reach_verdict([True, None, True]), reach_verdict([True, False]), reach_verdict([False])
    ('holds', 'holds in part', 'does not hold here')
    """
    known = [one for one in passed if one is not None]
    if not known:
        return UNTESTED
    if all(known):
        return HOLDS
    return IN_PART if any(known) else FAILS


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Average ranks and first places, by data set and over all classifiers, from anywhere.

    Attributes
    ----------
    rank, first : dict
        metric -> method -> number, over all classifiers.
    by_dataset : dict
        metric -> data set -> method -> average rank.
    facts : dict
        data set -> DataSet, of those that are known.
    sizes : dict
        data set -> number of classifiers.
    """

    rank: dict[str, dict[str, float]]
    first: dict[str, dict[str, float]]
    by_dataset: dict[str, dict[str, dict[str, float]]]
    facts: dict[str, DataSet]
    sizes: dict[str, int]

    def gap(self, metric: str, first: str, second: str) -> str:
        """Say how far the rank of a method is before that of another, and whether by chance.

        Classifiers of one data set share its rows, so that whole data sets are resampled for the
        interval, and are the blocks of the Nemenyi critical difference.
        """
        lines = self.by_dataset[metric]
        names = list(lines)
        each = np.array([lines[d][second] - lines[d][first] for d in names])
        weight = np.array([self.sizes[d] for d in names], dtype=np.float64)
        mean = float(weight @ each / weight.sum())
        rng = np.random.default_rng(0)
        counts = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=2_000)
        draws = (counts @ (weight * each)) / (counts @ weight)
        low, high = np.quantile(draws, [0.025, 0.975])
        width = ranks.critical_difference(len(self.rank[metric]), len(names))
        within = "within" if abs(mean) < width else "beyond"
        word = "before" if mean >= 0.0 else "behind"
        if mean < 0.0:
            mean, low, high = -mean, -high, -low
        return (
            f"{word} {method_title(second)} by {mean:.2f} ({low:.2f} to {high:.2f} over data "
            f"sets), {within} the critical difference {width:.2f}"
        )

    def has(self, metric: str, *methods: str) -> bool:
        """Return whether there are numbers of a metric for all of these methods."""
        return metric in self.rank and all(method in self.rank[metric] for method in methods)


def read_paper() -> Source:
    """Return the numbers of the paper's Table 2."""
    entries = {
        metric: {method: printed.average_entry(metric, method) for method in printed.COLUMNS}
        for metric in printed.TABLE_2
    }
    return Source(
        {m: {k: e.rank for k, e in line.items()} for m, line in entries.items()},
        {m: {k: e.first for k, e in line.items()} for m, line in entries.items()},
        {
            metric: {d: {k: e.rank for k, e in line.items()} for d, line in lines.items()}
            for metric, lines in printed.TABLE_2.items()
        },
        printed.DATA_SETS,
        {name: found.n_models for name, found in printed.DATA_SETS.items()},
    )


def read_study(table: StudyTable) -> Source:
    """Return the same numbers of a study, among those of the paper's columns that it has."""
    methods = [method for method in PAPER_METHODS if method in table.methods]
    rank, first, by_dataset = {}, {}, {}
    for metric in ranks.known_metrics(table, ranks.PAPER_METRICS):
        values = table.wide(metric, methods)
        ranked = ranks.rank_methods(values, metric)
        rank[metric] = ranked.mean().to_dict()
        first[metric] = ranks.mark_first(values, metric).mean().to_dict()
        by_dataset[metric] = ranked.groupby(level="dataset").mean().to_dict("index")
    known = printed.DATA_SETS_HERE
    facts = {dataset: known[dataset] for dataset in table.datasets if dataset in known}
    sizes = {name: sum(dataset == name for dataset, _ in table.cases) for name in table.datasets}
    return Source(rank, first, by_dataset, facts, sizes)


def both(text: str, rule: Callable[[Source], Finding], sources: tuple[Source, Source]) -> Check:
    """Ask the same of the paper and of the study."""
    return Check(text, rule(sources[0]), rule(sources[1]))


def _name(method: str, number: float) -> str:
    return f"{method_title(method)} {number:.2f}"


def lowest_rank(source: Source, metric: str, wanted: Sequence[str]) -> Finding:
    """Ask whether these methods have the lowest average ranks, tied or not; name the next one."""
    if not source.has(metric, *wanted):
        return NOTHING
    order = sorted(source.rank[metric], key=lambda m: source.rank[metric][m])
    shown = order[: len(wanted) + 1]
    words = ", ".join(_name(m, source.rank[metric][m]) for m in shown)
    missing = [m for m in wanted if m not in shown]
    places = [f"{_name(m, source.rank[metric][m])} (place {order.index(m) + 1})" for m in missing]
    limit = source.rank[metric][order[len(wanted) - 1]] + 1e-9
    return Finding(
        "; ".join([words, *places]), all(source.rank[metric][m] <= limit for m in wanted)
    )


def lowest_rank_by(source: Source, metric: str, wanted: Sequence[str]) -> Finding:
    """Ask the same, and say how far the worst of them is before the best of the others."""
    found = lowest_rank(source, metric, wanted)
    others = [m for m in source.rank.get(metric, {}) if m not in wanted]
    if found.passed is None or not others:
        return found
    worst = max(wanted, key=lambda m: source.rank[metric][m])
    rival = min(others, key=lambda m: source.rank[metric][m])
    return Finding(f"{found.words}; {source.gap(metric, worst, rival)}", found.passed)


def ranks_before(source: Source, metric: str, method: str, rival: str) -> Finding:
    """Ask whether the average rank of a method is lower than that of another."""
    if not source.has(metric, method, rival):
        return NOTHING
    pair = source.rank[metric][method], source.rank[metric][rival]
    words = f"{pair[0]:.2f} against {pair[1]:.2f}; {source.gap(metric, method, rival)}"
    return Finding(words, pair[0] < pair[1])


def most_firsts(source: Source, metric: str, wanted: str) -> Finding:
    """Ask whether a method has the largest share of first places."""
    if not source.has(metric, wanted):
        return NOTHING
    shares = source.first[metric]
    rival = max((m for m in shares if m != wanted), key=lambda m: shares[m])
    words = f"{method_title(wanted)} {100 * shares[wanted]:.0f}%, "
    words += f"{method_title(rival)} {100 * shares[rival]:.0f}%"
    return Finding(words, shares[wanted] > shares[rival])


def datasets_won(source: Source, metric: str, wanted: str) -> Finding:
    """Ask whether a method has the lowest rank, tied or not, on more data sets than any other."""
    if not source.has(metric, wanted):
        return NOTHING
    won = dict.fromkeys(source.rank[metric], 0)
    for line in source.by_dataset[metric].values():
        for method, rank in line.items():
            won[method] += rank <= min(line.values()) + 1e-9
    rival = max((m for m in won if m != wanted), key=lambda m: won[m])
    n = len(source.by_dataset[metric])
    words = f"{method_title(wanted)} {won[wanted]} of {n}, {method_title(rival)} {won[rival]}"
    return Finding(words, won[wanted] > won[rival])


def beats_on_datasets(
    source: Source, metric: str, method: str, rival: str, share: float = 0.5
) -> Finding:
    """Ask whether a method ranks before another on more than a share of the data sets."""
    if not source.has(metric, method, rival):
        return NOTHING
    lines = source.by_dataset[metric].values()
    n_won = sum(line[method] < line[rival] for line in lines)
    return Finding(f"{n_won} of {len(lines)} data sets", n_won > share * len(lines))


def sign_test(table: StudyTable, metric: str, method: str, rival: str) -> Finding:
    """Ask whether a method is better than another on more classifiers than chance allows.

    Classifiers of one data set are not independent: the p-value is that of wins less losses when
    whole data sets change sign, exactly.
    """
    if metric not in ranks.known_metrics(table) or not {method, rival} <= set(table.methods):
        return NOTHING
    losses = ranks.as_losses(table.wide(metric, (method, rival)), metric)
    return _count(np.sign(losses[rival] - losses[method]))


def _count(signs: Any) -> Finding:
    """Count wins, and test them with whole data sets as clusters."""
    n_won, n_lost = int((signs > 0).sum()), int((signs < 0).sum())
    p_value = flip_p_value(signs.groupby(level="dataset").sum().to_numpy())
    words = f"{n_won} won, {n_lost} lost, p = {p_value:.2g}"
    return Finding(words, n_won > n_lost and p_value < 0.05)


def flip_p_value(sums: Any) -> float:
    """Return how often random signs of the sums give a total as large, in both directions.

    Examples
    --------
    >>> from claim_rules import flip_p_value
    >>> flip_p_value([3.0, 2.0]), flip_p_value([3.0, -3.0])
    (0.5, 1.0)
    """
    sums = np.asarray(sums, dtype=np.float64)
    totals = np.zeros(1)
    for size in sums[sums != 0.0]:  # 2^16 totals of 16 data sets
        totals = np.concatenate([totals + size, totals - size])
    return float(np.mean(np.abs(totals) >= abs(sums.sum()) - 1e-9))


def more_often(table: StudyTable, metric: str, method: str, rival: str, *, lower: bool) -> Finding:
    """Ask whether a quantity is lower (or higher) for a method on more classifiers than chance."""
    if metric not in table.metrics or not {method, rival} <= set(table.methods):
        return NOTHING
    values = table.wide(metric, (method, rival)).dropna()
    signs = np.sign(values[rival] - values[method])
    return _count(signs if lower else -signs)


def mostly(table: StudyTable, metric: str, method: str) -> Finding:
    """Ask whether a share is above a half on more classifiers than chance allows."""
    if metric not in table.metrics or method not in table.methods:
        return NOTHING
    values = table.wide(metric, (method,))[method].dropna()
    found = _count(np.sign(values - 0.5))
    return Finding(f"mean {100 * values.mean():.0f}%; {found.words}", found.passed)


def grows_with_overconfidence(table: StudyTable, method: str) -> Finding:
    """Ask whether conf-ECE falls by more where it was large before: Spearman's correlation."""
    if not {method, "uncalibrated"} <= set(table.methods) or "conf-ece" not in table.metrics:
        return NOTHING
    values = table.wide("conf-ece", ("uncalibrated", method))
    before, gain = values["uncalibrated"], values["uncalibrated"] - values[method]
    if len(values) < 4:
        return NOTHING
    rho = ranks.rank_correlation(before.to_numpy(), gain.to_numpy())
    return Finding(f"correlation {rho:+.2f} over {len(values)} classifiers", rho >= 0.5)


def better_where_overconfident(table: StudyTable, method: str) -> Finding:
    """Ask whether a method's conf-ECE rank is better on the worse half of the classifiers."""
    chosen = [m for m in PAPER_METHODS if m in table.methods]
    wanted = {method, "uncalibrated"} <= set(chosen)
    if not wanted or "conf-ece" not in table.metrics or len(table.cases) < 4:
        return NOTHING
    before = table.wide("conf-ece", ("uncalibrated",))["uncalibrated"]
    line = ranks.rank_cases(table, "conf-ece", chosen)[method]
    worse = (before >= before.median()).to_numpy()
    pair = float(line[worse].mean()), float(line[~worse].mean())
    return Finding(f"rank {pair[0]:.2f} there, {pair[1]:.2f} elsewhere", pair[0] < pair[1])


def share_not_rejected(table: StudyTable, method: str) -> Finding:
    """Ask whether the test of calibration keeps the hypothesis on most classifiers."""
    if "p-value" not in table.metrics or method not in table.methods:
        return NOTHING
    values = table.wide("p-value", (method,))[method].dropna()
    kept = int((values > 0.05).sum())
    return Finding(f"p > 0.05 on {kept} of {len(values)}", kept > len(values) / 2)


def correlation(source: Source, metric: str, method: str, what: str) -> Finding:
    """Ask whether ranks grow with the number of classes, or fall with the rows for each of them."""
    known = [d for d in source.by_dataset.get(metric, {}) if d in source.facts]
    if not source.has(metric, method) or len(known) < 4:
        return NOTHING
    facts = [source.facts[d] for d in known]
    sizes = [f.n_classes if what == "classes" else f.n_val / f.n_classes for f in facts]
    line = [source.by_dataset[metric][d][method] for d in known]
    rho = ranks.rank_correlation(np.array(sizes, dtype=np.float64), np.array(line))
    bound = 0.5 if what == "classes" else -0.5
    return Finding(f"{rho:+.2f}", rho >= bound if bound > 0 else rho <= bound)


def better_on_images(source: Source, metric: str, method: str) -> Finding:
    """Ask whether a method's rank is lower on data sets of images than on those of text."""
    means = {}
    if source.has(metric, method):
        for kind in ("image", "text"):
            line = [
                ranks_of[method]
                for dataset, ranks_of in source.by_dataset[metric].items()
                if dataset in source.facts and source.facts[dataset].kind == kind
            ]
            if line:
                means[kind] = float(np.mean(line))
    if len(means) < 2:
        return NOTHING
    words = f"images {means['image']:.2f}, text {means['text']:.2f}"
    return Finding(words, means["image"] < means["text"])


def spread_of(source: Source, metric: str, method: str) -> float:
    """Return the standard deviation of a method's rank over data sets."""
    return float(np.std([line[method] for line in source.by_dataset[metric].values()]))


def steadier(source: Source, metric: str, first: Sequence[str], second: Sequence[str]) -> Finding:
    """Ask whether ranks of some methods vary less over data sets than those of others."""
    if not source.has(metric, *first, *second):
        return NOTHING
    pair = [
        float(np.mean([spread_of(source, metric, m) for m in group])) for group in (first, second)
    ]
    return Finding(f"{pair[0]:.2f} against {pair[1]:.2f}", pair[0] < pair[1])


def steadier_within(table: StudyTable, metric: str) -> Finding:
    """Ask whether ranks of order-preserving methods vary less within a data set."""
    chosen = [m for m in PAPER_METHODS if m in table.methods]
    wanted = {*ORDER_PRESERVING, *OTHERS}
    if metric not in ranks.known_metrics(table) or not wanted <= set(chosen):
        return NOTHING
    groups = ranks.rank_cases(table, metric, chosen).groupby(level="dataset")
    spread = groups.std(ddof=0)[groups.size() > 1].mean()
    if spread.isna().any():
        return NOTHING
    means = [float(spread[list(group)].mean()) for group in (ORDER_PRESERVING, OTHERS)]
    return Finding(f"{means[0]:.2f} against {means[1]:.2f}", means[0] < means[1])


def fit_time(table: StudyTable, method: str, limit: float) -> Finding:
    """Ask whether the longest fit of a method stays under a limit."""
    if method not in table.methods:
        return NOTHING
    longest = float(table.seconds((method,))[method].max())
    if math.isnan(longest):
        return NOTHING
    return Finding(f"longest {format_seconds(longest)} s", longest < limit)


def slower(table: StudyTable, method: str, rivals: Sequence[str]) -> Finding:
    """Ask whether the median fit of a method is longer than those of others."""
    if not {method, *rivals} <= set(table.methods):
        return NOTHING
    medians = table.seconds((method, *rivals)).median()
    if medians.isna().any():
        return NOTHING
    shown = ", ".join(
        f"{method_title(m)} {format_seconds(medians[m])} s" for m in (method, *rivals)
    )
    return Finding(f"median {shown}", all(medians[method] > medians[m] for m in rivals))


def assumption(measured: Measured | None, method: str, name: str) -> Check:
    """Compare one cell of the paper's Table 1 with what was measured."""
    claimed = method in printed.ASSUMPTIONS[name]
    said = Finding("yes" if claimed else "no", None)
    text = f"{method_title(method)}: {name}"
    if measured is None:
        return Check(text, said, NOTHING)
    found = measured.verdicts[name]
    numbers = {
        "order preserving": f"{100 * measured.reversed_share:.2g}% of pairs turned around",
        "permutation invariant": f"largest difference {measured.permuted_gap:.1g}",
        "relaxing category independence": f"best power {measured.power:.3f}, ratios of two outputs "
        f"change by up to {measured.others_gap:.1g}",
    }[name]
    return Check(text, said, Finding(f"{'yes' if found else 'no'} ({numbers})", found == claimed))
