"""The search for segments of rows whose predictions are wrong.

The error of a segment S is the gap sum_S w (y - p), in its own direction. If the predictions are
right, it has the variance v = sum_S w p (1 - p) and the third cumulant sum_S w p (1 - p) (1 - 2 p);
a weight is a repetition. With z = gap / sqrt(v) and the skewness g, its statistic is the normal
score of a gamma variable of this skewness (Wilson and Hilferty),

    6 / g ((1 + g z / 2)^(1/3) - 1) + g / 6,

which is nearly normal also where events are rare. An error of some points stands out most where
predictions are small: so the same is done of sum_S w (y - q) / sqrt(p (1 - p)), and the larger one
counts. Here q is p, and also what has the slope that the labels of all rows ask for and the mean of
p, whichever makes the sum smaller: a wrong shape of all predictions is no error of a segment.

The statistic is compared with the largest of all segments when labels are drawn from the
predictions: the chance that any segment is reported whose predictions are right is then alpha,
however many there are (Westfall and Young). That of two conditions, of which there are more, has to
be larger by a constant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import block_diag, csr_matrix
from scipy.special import expit, ndtr

from calibrant._kernels.metrics import add_pairs
from calibrant._predictions import log_odds
from calibrant._result import Estimate, doc, result
from calibrant._solvers.one_vs_rest import FREE, minimise_logistic
from calibrant._text import p_words
from calibrant.metrics._intervals import share_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from calibrant._predictions import EventRows
    from calibrant._types import Bools, Floats, Wholes
    from calibrant.metrics._segments import BinnedFeature, Condition

N_CANDIDATES = 40  # number of segments that are proposed
N_PER_ROUND = 10  # number of segments proposed before the error of the next is taken away, too
N_RANKED = 100  # number of segments with the largest errors that a round chooses among
MOST_OVERLAP = 0.7  # largest Jaccard index of two proposed segments
MOST_ROWS_COMPARED = 4000  # number of rows by which this index is computed
MOST_FEATURES = 30
"""Number of features whose conditions are combined: those with the largest errors of their own."""

COST_OF_CONDITION = 1.0  # standard deviations that a further condition has to add to an error
SECOND_CONDITION = 0.4  # by how much the statistic of two conditions has to be larger than of one
LARGEST_PART = 0.9  # share of the rows of one condition that a second one may keep at most
UNEXPLAINED = 3.0
"""Standard deviations of error, beside that of segments reported before, to be reported, too."""

MOST_ROWS_DRAWN = 20_000  # rows above which labels of some of them are drawn
N_SEARCHES = 199  # number of draws of labels in which the largest statistic is looked for
LEAST_VARIANCE = 1.0  # variance of a sum at least: that of a few rows is no evidence
SMALLEST_PART = 0.05  # variance of a row that others are divided by, of the mean of all, at least
UNCERTAIN = 2.0  # standard errors of the slope of all predictions that may be none
ENOUGH = 2.0  # standard deviations of its gap from which on small predictions may decide
LARGEST_SKEWNESS = 2.0
ROUNDING = 1e-6  # slack of comparisons of statistics
LEAST_SKEWNESS = 1e-6  # to divide by

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

    def cells(self) -> list[str]:
        """Return the texts of a line of the table."""
        gap = 100 * abs(self.predicted - self.observed.value)
        digits = 0 if gap >= 2 else 1 if gap >= 0.2 else 2
        shares = (f"{100 * share:.{digits}f}" for share in (self.predicted, *self.observed))
        return [f"{self.condition}:", *shares, f"{self.n_rows:,.7g}", p_words(self.p_value)]

    def row(self) -> dict[str, object]:
        """Return all numbers by name, as a row of a table."""
        numbers = (self.predicted, *self.observed, self.n_rows, self.p_value)
        return {"segment": self.condition, **dict(zip(COLUMNS, numbers, strict=True))}


class ProposedSegment(NamedTuple):
    """A segment with a large error, and the sign of it."""

    conditions: tuple[Condition, ...]
    rows: Bools
    sign: float


class RowErrors(NamedTuple):
    """Errors of rows: of labels beside predictions, and what all predictions are wrong in shape."""

    residual: Floats  # w (y - p)
    drift: Floats | None  # w (q - p)
    scale: Floats  # 1 / sqrt(p (1 - p)), bounded
    moments: tuple[Floats, ...]  # variance, third cumulant, and the same of what is scaled

    @classmethod
    def of(cls, events: EventRows, residual: Floats | None = None) -> RowErrors:
        """Return the errors of labels, or those of drawn labels, which have no drift."""
        p, hits, weight = events
        variance = weight * p * (1.0 - p)
        least = SMALLEST_PART * variance.sum() / weight.sum()
        scale = 1.0 / np.sqrt(np.maximum(p * (1.0 - p), max(least, 1e-12)))
        third, drift, wider = variance * (1.0 - 2.0 * p), None, variance
        if residual is None:
            residual, drift = weight * (hits - p), _drift(events)
            q = p + drift / weight  # whose variance is larger where predictions are too extreme
            wider = np.maximum(variance, weight * q * (1.0 - q))
        return cls(residual, drift, scale, (variance, third, wider * scale**2, third * scale**3))

    def gaps(self) -> list[Floats]:
        """Return the error of each row, and what is scaled: it, and without the drift."""
        gaps = [self.residual, self.residual * self.scale]
        if self.drift is not None:
            gaps.append((self.residual - self.drift) * self.scale)
        return gaps

    def statistic(self, rows: Bools, wider: float = 0.0) -> float:
        """Return the statistic of a segment, whose gap may vary more than its predictions say."""
        gaps = [own[rows].sum(keepdims=True) for own in self.gaps()]
        moments = [own[rows].sum(keepdims=True) for own in self.moments]
        moments[0] += wider
        return float(_statistics(gaps, moments)[0])


def _drift(events: EventRows) -> Floats:
    """Return w (q - p), as far as it is certain, with q = expit(a + b x) and the mean of p.

    Here x is the log-odds of p, and b is fitted. An error of some rows may look like a slope: what
    is within UNCERTAIN standard errors of none is none.
    """
    p, hits, weight = events
    x, positives, variance = log_odds(p), weight * hits, weight * p * (1.0 - p)
    nothing: Floats = np.zeros(len(p))
    is_told = np.ptp(x) > 0.0 and variance.any() and 0.0 < positives.sum() < weight.sum()
    if not is_told:
        return nothing
    (b, _), _ = minimise_logistic(x[None], positives, weight - positives, FREE, tol=1e-6)
    squares = variance @ (x - variance @ x / variance.sum()) ** 2
    certain = 1.0 - UNCERTAIN**2 / max((b - 1.0) ** 2 * squares, 1e-12)
    if certain <= 0.0:
        return nothing
    far, total = 1.0 + np.abs((1.0 - b) * x).max(), weight @ p
    a = brentq(lambda a: float(weight @ expit(a + b * x) - total), -far, far)
    drift: Floats = certain * weight * (expit(a + b * x) - p)
    return drift


class _Scan(NamedTuple):
    """All segments of some features: pairs of conditions, and sums over their rows."""

    codes: NDArray[np.int32]  # bins of each row, numbered on from feature to feature
    holds: csr_matrix  # whether each condition (row) holds in each bin
    one: Wholes
    two: Wholes
    moments: list[Floats]

    @classmethod
    def of(
        cls,
        errors: RowErrors,
        weight: Floats,
        features: list[BinnedFeature],
        min_rows: float,
    ) -> _Scan:
        starts = np.cumsum([0, *(own.n_bins for own in features[:-1])])
        codes = np.column_stack([own.codes for own in features]) + starts
        blocks = [np.array([bins for _, bins in own.conditions]) for own in features]
        holds, nothing = csr_matrix(block_diag(blocks), dtype=np.float64), np.empty(0, np.intp)
        scan = cls(codes.astype(np.int32), holds, nothing, nothing, [])
        n_rows, *sums = scan.sums(weight, *errors.moments)
        one, two = _pairs_of_conditions(n_rows, min_rows)
        return scan._replace(one=one, two=two, moments=[own[one, two] for own in sums])

    def sums(self, *terms: Floats) -> list[Floats]:
        """Return sums over the rows where two conditions hold, of every pair of conditions."""
        n = self.holds.shape[1]
        pairs = np.zeros((n, n, len(terms)))
        add_pairs(self.codes, np.column_stack(terms), pairs)
        upper = (pairs[:, :, t] for t in range(len(terms)))
        return [self.holds @ (self.holds @ (own + np.triu(own, 1).T)).T for own in upper]

    def statistics(self, errors: RowErrors) -> Floats:
        """Return the statistic of every segment."""
        gaps = [own[self.one, self.two] for own in self.sums(*errors.gaps())]
        return _statistics(gaps, self.moments)


def _statistics(gaps: Sequence[Floats], moments: Sequence[Floats]) -> Floats:
    """Return the larger of both statistics; of a gap that is no error itself, its own."""
    gap, *scaled = gaps
    sign = np.sign(gap)
    least = sign * np.min([sign * own for own in scaled], axis=0)
    size, other = _normal_scores(gap, *moments[:2]), _normal_scores(least, *moments[2:])
    may_decide = (gap * least > 0.0) & (np.abs(gap) >= ENOUGH * _sd(moments[0]))
    return np.where(may_decide, np.maximum(size, other), size)


def _normal_scores(gap: Floats, variance: Floats, third: Floats) -> Floats:
    """Return nearly normal statistics of gaps, in their own directions."""
    sd = _sd(variance)
    skewness = np.minimum(np.sign(gap) * third / sd**3, LARGEST_SKEWNESS)
    skewness = np.where(np.abs(skewness) < LEAST_SKEWNESS, LEAST_SKEWNESS, skewness)
    root = np.cbrt(np.maximum(1.0 + skewness * np.abs(gap) / sd / 2.0, 0.0))
    score: Floats = 6.0 / skewness * (root - 1.0) + skewness / 6.0
    return score


def find_segments(
    events: EventRows,
    features: list[BinnedFeature],
    largest: Floats,
    alpha: float,
    min_rows: float,
) -> tuple[list[Segment], int]:
    """Return the segments that are wrong, the worst first, and how many were looked at.

    ``largest`` has the largest statistics of drawn labels.
    """
    errors = RowErrors.of(events)
    best = _best_features(features, errors)
    scan = _Scan.of(errors, events.weight, best, min_rows)
    bound = float(np.quantile(largest, 1.0 - alpha))
    wrong = []
    for proposed in _propose(events.weight, errors, best, scan):
        more = SECOND_CONDITION * (len(proposed.conditions) > 1)
        size, segment = _judge(events, errors, proposed, bound + more)
        exceeds = 1 + np.count_nonzero(largest >= size - more - ROUNDING)
        chance = float(min(exceeds / (1 + len(largest)), 2.0 * len(scan.one) * ndtr(-size)))
        if chance <= alpha:
            wrong.append((size, proposed, replace(segment, p_value=chance)))
    return list(_unexplained(errors, wrong)), len(scan.one)


def draw_largest(
    events: EventRows,
    features: list[BinnedFeature],
    min_rows: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return the largest statistic of segments and the largest error of a bin, by draw of labels.

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
    whole = np.floor(weight + 1e-9).astype(np.int64)
    scans: dict[tuple[int, ...], _Scan] = {}
    largest, of_bins = np.empty(N_SEARCHES), np.empty(N_SEARCHES)
    known = RowErrors.of(events, weight * 0.0)
    for draw in range(N_SEARCHES):
        residual = rng.binomial(whole, p) + (rng.random(len(p)) < p) * (weight - whole) - weight * p
        errors = known._replace(residual=residual)
        best = _best_features(features, errors)
        key = tuple(map(id, best))
        if key not in scans:
            scans[key] = _Scan.of(errors, weight, best, min_rows)
        scan = scans[key]
        size = scan.statistics(errors) - SECOND_CONDITION * ((scan.one > 0) & (scan.two > 0))
        largest[draw] = size.max(initial=-1e9)
        of_bins[draw] = largest_error(features, errors, weight, min_rows)
    return largest, of_bins


def _judge(
    events: EventRows, errors: RowErrors, proposed: ProposedSegment, bound: float
) -> tuple[float, Segment]:
    """Return the statistic of a segment and its numbers.

    Its predictions may be wrong in shape but right on average: what is too high for high
    predictions and too low for low ones makes the gap vary more.
    """
    rows = proposed.rows
    p, _, weight = events.take(rows)
    residual, n_rows = errors.residual[rows], float(weight.sum())
    mean = float(weight @ p) / n_rows
    size = errors.statistic(rows, -2.0 * min(float((p - mean) @ residual), 0.0))
    share = min(max(mean + float(residual.sum()) / n_rows, 0.0), 1.0)
    observed = share_interval(share, n_rows, 1.0 - 2.0 * float(ndtr(-bound)))
    return size, Segment(proposed.conditions, mean, observed, n_rows, 1.0)


def _best_features(features: list[BinnedFeature], errors: RowErrors) -> list[BinnedFeature]:
    """Return the features with the largest errors of their own; the first is that of all rows."""
    if len(features) <= MOST_FEATURES + 1:
        return features
    sizes = []
    for own in features[1:]:
        holds = np.array([bins for _, bins in own.conditions], dtype=np.float64)
        gap, spread = (
            holds @ np.bincount(own.codes, terms, own.n_bins)
            for terms in (errors.residual, errors.moments[0])
        )
        sizes.append(float(np.max(np.abs(gap) / _sd(spread))))
    best = np.sort(np.argsort(-np.array(sizes), kind="stable")[:MOST_FEATURES])
    return [features[0], *(features[1 + i] for i in best)]


def _propose(
    weight: Floats, errors: RowErrors, features: list[BinnedFeature], scan: _Scan
) -> list[ProposedSegment]:
    """Return segments with large errors, a few that are not nearly the same in each round.

    Each round takes the error of its first segment away, so that the next one looks elsewhere.
    """
    one, two = scan.one, scan.two
    (gap,) = scan.sums(errors.residual)
    sign, cost = np.sign(gap[one, two]), COST_OF_CONDITION * (np.sign(one) + np.sign(two))
    conditions = [(own.codes, *held) for own in features for held in own.conditions]

    def rows_of(i: int, at: slice) -> Bools:
        held: list[Bools] = [
            bins[codes[at]] for codes, _, bins in (conditions[one[i]], conditions[two[i]])
        ]
        return held[0] & held[1]

    some, every = slice(None, None, 1 + len(weight) // MOST_ROWS_COMPARED), slice(None)
    kept: list[int] = []
    for start in range(0, N_CANDIDATES, N_PER_ROUND):
        size = scan.statistics(errors) - cost
        ranked = [*kept, *np.argsort(-size, kind="stable")[:N_RANKED].tolist()]
        unlike = _unlike([rows_of(i, some) for i in ranked], weight[some])
        kept = [ranked[place] for place in unlike[: start + N_PER_ROUND]]
        if len(kept) > start:
            errors = _without(errors, rows_of(kept[start], every))
    pairs = [(conditions[one[i]][1], conditions[two[i]][1]) for i in kept]
    return [
        ProposedSegment(tuple(filter(None, pair)), rows_of(i, every), float(sign[i]))
        for i, pair in zip(kept, pairs, strict=True)
    ]


def _without(errors: RowErrors, rows: Bools) -> RowErrors:
    """Return errors without that of a segment: a common shift of the log-odds of its rows."""
    shift = errors.residual[rows].sum() / max(errors.moments[0][rows].sum(), LEAST_VARIANCE)
    return errors._replace(
        residual=errors.residual - np.where(rows, shift * errors.moments[0], 0.0)
    )


def _pairs_of_conditions(n_rows: Floats, min_rows: float) -> tuple[Wholes, Wholes]:
    """Return pairs of conditions with enough rows, and fewer than each condition has alone."""
    alone = np.diag(n_rows)
    one, two = np.nonzero(np.triu(n_rows >= min_rows))
    # The first condition is that of all rows, which makes single conditions of pairs with it.
    wider = np.where(one > 0, np.minimum(alone[one], alone[two]), alone[0])
    is_new = (two == 0) | ((one < two) & (n_rows[one, two] < LARGEST_PART * wider))
    return one[is_new], two[is_new]


def _sd(variance: Floats) -> Floats:
    """Return standard deviations, at least that of a single row: one is no evidence."""
    return np.sqrt(np.maximum(variance, LEAST_VARIANCE))


def _unlike(rows: list[Bools], weight: Floats) -> list[int]:
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


def _unexplained(
    errors: RowErrors, wrong: list[tuple[float, ProposedSegment, Segment]]
) -> Iterator[Segment]:
    """Yield segments whose errors those before them do not explain, the largest first."""

    def rank(one: tuple[float, ProposedSegment, Segment]) -> float:
        return one[0] - COST_OF_CONDITION * len(one[1].conditions)

    for _, (_, rows, sign), segment in sorted(wrong, key=rank, reverse=True):
        is_left = sign * errors.residual[rows].sum() > 0.0
        if is_left and errors.statistic(rows) >= UNEXPLAINED:
            yield segment
            errors = _without(errors, rows)


def largest_error(
    features: list[BinnedFeature], errors: RowErrors, weight: Floats, min_rows: float
) -> float:
    """Return the largest error of a bin of enough rows, in its standard deviations."""
    n_rows, gap, variance = (
        np.concatenate([np.bincount(own.codes, terms, own.n_bins) for own in features])
        for terms in (weight, errors.residual, errors.moments[0])
    )
    kept = n_rows >= min(min_rows, n_rows[0])
    return float(np.max(np.abs(gap[kept]) / _sd(variance[kept])))
