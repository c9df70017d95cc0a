"""Mean human grades of several models, and their differences on the same items."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant import _gate as gate
from calibrant import errors
from calibrant._result import Estimate, Result, doc, result
from calibrant.judge._interval import estimate_mean
from calibrant.judge._judge import find_graded, read_items, read_judged, read_values

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from calibrant.metrics import Seed

    Floats = NDArray[np.float64]

FEWEST_OF_GROUP = 10
"""Labelled rows of each group."""


@result(repr=False)
class GroupComparison(Result):
    """Mean human grades by group, and the difference of every two groups; ``print`` shows both."""

    groups: tuple[str, ...] = doc("Names of the groups, the one of the largest mean first.")
    means: tuple[Estimate, ...] = doc("Mean human grade of each group, and its interval.")
    labelled_means: tuple[Estimate, ...] = doc("The same, estimated from its labels alone.")
    n_labelled: tuple[int, ...] = doc("Labelled rows of each group.")
    n_rows: tuple[int, ...] = doc("All rows of each group.")
    pairs: tuple[tuple[str, str], ...] = doc("Every two groups, the one of the larger mean first.")
    differences: tuple[Estimate, ...] = doc("Difference of the means of each pair.")
    confidence_level: float = doc("Confidence level of the intervals.")

    def __repr__(self) -> str:
        width = max(len("group"), *map(len, self.groups))
        lines = [
            f"{'group':<{width}}  {'mean human grade':>26}  {'labels alone':>26}  labels    rows"
        ]
        for name, mean, plain, n, m in zip(
            self.groups, self.means, self.labelled_means, self.n_labelled, self.n_rows, strict=True
        ):
            numbers = f"{_brief(mean):>26}  {_brief(plain):>26}  {n:>6,}  {m:>6,}"
            lines.append(f"{name:<{width}}  {numbers}")
        lines += ["", f"differences, {100 * self.confidence_level:g} % intervals"]
        for (first, second), gap in zip(self.pairs, self.differences, strict=True):
            sure = "" if gap.low <= 0.0 <= gap.high else "  *"
            lines.append(f"{first} - {second}: {_brief(gap)}{sure}")
        return "\n".join(lines)


def _brief(estimate: Estimate) -> str:
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


def compare_judged(
    human: ArrayLike,
    judged: ArrayLike,
    groups: ArrayLike,
    *,
    items: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    values: ArrayLike | None = None,
    scores: str = "probabilities",
    target: Literal["rows", "population"] = "rows",
    confidence_level: float = 0.95,
    random_state: Seed = 0,
) -> GroupComparison:
    """Estimate the mean human grade of each group, such as a model, and compare the groups.

    One calibrator is fitted to the labelled rows of all groups, and the mean residual of its own
    labelled rows corrects the mean of each group: a judge that favours a model does no harm.

    Parameters
    ----------
    human : array-like of shape (n_rows,)
        Human grades, None or NaN where there is none; the labelled rows of a group must be a random
        sample of its rows.
    judged : array-like of shape (n_rows,) or (n_rows, n_grades)
        Grades of the judge, or its probability of each grade, as of :func:`calibrate_judge`.
    groups : array-like of shape (n_rows,)
        Group of each row.
    items : array-like of shape (n_rows,), optional
        Question, document or conversation that each row belongs to. Rows of one item are alike:
        intervals of a mean are wider for it, and those of the difference of two groups that
        answered the same items usually narrower.
    classes, values, scores, target, confidence_level, random_state
        As of :func:`calibrate_judge`.

    Returns
    -------
    GroupComparison
        Means with intervals, and the difference of every two groups.

    Notes
    -----
    The interval of a difference a - b is made of those of both means (Zou and Donner, 2008): with r
    the correlation of the two estimates over items, its lower end is

        a - b - sqrt((a - a_low)^2 + (b_high - b)^2 - 2 r (a - a_low) (b_high - b)).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.judge import compare_judged
    >>> rng = np.random.default_rng(0)
    >>> model = np.repeat(["small", "large"], 500)
    >>> grade = rng.binomial(1, np.where(model == "large", 0.8, 0.6)).astype(float)
    >>> judged = np.where(rng.random(1000) < 0.85, grade, 1 - grade)
    >>> human = np.where(rng.random(1000) < 0.2, grade, np.nan)
    >>> comparison = compare_judged(human, judged, model)
    >>> comparison.pairs
    (('large', 'small'),)
    >>> comparison.differences[0].low > 0
    True
    """
    gate.check_option("target", target, ("rows", "population"))
    gate.check_number("confidence_level", confidence_level, low=0.0, high=1 - 1e-9)
    stored = np.asarray(judged)
    n_rows = len(stored)
    names, codes = gate.read_groups(groups, n_rows)
    is_graded, grades = find_graded(human, n_rows)
    own, others = stored[is_graded], stored[~is_graded]
    rows = read_judged(grades, own, others, classes, scores)
    numbers = read_values(rows.grades, values)
    item = read_items(items, n_rows)
    clusters = None if items is None else item[is_graded]
    held_out, averaged = rows.cross_fit(clusters, random_state)
    graded = np.empty(n_rows)
    graded[is_graded], graded[~is_graded] = held_out @ numbers, averaged @ numbers
    y = np.full(n_rows, np.nan)
    y[is_graded] = numbers[rows.human]
    means, plain, parts = [], [], []
    for code, name in enumerate(names.tolist()):
        mine, labelled = codes == code, (codes == code) & is_graded
        if np.count_nonzero(labelled) < FEWEST_OF_GROUP:
            raise errors.ShapeError(
                f"group {errors.in_words(name)} has "
                f"{errors.number_of(int(labelled.sum()), 'human grade')}; grade at least "
                f"{FEWEST_OF_GROUP} of its rows, drawn at random"
            )
        tuned, alone, power = estimate_mean(
            y[labelled],
            graded[labelled],
            graded[mine & ~is_graded],
            target,
            confidence_level,
            numbers,
            _own_clusters(item[labelled]),
        )
        means.append(tuned)
        plain.append(alone)
        parts.append(_influence(y, graded, mine, labelled, power, target))
    order = np.argsort([-mean.value for mean in means], kind="stable").tolist()
    shares = [np.bincount(item, part) for part in parts]
    pairs = list(combinations(order, 2))
    return GroupComparison(
        groups=tuple(str(names[i]) for i in order),
        means=tuple(means[i] for i in order),
        labelled_means=tuple(plain[i] for i in order),
        n_labelled=tuple(int(np.sum((codes == i) & is_graded)) for i in order),
        n_rows=tuple(int(np.sum(codes == i)) for i in order),
        pairs=tuple((str(names[i]), str(names[j])) for i, j in pairs),
        differences=tuple(
            subtract(means[i], means[j], _correlation(shares[i], shares[j])) for i, j in pairs
        ),
        confidence_level=float(confidence_level),
    )


def _own_clusters(items: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the clusters of the labelled rows of a group; None if each is an item of its own."""
    names, codes = np.unique(items, return_inverse=True)
    return None if len(names) == len(items) else codes


