"""``calibration_segments``: rows, told by their features, whose predictions are wrong."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from calibrant import _threads as threads
from calibrant import errors
from calibrant._extras import needed
from calibrant._gate import check_number, columns_by_name
from calibrant._predictions import EventRows, Predictions, column_of, name_of, read
from calibrant._result import Estimate, Result, doc, result
from calibrant._text import p_words
from calibrant.metrics._features import BinnedFeature, Condition, bin_feature
from calibrant.metrics._intervals import generator, share_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from calibrant._maps.base import Floats, Wholes

N_DRAWS, MOST_CELLS_DRAWN = 1000, 1 << 22
"""Draws of labels from the predictions, and how many labels are drawn at a time."""

MOST_ROWS_DRAWN, NORMAL_VARIANCE = 20_000, 50.0
"""Of more rows, sums of at least this variance are drawn from a normal distribution."""

N_CANDIDATES, N_PER_ROUND, N_RANKED, MOST_OVERLAP = 40, 10, 100, 0.7
"""Segments that a half proposes, in all and in a round, among so many with the largest errors;
largest Jaccard index of any two of them."""

MOST_FEATURES = 30
"""Features whose conditions are combined: those with the largest errors of their own."""

UNEXPLAINED = 2.0
"""Error beside that of segments reported before, in standard deviations, to be reported, too."""

MOST_ROWS_COMPARED, MOST_REPEATS = 4000, 1e9
"""Rows by which proposed segments are compared; largest weight of a row."""

LEAST_VARIANCE, ROUNDING, TINY = 1.0, 1e-6, 1e-300
"""Variance of a sum over rows at least; slack of comparisons; least weight to divide by."""

COST_OF_CONDITION, LARGEST_PART = 1.0, 0.9
"""Standard deviations that a further condition has to add; share of rows that it may keep."""

SHARE_SEEN, SIZE_SEEN = 0.1, 7.0
"""Share of the rows, and error in standard deviations that four of five times is found there."""

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


@result()
class SegmentTable(Result):
    """Result of :func:`calibration_segments`, the worst segment first; ``print`` shows a table."""

    segments: tuple[Segment, ...] = doc("Segments whose predictions are wrong.")
    kind: Any = doc("Label of the class, or 'confidence'.")
    n_rows: float = doc("Weight of all rows.")
    n_tested: int = doc("Number of segments that were tested.")
    alpha: float = doc("Largest chance that any segment is reported whose predictions are right.")
    detectable: float = doc("Error in a tenth of the rows that is found four of five times.")
    error: float = doc("Largest error of a bin of a feature, in its standard deviations.")
    error_null: Estimate = doc("The same of right predictions: its mean, and 5 and 95 % quantile.")
    error_p_value: float = doc("P-value of the error: whether it is more than chance.")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers and lists."""
        rows = [
            g.row() | {"conditions": [c._asdict() for c in g.conditions]} for g in self.segments
        ]
        return Result.to_dict(self) | {"segments": rows}

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each segment."""
        try:
            import pandas as pd
        except ImportError as error:
            raise needed(error, "to_frame", "cli") from error
        return pd.DataFrame([own.row() for own in self.segments], columns=["segment", *COLUMNS])

    def describe(self) -> list[str]:
        """Say how many segments were found, how small an error would be, and the largest error."""
        n, (mean, _, high) = len(self.segments), self.error_null
        counted = (
            f"{n or 'No'} segment{'s' * (n != 1)} of {self.n_tested} tested, "
            f"{self.n_rows:,.7g} rows. An error of {100 * self.detectable:.2g} points in a tenth "
            "of the rows is found four of five times."
        )
        largest = (
            f"Largest error of a bin: {self.error:.1f} standard deviations, {mean:.1f} by chance "
            f"(95 %: {high:.1f}), {p_words(self.error_p_value)}."
        )
        return [counted, largest]

    def __str__(self) -> str:
        columns = [list(column) for column in zip(*(g.cells() for g in self.segments), strict=True)]
        widths = [max(map(len, column)) for column in columns]
        lines = []
        for name, *numbers in zip(*columns, strict=True):
            aligned = map(str.rjust, numbers, widths[1:])
            lines.append(SENTENCE.format(name.ljust(widths[0]), *aligned))
        return "\n".join([*lines, *self.describe()])


class ProposedSegment(NamedTuple):
    """A segment that one half of the rows proposes, and the sign of its error there."""

    conditions: tuple[Condition, ...]
    rows: NDArray[np.bool_]
    sign: float


Halves = tuple["Floats", "Floats"]
"""Weights of the rows of two halves."""

Tested = tuple[float, int, ProposedSegment, Segment]
"""Statistic of a candidate, the half that tested it, and what it is."""


def calibration_segments(
    y_true: ArrayLike | Predictions,
    y_proba: ArrayLike | None = None,
    features: Any = None,
    *,
    kind: Any = None,
    alpha: float = 0.05,
    max_conditions: int = 2,
    min_rows: float = 50,
    random_state: Any = 0,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    pos_label: Any = None,
) -> SegmentTable:
    """Find segments of rows, told by their features, whose predictions are wrong.

    A segment is all rows, or those that meet one or two conditions, such as ``plan = prepaid and
    age < 25``. One half of the rows proposes the segments with the largest errors, and the other
    half tests whether predicted and observed shares differ; then the halves change places.

    Parameters
    ----------
    y_true, y_proba : array-like of shape (n_rows,) and of shape (n_rows, n_classes)
        Labels and predicted probabilities, as in :func:`evaluate`.
    features : array-like or data frame of shape (n_rows, n_features)
        Numbers, text, categories, truth values or dates. What is missing (NaN, None) is a value of
        its own; a column that is missing throughout is ignored.
    kind : None, "confidence" or a label, default=None
        Whether the largest probability of each row, or the probability of one class, is compared
        with labels. None is the positive (second) class of two, and the confidence for more.
    alpha : float, default=0.05
        Largest chance that any segment is reported whose predictions are right.
    max_conditions : {1, 2}, default=2
        Number of conditions of a segment at most.
    min_rows : float, default=50
        Weight of a segment at least.
    random_state : None, int, SeedSequence or Generator, default=0
        Seed of the halves and of the labels that are drawn; the order of rows changes nothing.
    sample_weight : array-like of shape (n_rows,), optional
        Sample weights. A weight is a repetition: weight 2 counts a row twice, also in tests.
    classes, pos_label : array-like of shape (n_classes,) and object, optional
        Label of each column, and of a single column, as in :func:`evaluate`.

    Returns
    -------
    SegmentTable
        With the fields segments, kind, n_rows, n_tested, alpha, detectable, error, error_null and
        error_p_value. A segment has conditions, predicted, observed, n_rows and p_value.

    Notes
    -----
    The statistic of a segment S is sum (y - p) / sd over its rows, in the direction of the error
    in the other half, with sd^2 = sum p (1 - p) - 2 min(0, sum (p - mean p) (y - p)): the variance
    if S is right on average, also where high predictions in it are too high and low ones too low.
    Labels drawn from the predictions give the joint distribution of all statistics, also of rare
    classes, and p-values by Westfall and Young's step-down method, times two for two halves.

    ``error`` is the largest ``|sum (y - p)| / sqrt(sum p (1 - p))`` of all bins of single features:
    intervals between quantiles, and categories. It is compared with that of drawn labels.

    References
    ----------
    .. [1] P. H. Westfall and S. S. Young, "Resampling-Based Multiple Testing", Wiley, 1993.
    .. [2] U. Hébert-Johnson, M. P. Kim, O. Reingold and G. N. Rothblum, "Multicalibration:
       Calibration for the (Computationally-Identifiable) Masses", ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import calibration_segments
    >>> rng = np.random.default_rng(0)
    >>> age, plan = rng.integers(18, 80, 8000), rng.choice(["prepaid", "contract"], 8000)
    >>> p = rng.uniform(0.05, 0.2, 8000)
    >>> y = rng.random(8000) < p + 0.15 * ((plan == "prepaid") & (age < 30))
    >>> result = calibration_segments(y, p, list(zip(age.tolist(), plan.tolist())))
    >>> result.segments[0].condition
    'x0 < 30 and x1 = prepaid'
    """
    check_number("alpha", alpha, low=1e-4, high=1.0)
    check_number("max_conditions", max_conditions, low=1, high=2, whole=True)
    check_number("min_rows", min_rows, low=1.0)
    source = read(y_true, y_proba, sample_weight, classes, pos_label)
    if not isinstance(source, Predictions):
        raise errors.ContainerError("y_proba is in chunks, which have no features; compute it")
    column, used = column_of(source.classes, kind), np.ones(source.n_rows, dtype=bool)
    if sample_weight is not None:  # rows without a weight are not there
        used = np.asarray(sample_weight) > 0
    if source.weight.max() > MOST_REPEATS:
        raise errors.WeightError(
            f"the largest of sample_weight is {source.weight.max():g}; a weight is a repetition of "
            f"its row here, at most {MOST_REPEATS:g}: divide by their mean if they are not counts"
        )
    read_columns = columns_by_name(features, len(used), "y_proba")
    binned = [
        bin_feature(name, own[used], source.weight, min_rows) for name, own in read_columns.items()
    ]
    known = [own for own in binned if own is not None and own.conditions]
    events, merged = _merge_rows(source.events(column), known)
    p, _, weight = events
    rng, n_draws = generator(random_state), max(N_DRAWS, math.ceil(20 / alpha))
    found: list[Tested] = []
    n_tested = 0
    with threads.few_blas_threads(0):  # whose number would change the last bits
        halves = _deal(weight, rng)
        for half, other in enumerate(halves[::-1]):
            own = events._replace(weight=other)
            proposed = _propose(own, merged, min_rows / 2, int(max_conditions))
            n_tested += len(proposed)
            tests = _test(events._replace(weight=halves[half]), proposed, 1.0 - alpha, n_draws, rng)
            wrong = [(z, half, c, segment) for z, c, segment in tests if segment.p_value <= alpha]
            found += wrong
        error = _largest_error(events, merged, min_rows, n_draws, rng)
    total = float(weight.sum())
    variance = float(weight @ (p * (1.0 - p))) / total
    return SegmentTable(
        segments=tuple(_report(events, halves, found)),
        kind=name_of(source.classes, column),
        n_rows=total,
        n_tested=n_tested,
        alpha=float(alpha),
        detectable=min(SIZE_SEEN * math.sqrt(variance / (SHARE_SEEN * total)), 1.0),
        error=error[0],
        error_null=error[1],
        error_p_value=error[2],
    )


def _merge_rows(
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


def _deal(weight: Floats, rng: np.random.Generator) -> Halves:
    """Return the weights of two halves: each repetition of a row goes to one of them."""
    whole = np.floor(weight + 1e-9)
    rest = np.maximum(weight - whole, 0.0)
    first = rng.binomial(whole.astype(np.int64), 0.5) + rest * (rng.random(len(weight)) < 0.5)
    return first, np.maximum(weight - first, 0.0)


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


def _sums_of_conditions(features: list[BinnedFeature], *terms: Floats) -> list[Floats]:
    """Return sums over the rows where two conditions hold, of every pair of conditions."""
    holds = block_diag(*(np.transpose([bins for _, bins in own.conditions]) for own in features))
    return [holds.T @ _pair_sums(features, own) @ holds for own in terms]


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
    events: EventRows, proposed: list[ProposedSegment], level: float, n_draws: int, rng: Any
) -> Iterator[tuple[float, ProposedSegment, Segment]]:
    """Yield statistic and numbers of each segment on rows that did not propose it."""
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
        yield float(statistic[i]), candidate, Segment(candidate.conditions, *numbers)


def _report(events: EventRows, halves: Halves, found: list[Tested]) -> Iterator[Segment]:
    """Yield segments whose errors those before them do not explain, the largest first.

    What is left of the error is judged by the half that tested a segment.
    """
    p, hits, _ = events
    residual, variance = np.stack(halves) * (hits - p), np.stack(halves) * (p * (1.0 - p))

    def size(own: Tested) -> float:
        return own[0] - COST_OF_CONDITION * len(own[2].conditions)

    for _, half, (_, rows, sign), segment in sorted(found, key=size, reverse=True):
        gap, spread = residual[:, rows].sum(axis=1), variance[:, rows].sum(axis=1)
        if sign * gap[half] >= UNEXPLAINED * _sd(spread)[half]:
            yield segment
            # A common shift of the log-odds of these rows.
            shift = gap.sum() / max(spread.sum(), LEAST_VARIANCE)
            residual -= np.where(rows, shift * variance, 0.0)


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


def _largest_error(
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
