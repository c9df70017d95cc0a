"""The search for segments: one half of the rows proposes them, and the other half tests them.

The error of a segment S is the gap sum_S w (y - p). If the predictions are right, its variance is
sum_S w p (1 - p); a weight is a repetition.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from calibrant._result import Estimate, doc, result
from calibrant._text import p_words
from calibrant.metrics._features import BinnedFeature, Condition
from calibrant.metrics._intervals import share_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant._predictions import EventRows

N_CANDIDATES = 40  # number of segments that a half proposes
N_PER_ROUND = 10  # number of segments proposed before the error of the next is taken away, too
N_RANKED = 100  # number of segments with the largest errors that a round chooses among
MOST_OVERLAP = 0.7  # largest Jaccard index of two proposed segments
MOST_ROWS_COMPARED = 4000  # number of rows by which this index is computed
MOST_FEATURES = 30
"""Number of features whose conditions are combined: those with the largest errors of their own."""

COST_OF_CONDITION = 1.0  # standard deviations that a further condition has to add to an error
LARGEST_PART = 0.9  # share of the rows of one condition that a second one may keep at most
UNEXPLAINED = 2.0
"""Standard deviations of error, beside that of segments reported before, to be reported, too."""

MOST_CELLS_DRAWN = 1 << 22  # number of labels that are drawn at a time
MOST_ROWS_DRAWN = 20_000
"""Number of rows above which sums of large variance are drawn from a normal distribution."""

NORMAL_VARIANCE = 50.0  # variance of a sum from which on it counts as large
LEAST_VARIANCE = 1.0  # variance of a sum at least: that of a few rows is no evidence
ROUNDING = 1e-6  # slack of comparisons of statistics
TINY = 1e-300  # least weight to divide by

COLUMNS = ("predicted", "observed", "observed_low", "observed_high", "n_rows", "p_value")
SENTENCE = "{} says {} %, is {} % ({} to {}), {} rows, {}"


@result()
class Segment:
    """One segment of a :class:`SegmentTable`; its numbers are those of the rows that tested it."""

    conditions: tuple[Condition, ...] = doc("Feature, operator and value of each condition.")
    predicted: float = doc("Mean prediction.")
    observed: Estimate = doc("Share of rows whose event happened, with Wilson's interval.")
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
    """A segment that one half of the rows proposes, and the sign of its error there."""

    conditions: tuple[Condition, ...]
    rows: NDArray[np.bool_]
    sign: float


class TestedSegment(NamedTuple):
    """A proposed segment, the half that tested it, and what it found."""

    proposed: ProposedSegment
    half: int
    statistic: float
    result: Segment


def find_segments(
    events: EventRows,
    features: list[BinnedFeature],
    *,
    alpha: float,
    min_rows: float,
    max_conditions: int,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[list[Segment], int]:
    """Return the segments that are wrong, the worst first, and how many were tested."""
    halves = _deal(events.weight, rng)
    wrong: list[TestedSegment] = []
    n_tested = 0
    for half, other in enumerate(halves[::-1]):
        rows = events._replace(weight=other)
        proposed = _propose(rows, features, min_rows / 2, max_conditions)
        n_tested += len(proposed)
        rows = events._replace(weight=halves[half])
        tested = _test(rows, proposed, half, 1.0 - alpha, n_draws, rng)
        wrong += [segment for segment in tested if segment.result.p_value <= alpha]
    return list(_unexplained(events, halves, wrong)), n_tested


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


def _deal(weight: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the weights of two halves: each repetition of a row goes to one of them."""
    whole = np.floor(weight + 1e-9)
    rest = np.maximum(weight - whole, 0.0)
    first = rng.binomial(whole.astype(np.int64), 0.5) + rest * (rng.random(len(weight)) < 0.5)
    return first, np.maximum(weight - first, 0.0)