def _influence(
    y: Floats,
    graded: Floats,
    mine: NDArray[np.bool_],
    labelled: NDArray[np.bool_],
    power: float,
    target: str,
) -> Floats:
    """Return what each row adds to the error of the estimated mean of its group."""
    n, m = np.count_nonzero(labelled), np.count_nonzero(mine)
    rest = y[labelled] - power * graded[labelled]
    part = np.zeros(len(y))
    part[labelled] = (rest - rest.mean()) / n * math.sqrt(1.0 - n / m)
    if target == "population":  # the rows themselves are drawn, too
        part[mine] += (graded[mine] - graded[mine].mean()) / m
    return part


def _correlation(a: Floats, b: Floats) -> float:
    """Return the correlation of two estimates, from what each item adds to their errors."""
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0.0 else 0.0


def subtract(a: Estimate, b: Estimate, correlation: float) -> Estimate:
    """Return the difference of two estimates, with an interval made of theirs."""

    def reach(of_a: float, of_b: float) -> float:
        square = of_a**2 + of_b**2 - 2.0 * correlation * of_a * of_b
        return math.sqrt(max(square, 0.0))

    value = a.value - b.value
    low = value - reach(a.value - a.low, b.high - b.value)
    return Estimate(value, low, value + reach(a.high - a.value, b.value - b.low))
