"""The search for segments of rows whose predictions are wrong.

The error of a segment S is the gap sum_S w (y - p). If the predictions are right, it has the
variance v = sum_S w p (1 - p) and the third cumulant c = sum_S w p (1 - p) (1 - 2 p); a weight is a
repetition. With z = gap / sqrt(v) in the direction of the error, and g = c / v^(3/2) in it, the
statistic of a segment is

    z - g (z^2 - 1) / 6,

which is nearly normal also where events are rare (Cornish and Fisher). It is compared with the
largest statistic of all segments when labels are drawn from the predictions: the chance that any
segment is reported whose predictions are right is then alpha, however many there are (Westfall and
Young). Half of alpha is for segments of one condition, of which there are fewer.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtr

from calibrant._result import Estimate, doc, result
from calibrant._text import p_words
from calibrant.metrics._features import BinnedFeature, Condition
from calibrant.metrics._intervals import share_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant._predictions import EventRows
    from calibrant._types import Floats, Wholes

N_CANDIDATES = 40  # number of segments that are proposed
N_PER_ROUND = 10  # number of segments proposed before the error of the next is taken away, too
N_RANKED = 100  # number of segments with the largest errors that a round chooses among
MOST_OVERLAP = 0.7  # largest Jaccard index of two proposed segments
MOST_ROWS_COMPARED = 4000  # number of rows by which this index is computed
MOST_FEATURES = 30
"""Number of features whose conditions are combined: those with the largest errors of their own."""

COST_OF_CONDITION = 1.0  # standard deviations that a further condition has to add to an error
LARGEST_PART = 0.9  # share of the rows of one condition that a second one may keep at most
UNEXPLAINED = 3.0
"""Standard deviations of error, beside that of segments reported before, to be reported, too."""

MOST_CELLS_DRAWN = 1 << 22  # number of labels that are drawn at a time
MOST_ROWS_DRAWN = 20_000
"""Number of rows above which sums of large variance are drawn from a normal distribution, and
largest statistics by the labels of some of the rows."""

N_SEARCHES = 300  # number of draws of labels in which the largest statistic is looked for
NORMAL_VARIANCE = 50.0  # variance of a sum from which on it counts as large
LEAST_VARIANCE = 1.0  # variance of a sum at least: that of a few rows is no evidence
ROUNDING = 1e-6  # slack of comparisons of statistics
TINY = 1e-300  # least weight to divide by

COLUMNS = ("predicted", "observed", "observed_low", "observed_high", "n_rows", "p_value")
SENTENCE = "{} says {} %, is {} % ({} to {}), {} rows, {}"


@result()
class Segment:
    """One segment of a :class:`SegmentTable`; ``print`` of the table shows it in a line."""

    conditions: tuple[Condition, ...] = doc("Feature, operator and value of each condition.")
    predicted: float = doc("Mean prediction.")
    observed: Estimate = doc("Share of rows whose event happened; intervals of all hold at once.")
    n_rows: float = doc("Weight of the rows.")
    p_value: float = doc("P-value, corrected for all segments that were tested.")

    @property
    def condition(self) -> str:
        """The conditions in words."""
        return " and ".join(map(str, self.conditions)) or "all rows"

    def describe(self) -> str:
        """Say what is predicted and what is observed."""
        return SENTENCE.format(*self.cells())

    def cells(self) -> list[str]:
        """Return the texts of a line of the table."""
        gap = 100 * abs(self.predicted - self.observed.value)
        digits = 0 if gap >= 2 else 1 if gap >= 0.2 else 2
        shares = (f"{100 * share:.{digits}f}" for share in (self.predicted, *self.observed))
        return [f"{self.condition}:", *shares, f"{self.n_rows:,.7g}", p_words(self.p_value)]

    def row(self) -> dict[str, Any]:
        """Return all numbers by name, as a row of a table."""
        numbers = (self.predicted, *self.observed, self.n_rows, self.p_value)
        return {"segment": self.condition, **dict(zip(COLUMNS, numbers, strict=True))}


class ProposedSegment(NamedTuple):
    """A segment with a large error, and the sign of it."""

    conditions: tuple[Condition, ...]
    rows: NDArray[np.bool_]
    sign: float


class _Scan(NamedTuple):
    """All segments of some features: pairs of conditions, and sums over their rows."""

    features: list[BinnedFeature]
    one: Wholes
    two: Wholes
    variance: Floats
    third: Floats
    is_pair: NDArray[np.bool_]  # whether a segment has two conditions

    @classmethod
    def of(
        cls, events: EventRows, features: list[BinnedFeature], min_rows: float, max_conditions: int
    ) -> _Scan:
        p, _, weight = events
        variance = weight * p * (1.0 - p)
        sums = _sums_of_conditions(features, weight, variance, variance * (1.0 - 2.0 * p))
        one, two = _pairs_of_conditions(sums[0], min_rows, max_conditions)
        spread, third = (own[one, two] for own in sums[1:])
        return cls(features, one, two, spread, third, (one > 0) & (two > 0))

    def statistics(self, residual: Floats) -> Floats:
        """Return the statistic of every segment."""
        (gap,) = _sums_of_conditions(self.features, residual)
        return _normal_scores(gap[self.one, self.two], self.variance, self.third)


def _normal_scores(gap: Floats, variance: Floats, third: Floats) -> Floats:
    """Return nearly normal statistics of gaps, in their own directions."""
    sd = _sd(variance)
    z = np.abs(gap) / sd
    skewness = np.sign(gap) * third / sd**3
    # Beyond its maximum in z the expansion has no meaning: it is held there.
    bend = 3.0 / np.maximum(skewness, TINY)
    z = np.minimum(z, np.where(skewness > 0.0, bend, np.inf))
    score: Floats = z - skewness * (z**2 - 1.0) / 6.0
    return score


def find_segments(
    events: EventRows,
    features: list[BinnedFeature],
    *,
    alpha: float,
    min_rows: float,
    max_conditions: int,
    rng: np.random.Generator,
) -> tuple[list[Segment], int]:
    """Return the segments that are wrong, the worst first, and how many were looked at."""
    largest = _draw_largest(events, features, min_rows, max_conditions, rng)
    p, hits, weight = events
    best = _best_features(features, weight * (hits - p), weight * p * (1.0 - p))
    scan = _Scan.of(events, best, min_rows, max_conditions)
    n_segments = np.bincount(scan.is_pair.astype(np.int64), minlength=2)
    # The statistic that only half of alpha of all draws reach, for one condition and for two.
    bounds = np.quantile(largest, 1.0 - alpha / 2.0, axis=0)
    wrong = []
    for proposed in _propose(events, scan):
        family = int(len(proposed.conditions) > 1)
        size, segment = _judge(events, proposed, float(bounds[family]))
        exceeds = 1 + np.count_nonzero(largest[:, family] >= size - ROUNDING)
        chance = min(exceeds / (1 + len(largest)), n_segments[family] * ndtr(-size))
        if chance <= alpha / 2.0:
            wrong.append((size, proposed, replace(segment, p_value=float(min(2.0 * chance, 1.0)))))
    return list(_unexplained(events, wrong)), int(n_segments.sum())


def _draw_largest(
    events: EventRows,
    features: list[BinnedFeature],
    min_rows: float,
    max_conditions: int,
    rng: np.random.Generator,
) -> Floats:
    """Return the largest statistics of segments of one condition and of two, by draw of labels.

    Of many rows some are enough: the statistics are nearly normal for any number of them, and
    depend on each other in the same way.
    """
    if len(events.values) > MOST_ROWS_DRAWN:
        some = np.sort(rng.choice(len(events.values), MOST_ROWS_DRAWN, replace=False))
        total = float(events.weight.sum())
        events = events.take(some)
        features = [own._replace(codes=own.codes[some]) for own in features]
        min_rows *= float(events.weight.sum()) / total
    p, _, weight = events
    variance, whole = weight * p * (1.0 - p), np.floor(weight + 1e-9).astype(np.int64)
    scans: dict[tuple[int, ...], _Scan] = {}
    largest = np.full((N_SEARCHES, 2), -np.inf)
    for draw in range(N_SEARCHES):
        residual = rng.binomial(whole, p) + (rng.random(len(p)) < p) * (weight - whole) - weight * p
        best = _best_features(features, residual, variance)
        key = tuple(map(id, best))
        if key not in scans:
            scans[key] = _Scan.of(events, best, min_rows, max_conditions)
        scan = scans[key]
        statistic = scan.statistics(residual)
        for family in (False, True):
            largest[draw, int(family)] = statistic[scan.is_pair == family].max(initial=-np.inf)
    bounded: Floats = np.maximum(largest, -1e9)  # where there are no segments of two conditions
    return bounded


def _judge(events: EventRows, proposed: ProposedSegment, bound: float) -> tuple[float, Segment]:
    """Return the statistic of a segment and its numbers.

    Its predictions may be wrong in shape but right on average: what is too high for high
    predictions and too low for low ones makes the gap vary more.
    """
    p, hits, weight = events.take(proposed.rows)
    n_rows, spread = float(weight.sum()), weight * p * (1.0 - p)
    mean, residual = float(weight @ p) / n_rows, weight * (hits - p)
    gap, variance = float(residual.sum()), float(spread.sum())
    wider = variance - 2.0 * min(float((p - mean) @ residual), 0.0)
    third = float(spread @ (1.0 - 2.0 * p))
    size = _normal_scores(*(np.array([number]) for number in (gap, wider, third)))[0]
    share = min(max(mean + gap / n_rows, 0.0), 1.0)
    observed = share_interval(share, n_rows, 1.0 - 2.0 * float(ndtr(-bound)))
    return float(size), Segment(proposed.conditions, mean, observed, n_rows, 1.0)


def _best_features(
    features: list[BinnedFeature], residual: Floats, variance: Floats
) -> list[BinnedFeature]:
    """Return the features with the largest errors of their own; the first is that of all rows."""
    if len(features) <= MOST_FEATURES + 1:
        return features
    sizes = []
    for own in features[1:]:
        gap, spread = (np.diag(s) for s in _sums_of_conditions([own], residual, variance))
        sizes.append(float(np.max(np.abs(gap) / _sd(spread))))
    best = np.sort(np.argsort(-np.array(sizes), kind="stable")[:MOST_FEATURES])
    return [features[0], *(features[1 + i] for i in best)]


def merge_rows(
    events: EventRows, features: list[BinnedFeature]
) -> tuple[EventRows, list[BinnedFeature]]:
    """Return rows in the order of their content; those of equal content are one."""
    p, hits, _ = events
    keys = [hits, p, *(own.codes for own in features)]
    order = np.lexsort(keys)
    is_new = np.append(True, np.any([np.diff(key[order]) != 0 for key in keys], axis=0))
    rows = order[is_new]
    weight = np.add.reduceat(events.weight[order], np.flatnonzero(is_new))
    # All rows are a feature of one bin, so that a single condition is a pair of conditions.
    every = BinnedFeature(np.zeros(len(rows), np.intp), 1, [(None, np.ones(1, dtype=bool))])
    kept = [own._replace(codes=own.codes[rows]) for own in features]
    return events.take(rows)._replace(weight=weight), [every, *kept]


def _propose(events: EventRows, scan: _Scan) -> list[ProposedSegment]:
    """Return segments with large errors, a few that are not nearly the same in each round.

    Each round takes the error of its first segment away, so that the next one looks elsewhere.
    """
    p, hits, weight = events
    residual, variance = weight * (hits - p), weight * p * (1.0 - p)
    one, two = scan.one, scan.two
    (gap,) = _sums_of_conditions(scan.features, residual)
    sign, cost = np.sign(gap[one, two]), COST_OF_CONDITION * (np.sign(one) + np.sign(two))
    conditions = [(own.codes, *held) for own in scan.features for held in own.conditions]

    def rows_of(i: int, at: slice) -> NDArray[np.bool_]:
        held: list[NDArray[np.bool_]] = [
            bins[codes[at]] for codes, _, bins in (conditions[one[i]], conditions[two[i]])
        ]
        return held[0] & held[1]

    some, every = slice(None, None, 1 + len(p) // MOST_ROWS_COMPARED), slice(None)
    kept: list[int] = []
    for start in range(0, N_CANDIDATES, N_PER_ROUND):
        size = _normal_scores(gap[one, two], scan.variance, scan.third) - cost
        ranked = [*kept, *np.argsort(-size, kind="stable")[:N_RANKED].tolist()]
        unlike = _unlike([rows_of(i, some) for i in ranked], weight[some])
        kept = [ranked[place] for place in unlike[: start + N_PER_ROUND]]
        if len(kept) > start:
            rows = rows_of(kept[start], every)
            shift = residual[rows].sum() / max(variance[rows].sum(), LEAST_VARIANCE)
            residual[rows] -= shift * variance[rows]
            (gap,) = _sums_of_conditions(scan.features, residual)
    pairs = [(conditions[one[i]][1], conditions[two[i]][1]) for i in kept]
    return [
        ProposedSegment(tuple(filter(None, pair)), rows_of(i, every), float(sign[i]))
        for i, pair in zip(kept, pairs, strict=True)
    ]


def _sums_of_conditions(features: list[BinnedFeature], *terms: Floats) -> list[Floats]:
    """Return sums over the rows where two conditions hold, of every pair of conditions."""
    holds = block_diag(*(np.transpose([bins for _, bins in own.conditions]) for own in features))
    return [holds.T @ _pair_sums(features, own) @ holds for own in terms]


def _pair_sums(features: list[BinnedFeature], terms: Floats) -> Floats:
    """Return sums over the rows of every pair of bins, of one feature or of two."""
    starts = np.cumsum([0, *(own.n_bins for own in features)])
    sums = np.zeros((starts[-1], starts[-1]))
    for i, j in combinations_with_replacement(range(len(features)), 2):
        shape = features[i].n_bins, features[j].n_bins
        pair = features[i].codes * shape[1] + features[j].codes
        block = np.bincount(pair, terms, shape[0] * shape[1]).reshape(shape)
        sums[starts[i] : starts[i + 1], starts[j] : starts[j + 1]] = block
        sums[starts[j] : starts[j + 1], starts[i] : starts[i + 1]] = block.T
    return sums


def _pairs_of_conditions(
    n_rows: Floats, min_rows: float, max_conditions: int
) -> tuple[Wholes, Wholes]:
    """Return pairs of conditions with enough rows, and fewer than each condition has alone."""
    alone = np.diag(n_rows)
    one, two = np.nonzero(np.triu(n_rows >= min_rows))
    # The first condition is that of all rows, which makes single conditions of pairs with it.
    wider = np.where(one > 0, np.minimum(alone[one], alone[two]), alone[0])
    is_new = (two == 0) | ((one < two) & (n_rows[one, two] < LARGEST_PART * wider))
    is_new &= (one == 0) | (max_conditions > 1)
    return one[is_new], two[is_new]


def _sd(variance: Floats) -> Floats:
    """Return standard deviations, at least that of a single row: one is no evidence."""
    return np.sqrt(np.maximum(variance, LEAST_VARIANCE))


def _unlike(rows: list[NDArray[np.bool_]], weight: Floats) -> list[int]:
    """Return places of segments that share few rows with each one kept before."""
    members = np.array(rows, dtype=np.float64).reshape(len(rows), len(weight))
    common = (members * weight) @ members.T
    size = np.diag(common)
    is_like = common > MOST_OVERLAP * (size[:, None] + size - common)
    kept: list[int] = []
    for place in range(len(rows)):
        if not is_like[place, kept].any():
            kept.append(place)
    return kept


def _null_sums(events: EventRows, rows: NDArray[np.bool_], n_draws: int, rng: Any) -> Floats:
    """Return sums of y - p over the rows of each segment, with y drawn from p."""
    p, _, weight = events
    variance = weight * p * (1.0 - p)
    members = rows.astype(np.float32)
    if len(p) > MOST_ROWS_DRAWN and (members @ variance).min() >= NORMAL_VARIANCE:
        covariance = (members * variance.astype(np.float32)) @ members.T
        values, vectors = np.linalg.eigh(covariance.astype(np.float64))
        noise = rng.standard_normal((n_draws, len(values)))
        drawn: Floats = noise @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return drawn
    whole = np.where(weight > 1.0, np.floor(weight + 1e-9), 0.0).astype(np.int64)
    sums = np.empty((n_draws, len(rows)))
    step = max(1, MOST_CELLS_DRAWN // len(p))
    for start in range(0, n_draws, step):
        size = min(step, n_draws - start), len(p)
        hits = (rng.random(size) < p) * (weight - whole)
        if whole.any():
            hits += rng.binomial(whole, p, size)
        sums[start : start + step] = (hits - weight * p).astype(np.float32) @ members.T
    return sums


def _unexplained(
    events: EventRows, wrong: list[tuple[float, ProposedSegment, Segment]]
) -> Iterator[Segment]:
    """Yield segments whose errors those before them do not explain, the largest first."""
    p, hits, weight = events
    residual, variance = weight * (hits - p), weight * p * (1.0 - p)

    def rank(one: tuple[float, ProposedSegment, Segment]) -> float:
        return one[0] - COST_OF_CONDITION * len(one[1].conditions)

    for _, (_, rows, sign), segment in sorted(wrong, key=rank, reverse=True):
        gap, spread = residual[rows].sum(), variance[rows].sum()
        if sign * gap >= UNEXPLAINED * _sd(spread):
            yield segment
            # A common shift of the log-odds of these rows.
            residual -= np.where(rows, gap / max(spread, LEAST_VARIANCE) * variance, 0.0)


def largest_error(
    events: EventRows, features: list[BinnedFeature], min_rows: float, n_draws: int, rng: Any
) -> tuple[float, Estimate, float]:
    """Return the largest error of a bin, what drawn labels have instead, and its p-value."""
    p, hits, weight = events
    n_rows, gap, variance = (
        np.concatenate([np.bincount(own.codes, terms, own.n_bins) for own in features])
        for terms in (weight, weight * (hits - p), weight * p * (1.0 - p))
    )
    kept = n_rows >= min(min_rows, n_rows[0])
    gap, variance = gap[kept], variance[kept]
    if len(p) > MOST_ROWS_DRAWN and variance.min() >= NORMAL_VARIANCE:
        # Sidak's inequality: normal variables that depend on each other have no larger maximum.
        null = rng.standard_normal((n_draws, len(gap)))
    else:
        bins = [(own.codes, i) for own in features for i in range(own.n_bins)]
        rows = np.array([bins[k][0] == bins[k][1] for k in np.flatnonzero(kept)])
        null = _null_sums(events, rows, n_draws, rng) / _sd(variance)
    error, largest = float(np.max(np.abs(gap) / _sd(variance))), np.abs(null).max(axis=1)
    low, high = np.quantile(largest, [0.05, 0.95]).tolist()
    chance = (1 + np.count_nonzero(largest >= error - ROUNDING)) / (1 + n_draws)
    return error, Estimate(float(largest.mean()), low, high), float(chance)