def _propose(
    events: EventRows, features: list[BinnedFeature], min_rows: float, max_conditions: int
) -> list[ProposedSegment]:
    """Return segments with large errors, a few that are not nearly the same in each round.

    Each round takes the error of its first segment away, so that the next one looks elsewhere.
    """
    p, hits, weight = events
    residual, variance = weight * (hits - p), weight * p * (1.0 - p)
    if len(features) > MOST_FEATURES + 1:
        alone = [_sums_of_conditions([own], residual, variance) for own in features[1:]]
        sizes = [np.max(np.abs(np.diag(gap)) / _sd(np.diag(spread))) for gap, spread in alone]
        best = np.sort(np.argsort(-np.array(sizes), kind="stable")[:MOST_FEATURES])
        features = [features[0], *(features[1 + i] for i in best)]
    n_rows, gap, spread = _sums_of_conditions(features, weight, residual, variance)
    one, two = _pairs_of_conditions(n_rows, min_rows, max_conditions)
    sd, sign = _sd(spread[one, two]), np.sign(gap[one, two])
    cost = COST_OF_CONDITION * (np.sign(one) + np.sign(two))
    conditions = [(own.codes, *held) for own in features for held in own.conditions]

    def rows_of(i: int, at: slice) -> NDArray[np.bool_]:
        held: list[NDArray[np.bool_]] = [
            bins[codes[at]] for codes, _, bins in (conditions[one[i]], conditions[two[i]])
        ]
        return held[0] & held[1]

    some, every = slice(None, None, 1 + len(p) // MOST_ROWS_COMPARED), slice(None)
    kept: list[int] = []
    for start in range(0, N_CANDIDATES, N_PER_ROUND):
        size = np.abs(gap[one, two]) / sd - cost
        ranked = [*kept, *np.argsort(-size, kind="stable")[:N_RANKED].tolist()]
        unlike = _unlike([rows_of(i, some) for i in ranked], weight[some])
        kept = [ranked[place] for place in unlike[: start + N_PER_ROUND]]
        if len(kept) > start:
            rows = rows_of(kept[start], every)
            shift = residual[rows].sum() / max(variance[rows].sum(), LEAST_VARIANCE)
            residual[rows] -= shift * variance[rows]
            (gap,) = _sums_of_conditions(features, residual)
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


def _test(
    events: EventRows,
    proposed: list[ProposedSegment],
    half: int,
    level: float,
    n_draws: int,
    rng: Any,
) -> Iterator[TestedSegment]:
    """Yield the numbers of each segment on rows that did not propose it.

    The statistic is the gap in the direction of the proposal, divided by its standard deviation,
    where the predictions of the segment may be wrong in shape but right on average.
    """
    if not proposed:
        return
    used = events.weight > 0
    p, hits, weight = own = events.take(used)
    rows = np.array([candidate.rows[used] for candidate in proposed])
    sign = np.array([candidate.sign for candidate in proposed])
    residual = weight * (hits - p)
    terms = np.stack([weight, weight * p, residual, p * residual, weight * p * (1.0 - p)], axis=1)
    n_rows, said, gap, product, variance = (rows.astype(np.float64) @ terms).T
    mean = said / np.maximum(n_rows, TINY)
    # What is too high for high predictions and too low for low ones makes the sum vary more.
    wider = variance - 2.0 * np.minimum(product - mean * gap, 0.0)
    null = _null_sums(own, rows, n_draws, rng) * (sign / _sd(variance))
    statistic = sign * gap / _sd(wider)
    p_value = np.minimum(2.0 * _step_down(statistic, null), 1.0)  # of two halves
    for i, candidate in enumerate(proposed):
        share = min(max((said[i] + gap[i]) / max(n_rows[i], TINY), 0.0), 1.0)
        observed = share_interval(float(share), float(n_rows[i]), level)
        numbers = float(mean[i]), observed, float(n_rows[i]), float(p_value[i])
        segment = Segment(candidate.conditions, *numbers)
        yield TestedSegment(candidate, half, float(statistic[i]), segment)


def _step_down(statistic: Floats, null: Floats) -> Floats:
    """Return p-values of the largest statistics, corrected for all (Westfall and Young 1993)."""
    order = np.argsort(-statistic, kind="stable")
    largest = np.maximum.accumulate(null[:, order[::-1]], axis=1)[:, ::-1]
    exceeds = np.count_nonzero(largest >= statistic[order] - ROUNDING, axis=0)
    adjusted = np.empty(len(statistic))
    adjusted[order] = np.maximum.accumulate((1 + exceeds) / (1 + len(null)))
    return adjusted


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
    events: EventRows, halves: tuple[Floats, Floats], wrong: list[TestedSegment]
) -> Iterator[Segment]:
    """Yield segments whose errors those before them do not explain, the largest first.

    What is left of the error is judged by the half that tested a segment.
    """
    p, hits, _ = events
    residual, variance = np.stack(halves) * (hits - p), np.stack(halves) * (p * (1.0 - p))

    def size(tested: TestedSegment) -> float:
        return tested.statistic - COST_OF_CONDITION * len(tested.proposed.conditions)

    for segment in sorted(wrong, key=size, reverse=True):
        (_, rows, sign), half = segment.proposed, segment.half
        gap, spread = residual[:, rows].sum(axis=1), variance[:, rows].sum(axis=1)
        if sign * gap[half] >= UNEXPLAINED * _sd(spread)[half]:
            yield segment.result
            # A common shift of the log-odds of these rows.
            shift = gap.sum() / max(spread.sum(), LEAST_VARIANCE)
            residual -= np.where(rows, shift * variance, 0.0)


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
