"""What tells of a fit that it is wrong: its own rows, and new scores that look like no others.

Of its own rows a fit predicts each class as often as it comes; one map for all classes may not.

Do new scores look like those of the calibration set? A test needs no labels. A fit keeps means and
covariances of a few bounded numbers of its rows: the bin of the score of the predicted class (of
the positive one of two), the predicted class, and the probability of each class. With D the
difference of the means of n rows of the fit and m new ones and S the pooled covariance, Hotelling's

    T^2 = n m / (n + m) D' S^-1 D

is as T^2 of equal distributions if nothing has changed. Where only the frequencies of the classes
have changed, the new means are a mixture of those of the classes, sum_c q_c mu_c, with some q.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from calibrant import errors
from calibrant._gate import FEWEST_ROWS_IN_DOUBT, SimplexBatch
from calibrant._kernels.rows import symmetric_hashes
from calibrant._maps.base import CalibrationMap, Stage, ensure
from calibrant._result import Result, doc, result
from calibrant._text import p_words, percent
from calibrant._types import Bools, Floats, Wholes

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of the rows of a fit:
FALSE_ALARMS = 1e-4  # bound on the calibrated fits of which some class is reported by chance
MOST_CELLS_CHECKED = 1 << 17  # in the sample whose shares are checked, but at least
LEAST_ROWS_CHECKED = 2000  # this many rows
LEAST_SCORES_DIFFER = 1e-3  # a fit is constant if scores differ by this,
MOST_ROWS_DIFFER = 1e-6  # and probabilities by no more than this

# Of new scores:
N_BINS = 10  # of equal mass of the score, or half as many
ROWS_FOR_ALL = 400  # of fewer new rows than this
MOST_CLASSES = 20  # groups that more classes are put into, by the number of their column
ROWS_OF_CLASS = 20  # new rows for each group of classes: of fewer rows there are fewer groups
LEAST_VARIANCE = 1e-3  # directions of less, of standardised numbers, are sums of others: left out
ALARM = 0.05  # level of the test
OUTSIDE = 0.01  # share of rows beyond the range of the fit that is worth a word


class ClassShare(NamedTuple):
    """A class whose mean predicted probability is not its share of the labels."""

    column: int
    predicted: float
    observed: float


def find_doubts(
    batch: SimplexBatch, fitted_map: CalibrationMap, floor: float, name: str
) -> Iterator[Warning]:
    """Yield warnings if a fit makes all rows alike, or a class more or less likely than it is."""
    if fitted_map.changes_shares:
        return
    some = sample_of(batch)
    rows = Stage(fitted_map, floor)(some.scores)
    constant = find_constant(some, rows)
    if constant is not None:
        yield constant
    # Rows of one group are alike: by chance, shares differ more than those of single rows.
    wrong = find_wrong_share(some, rows) if batch.group is None else None
    if wrong is not None:
        reason = "shrinks what it learns of single classes; pass more rows"
        if fitted_map.same_for_all_classes:
            reason = (
                "has one map for all classes; use a method with parameters for each class, such as "
                "AutoCalibrator ('auto') or StructuredScaling ('structured')"
            )
        yield errors.ClassShareWarning(
            f"class {errors.in_words(batch.classes[wrong.column])} has a mean probability of "
            f"{wrong.predicted:.3g} after the fit, but a share of {wrong.observed:.3g} in the "
            f"calibration set, more than chance explains; {name} {reason}"
        )


def sample_of(batch: SimplexBatch) -> SimplexBatch:
    """Return the rows by which a fit is judged: some of many."""
    most = max(MOST_CELLS_CHECKED // batch.n_classes, LEAST_ROWS_CHECKED)
    return batch if batch.n_rows <= most else batch.take(_sample(batch.scores, most))


def find_constant(some: SimplexBatch, rows: Floats) -> Warning | None:
    """Return a warning if all ``rows`` are the same although the scores they come from are not."""
    if some.n_rows < FEWEST_ROWS_IN_DOUBT or np.all(some.class_index == some.class_index[0]):
        return None
    with np.errstate(invalid="ignore"):
        do_scores_differ = not np.all(np.ptp(some.scores, axis=0) <= LEAST_SCORES_DIFFER)
    if not do_scores_differ or float(np.ptp(rows, axis=0).max()) > MOST_ROWS_DIFFER:
        return None
    shown = ", ".join(f"{value:.3g}" for value in rows[0][:5])
    shown += ", ..." if rows.shape[1] > 5 else ""
    return errors.ConstantFitWarning(
        f"every row gets the same probabilities, {shown}, although the scores differ: they tell "
        "nothing of the labels that the method can use. Check that scores and labels are of the "
        "same rows, and that a class is more frequent where its score is higher; if so, use a "
        "method with parameters for each class, such as AutoCalibrator ('auto')"
    )


def find_wrong_share(some: SimplexBatch, rows: Floats) -> ClassShare | None:
    """Return the class whose mean probability differs most from its share, if more than by chance.

    If labels are drawn as the predicted ``rows`` say, the weighted sum of p - [y = c] over rows
    exceeds t in size with a probability of at most 2 exp(-t^2 / (2 (V + w t / 3))): Bernstein's
    inequality, where V sums w^2 p (1 - p) and w is the largest weight. It holds for any number of
    rows, also where a class has one label. Classes without a label are left out: rows are
    conditioned on the others.
    """
    labels = np.bincount(some.class_index, some.weight, minlength=some.n_classes)
    present = np.flatnonzero(labels)
    if len(present) < len(labels):
        rows = rows[:, present]
        rows = rows / np.maximum(rows.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    expected = some.weight @ rows
    gap = np.abs(expected - labels[present])
    variance = some.weight**2 @ (rows * (1.0 - rows))
    evidence = gap**2 / (2.0 * (variance + some.weight.max() * gap / 3.0) + 1e-300)
    if evidence.max() <= math.log(2.0 * len(present) / FALSE_ALARMS):
        return None
    total = some.weight.sum()
    # Two classes are wrong by the same amount, of which the smaller one tells more.
    worst = int(np.argmin(labels[present]) if len(present) == 2 else np.argmax(evidence))
    column = int(present[worst])
    return ClassShare(column, float(expected[worst] / total), float(labels[column] / total))


def _sample(scores: Floats, most: int) -> Bools:
    """Choose ``most`` rows, or more where rows of equal scores tie, by a hash of their scores.

    Neither the order of rows nor their labels decide: every n-th row of a file in which labels come
    in turn would be of some classes alone.
    """
    hashes = symmetric_hashes(scores.view(np.int64), scores.argmax(axis=1))
    chosen: Bools = hashes <= np.partition(hashes, most - 1)[most - 1]
    return chosen


@result(eq=False)
class ScoreSummary:
    """What a fit keeps of the scores of its rows: d numbers of each, see ``_numbers_of``."""

    n_rows: float = doc("Weight of the rows.")
    edges: Floats = doc("Smallest score of the predicted class, nine quantiles and the largest.")
    mean: Floats = doc("Means of the numbers of a row, of shape (d,).")
    covariance: Floats = doc("Their covariance, of shape (d, d).")
    class_means: Floats = doc("Their means in each group of classes; 0 of one without a label.")
    class_shares: Floats = doc("Share of the rows in each group of classes.")

    def __post_init__(self) -> None:
        d, n_groups = len(self.mean), len(self.class_shares)
        shapes = [array.shape for array in (self.covariance, self.class_means)]
        ensure(shapes == [(d, d), (d, n_groups)], f"a summary of scores has shapes {shapes}")
        is_known = self.edges.shape == (N_BINS + 1,) and d == _n_numbers(n_groups)
        ensure(is_known, "a summary of scores has other bins")
        arrays = self.edges, self.mean, self.covariance, self.class_means, self.class_shares
        is_finite = all(np.isfinite(array).all() for array in arrays) and self.n_rows > 0.0
        ensure(is_finite, "a summary of scores is not finite")

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as model files hold them."""
        names = ("edges", "mean", "covariance", "class_means", "class_shares")
        return {name: getattr(self, name) for name in names}


@result(repr=False)
class ShiftCheck(Result):
    """Whether new scores look like those of the calibration set, which labels do not tell."""

    n_rows: int = doc("Number of new rows.")
    p_value: float = doc("p-value of the test that both have one distribution.")
    label_shift_p_value: float = doc(
        "p-value of the test that only the frequencies of the classes have changed."
    )
    outside: float = doc("Share of new rows whose score lies beyond those of the fit.")

    @property
    def alarm(self) -> bool:
        """Whether the scores are distributed otherwise, at the level of 5 %."""
        return self.p_value < ALARM

    @property
    def is_label_shift(self) -> bool:
        """Whether other frequencies of the classes would explain an alarm."""
        return self.alarm and self.label_shift_p_value >= ALARM

    @property
    def why(self) -> str:
        """What to trust and what to do, in words."""
        beyond = ""
        if self.outside > OUTSIDE:
            beyond = f" {percent(self.outside)} of the rows lie beyond the scores of the fit."
        test = f"{self.n_rows:,} rows, {p_words(self.p_value)}"
        if not self.alarm:
            return (
                f"The new scores look like those of the calibration set ({test}).{beyond} Whether "
                "scores still mean the same, only labels tell."
            )
        if self.is_label_shift:
            return (
                f"The new scores are distributed otherwise ({test}), as they would be if only the "
                f"classes came with other frequencies.{beyond} Use PriorShift, which estimates "
                "these; label a hundred rows to be sure."
            )
        return (
            f"The new scores are distributed otherwise ({test}), and other class frequencies alone "
            f"do not explain it.{beyond} Label a hundred rows and compare; until then trust little "
            "of what was fitted for single classes: temperature scaling (shared_part_ of "
            "AutoCalibrator) relies on least."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields and the verdict as plain numbers."""
        return {**Result.to_dict(self), "alarm": self.alarm, "is_label_shift": self.is_label_shift}

    def __repr__(self) -> str:
        return f"{'alarm' if self.alarm else 'no alarm'}: {self.why}"


def summarise(batch: SimplexBatch) -> ScoreSummary:
    """Return what is kept of the scores of a calibration set."""
    rows, weight = batch.probabilities(), batch.weight
    score = _main_score(rows)
    order = np.argsort(score)
    total = np.cumsum(weight[order])
    inner = np.searchsorted(total, total[-1] * np.arange(1, N_BINS) / N_BINS)
    edges = score[order][np.concatenate([[0], inner, [len(score) - 1]])]
    numbers, share = _numbers_of(rows, edges), weight / weight.sum()
    mean = share @ numbers
    weighted = share[:, None] * numbers
    n_groups = _n_groups(batch.n_classes)
    of_group = (batch.class_index % n_groups)[:, None] == np.arange(n_groups)
    shares = share @ of_group
    class_means = weighted.T @ of_group / np.where(shares > 0.0, shares, 1.0)
    covariance = weighted.T @ numbers - np.outer(mean, mean)
    return ScoreSummary(float(weight.sum()), edges, mean, covariance, class_means, shares)


class ScoreSums:
    """Sums over new rows, by which they are compared with those of a fit."""

    def __init__(self, known: ScoreSummary) -> None:
        self._known = known
        self.n_rows, self._n_classes, self._n_outside = 0, 0, 0
        self._total = np.zeros(len(known.mean))
        self._squares = np.zeros(known.covariance.shape)

    def add(self, rows: Floats) -> Self:
        """Add rows on the simplex; return the sums."""
        known, score = self._known, _main_score(rows)
        gaps = _numbers_of(rows, known.edges) - known.mean  # small numbers, whose squares are exact
        self.n_rows, self._n_classes = self.n_rows + len(rows), rows.shape[1]
        self._n_outside += int(((score < known.edges[0]) | (score > known.edges[-1])).sum())
        self._total += gaps.sum(axis=0)
        self._squares += gaps.T @ gaps
        return self

    def compare(self) -> ShiftCheck:
        """Test whether the rows have the distribution of those of the fit."""
        known, n, m = self._known, self._known.n_rows, self.n_rows
        if m < 2:
            raise errors.ShapeError(
                f"scores has {errors.number_of(m, 'row')}, too few for a covariance; pass at "
                "least fifty"
            )
        coarse = _coarse(self._n_classes, m)
        gap_of_means = self._total / m
        own = self._squares - m * np.outer(gap_of_means, gap_of_means)
        pooled = coarse.T @ ((n * known.covariance + own) / (n + m - 2.0)) @ coarse
        whitener = coarse @ _whiten(pooled) / np.sqrt(1.0 / n + 1.0 / m)
        gap, new = gap_of_means @ whitener, (known.mean + gap_of_means) @ whitener
        classes = known.class_means[:, known.class_shares > 0.0]
        residual = _least_residual(classes.T @ whitener, new)
        n_left = max(len(gap) - classes.shape[1] + 1, 1)
        return ShiftCheck(
            n_rows=m,
            p_value=_tail(gap, len(gap), n + m - 2.0),
            label_shift_p_value=_tail(residual, n_left, n + m - 2.0),
            outside=self._n_outside / m,
        )


def _n_groups(n_classes: int) -> int:
    return min(n_classes, MOST_CLASSES)


def _n_numbers(n_groups: int) -> int:
    return N_BINS + (1 if n_groups == 2 else 2 * n_groups)


def _main_score(rows: Floats) -> Floats:
    """Return the probability of the predicted class, or of the positive one of two."""
    result: Floats = rows[:, 1] if rows.shape[1] == 2 else rows.max(axis=1)
    return result


def _numbers_of(rows: Floats, edges: Floats) -> Floats:
    """Return the numbers of each row: its bin, its predicted class and its probabilities.

    Bins and classes are zeros and a one. Of two classes the bin and the probability of the positive
    one say everything.
    """
    n_rows, n_classes = rows.shape
    bins, every = np.searchsorted(edges[1:-1], _main_score(rows), side="left"), np.arange(n_rows)
    n_groups = _n_groups(n_classes)
    numbers = np.zeros((n_rows, _n_numbers(n_groups)))
    if n_classes == 2:
        numbers[:, -1] = rows[:, 1]
    else:
        numbers[every, N_BINS + rows.argmax(axis=1) % n_groups] = 1.0
        for first in range(0, n_classes, n_groups):  # groups are columns modulo their number
            some = rows[:, first : first + n_groups]
            numbers[:, N_BINS + n_groups : N_BINS + n_groups + some.shape[1]] += some
    numbers[every, bins] = 1.0
    return numbers


def _coarse(n_classes: int, n_new: int) -> Floats:
    """Return the matrix that merges bins and classes, so that there are few for the new rows."""
    from scipy.linalg import block_diag  # slow to import

    n_bins = N_BINS if n_new >= ROWS_FOR_ALL else N_BINS // 2
    bins = _merging(np.arange(N_BINS) * n_bins // N_BINS)
    if n_classes == 2:
        return block_diag(bins, np.ones((1, 1)))
    n_groups = _n_groups(n_classes)
    groups = _merging(np.arange(n_groups) % min(max(n_new // ROWS_OF_CLASS, 2), n_groups))
    return block_diag(bins, groups, groups)


def _merging(group: Wholes) -> Floats:
    """Return the matrix that adds up numbers by group; the others tell of the first group."""
    is_in: Floats = (group[:, None] == np.arange(1, group.max() + 1)).astype(np.float64)
    return is_in


def _whiten(covariance: Floats) -> Floats:
    """Return the matrix after which a vector of this covariance has the unit one."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(scale > 1e-9, scale, np.inf)  # what never varies is left out
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > LEAST_VARIANCE
    result: Floats = vectors[:, kept] / scale[:, None] / np.sqrt(values[kept])
    return result


def _least_residual(corners: Floats, point: Floats) -> Floats:
    """Return what is left of a point after the nearest mixture of the corners."""
    from scipy.optimize import nnls  # slow to import

    # A heavy last row keeps the sum of the parts at 1.
    heavy = 1e3 * max(1.0, float(np.abs(corners).max()))
    system = np.vstack([corners.T, np.full(len(corners), heavy)])
    parts, _ = nnls(system, np.append(point, heavy))
    residual: Floats = point - parts @ corners
    return residual


def _tail(gap: Floats, n_freedom: int, n_pooled: float) -> float:
    """Return the p-value of Hotelling's T^2 with some degrees of freedom, by its F distribution."""
    from scipy.stats import f  # slow to import

    rest = max(n_pooled - n_freedom + 1.0, 1.0)
    return float(f.sf(gap @ gap * rest / (n_pooled * n_freedom), n_freedom, rest))
