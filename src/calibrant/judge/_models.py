"""Several models and one judge: their mean human grades, or their strengths by pairs of answers."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit

from calibrant import _gate as gate
from calibrant import errors
from calibrant._result import Estimate, Result, doc, result
from calibrant._text import align_columns
from calibrant.judge._interval import brief, estimate_mean
from calibrant.judge._rows import find_graded, read_items, read_judged, read_values

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from calibrant._types import Array, Bools, Floats, Wholes
    from calibrant.metrics import Seed

FEWEST_OF_GROUP = 10
"""Labelled rows of each group."""

WINS = {"first": 1.0, "tie": 0.5, "second": 0.0}
"""Verdicts, and what each is worth to the model that was shown first."""

VERDICTS = {
    "first": ("first", "a", "model_a"),
    "second": ("second", "b", "model_b"),
    "tie": ("tie", "c", "tie (bothbad)"),
}
"""How files write verdicts, also in the brackets of MT-Bench's prompts: [[A]]."""

PRIOR_GAMES = 0.5
"""Precision of a normal prior of each strength, which keeps a model that always wins finite."""

ROUNDS, STEP = 100, 1e-10


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
        head = "group", "mean human grade", "labels alone", "labels", "rows"
        estimates = zip(self.means, self.labelled_means, strict=True)
        columns = zip(*([brief(mean) for mean in pair] for pair in estimates), strict=True)
        counts = ([f"{n:,}" for n in numbers] for numbers in (self.n_labelled, self.n_rows))
        lines = align_columns([head, *zip(self.groups, *columns, *counts, strict=True)])
        if self.pairs:
            lines += ["", f"differences, {100 * self.confidence_level:g} % intervals"]
        for (first, second), gap in zip(self.pairs, self.differences, strict=True):
            sure = "" if gap.low <= 0.0 <= gap.high else "  *"
            lines.append(f"{first} - {second}: {brief(gap)}{sure}")
        return "\n".join(lines)


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
    rows = read_judged(grades, stored[is_graded], stored[~is_graded], classes, scores)
    numbers = read_values(rows.grades, values)
    item = read_items(items, n_rows)
    clusters = None if items is None else item[is_graded]
    y, graded = rows.grade(is_graded, numbers, clusters, random_state)
    means, plain, parts = [], [], []
    for code, name in enumerate(names.tolist()):
        mine, labelled = codes == code, (codes == code) & is_graded
        if np.count_nonzero(labelled) < FEWEST_OF_GROUP:
            raise errors.ShapeError(
                f"group {errors.in_words(name)} has "
                f"{errors.number_of(int(labelled.sum()), 'human grade')}",
                remedy=f"grade at least {FEWEST_OF_GROUP} of its rows, drawn at random",
                argument="human",
                value=name,
            )
        same = np.unique(item[labelled], return_inverse=True)[1]
        tuned, alone, power = estimate_mean(
            y[labelled],
            graded[labelled],
            graded[mine & ~is_graded],
            target,
            confidence_level,
            numbers,
            None if same.max() + 1 == len(same) else same,  # each row is an item of its own
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


def _influence(
    y: Floats, graded: Floats, mine: Bools, labelled: Bools, power: float, target: str
) -> Floats:
    """Return the part of each row in the error of the estimated mean of its group."""
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


@result(repr=False)
class PairReport(Result):
    """Strengths of models by calibrated verdicts of a judge; ``print`` shows a table."""

    models: tuple[str, ...] = doc("Names of the models, the strongest first.")
    strengths: tuple[Estimate, ...] = doc("Log-odds of winning against the average model.")
    labelled_strengths: tuple[Estimate, ...] = doc("The same, estimated from the labels alone.")
    n_games: tuple[int, ...] = doc("Comparisons that each model is in.")
    n_labelled: int = doc("Comparisons with a human verdict.")
    n_rows: int = doc("All comparisons.")
    position_bias: Estimate = doc(
        "By how much the judge's wins of the answer shown first exceed those that humans see."
    )
    consistency: float = doc(
        "Share of the items judged in both orders with one winner; NaN if there are none."
    )
    win_probability: Floats = doc(
        "Calibrated chance of the answer shown first, a tie counting one half, of every row."
    )
    confidence_level: float = doc("Confidence level of the intervals.")

    def __repr__(self) -> str:
        estimates = zip(self.strengths, self.labelled_strengths, strict=True)
        columns = zip(*([brief(own, "+.2f") for own in pair] for pair in estimates), strict=True)
        games = [f"{n:,}" for n in self.n_games]
        rows = zip(self.models, *columns, games, strict=True)
        lines = align_columns([("model", "strength", "labels alone", "games"), *rows])
        lines.append(
            f"\n{self.n_labelled:,} of {self.n_rows:,} comparisons have a human verdict; "
            f"{100 * self.confidence_level:g} % intervals"
        )
        bias = brief(Estimate(*(100 * number for number in self.position_bias)), "z.1f")
        lines.append(
            f"position bias: the first answer is preferred by {bias} points more than by humans"
        )
        if not math.isnan(self.consistency):
            lines.append(f"judged in both orders, {100 * self.consistency:.0f} % have one winner")
        return "\n".join(lines)


def judge_pairs(
    first: ArrayLike,
    second: ArrayLike,
    human: ArrayLike,
    judged: ArrayLike,
    *,
    items: ArrayLike | None = None,
    confidence_level: float = 0.95,
    random_state: Seed = 0,
) -> PairReport:
    """Estimate strengths of models from a judge's verdicts, corrected by some of humans.

    The verdicts of the judge are calibrated to those of humans by the place in which an answer was
    shown, which removes its preference for the first or the second.

    Parameters
    ----------
    first, second : array-like of shape (n_rows,)
        Models whose answers were shown first and second.
    human : array-like of shape (n_rows,)
        Human verdict of a random sample of the rows: "first" (or "A"), "second" ("B") or "tie";
        None, NaN or an empty text for the others.
    judged : array-like of shape (n_rows,) or (n_rows, 3)
        Verdict of the judge for every row, or its probabilities that the first answer wins, the
        second one does, and of a tie.
    items : array-like of shape (n_rows,), optional
        Question that each row is about. Rows of one question, such as both orders of two answers,
        are alike.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    random_state : int or numpy Generator, default=0
        Seed of the folds.

    Returns
    -------
    PairReport
        Strengths with intervals, the position bias, and a calibrated probability for every row.

    Notes
    -----
    The Bradley-Terry model says that a beats b with probability 1 / (1 + exp(b - a)). With x the
    row that is +1 at the first model and -1 at the second, and s what the verdict is worth to the
    first (1, 1/2 or 0), its strengths solve

        sum_i x_i 1 / (1 + exp(-x_i' beta)) + r beta = sum_i x_i s_i,

    with a small ridge r. The sum on the right is that of all human verdicts; it is estimated by
    prediction-powered inference (Angelopoulos, Duchi and Zrnic, 2023), as the sum of calibrated
    verdicts plus that of the residuals of the labelled rows. The intervals are those of the
    linearised equation, for the strengths that human verdicts of all these rows would give.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.judge import judge_pairs
    >>> rng = np.random.default_rng(0)
    >>> strength, n = np.array([0.8, 0.0, -0.8]), 2000
    >>> a, gap = rng.integers(0, 3, n), rng.integers(1, 3, n)
    >>> b = (a + gap) % 3
    >>> wins = rng.random(n) < 1 / (1 + np.exp(strength[b] - strength[a]))
    >>> truth = np.where(wins, "first", "second").astype(object)
    >>> judged = np.where(rng.random(n) < 0.7, truth, "first")  # prefers what it saw first
    >>> human = np.where(rng.random(n) < 0.1, truth, None)
    >>> report = judge_pairs(np.array(list("xyz"))[a], np.array(list("xyz"))[b], human, judged)
    >>> report.models
    ('x', 'y', 'z')
    >>> report.position_bias.low > 0.05
    True
    """
    gate.check_number("confidence_level", confidence_level, low=0.0, high=1 - 1e-9)
    rows = _read_pairs(first, second, judged)
    n_rows = len(rows.games)
    is_graded, given = find_graded(human, n_rows)
    verdicts = _read_verdicts(given, "human")
    parts = rows.judged[is_graded], rows.judged[~is_graded]
    read = read_judged(verdicts, *parts, sorted(WINS), "probabilities")
    item = read_items(items, n_rows)
    clusters = None if items is None else np.unique(item[is_graded], return_inverse=True)[1]
    worth = np.array([WINS[str(grade)] for grade in read.grades])
    y, graded = read.grade(is_graded, worth, clusters, random_state)
    # The weight of calibrated verdicts that leaves the least variance.
    centred = graded[is_graded] - graded[is_graded].mean()
    size = float(centred @ centred)
    power = min(max(float(centred @ y[is_graded]) / size, 0.0), 1.0) if size > 0.0 else 0.0
    tuned, alone = (
        _strengths(rows.games, y, graded, is_graded, item, confidence_level, weight)
        for weight in (power, 0.0)
    )
    mean, _, _ = estimate_mean(
        y[is_graded],
        graded[is_graded],
        graded[~is_graded],
        "rows",
        confidence_level,
        worth,
        clusters,
    )
    of_judge = float(rows.worth.mean())
    order = np.argsort([-strength.value for strength in tuned], kind="stable").tolist()
    return PairReport(
        models=tuple(str(rows.models[i]) for i in order),
        strengths=tuple(tuned[i] for i in order),
        labelled_strengths=tuple(alone[i] for i in order),
        n_games=tuple(int(n) for n in np.abs(rows.games).sum(axis=0)[order]),
        n_labelled=int(is_graded.sum()),
        n_rows=n_rows,
        position_bias=Estimate(of_judge - mean.value, of_judge - mean.high, of_judge - mean.low),
        consistency=_consistency(rows, items),
        win_probability=graded,
        confidence_level=float(confidence_level),
    )


class Pairs(NamedTuple):
    """Comparisons of two answers, checked."""

    models: Array
    games: Floats  # +1 at the model shown first, -1 at the second: one row for each comparison
    judged: Array
    worth: Floats  # of the judge's verdict to the first


def _read_pairs(first: ArrayLike, second: ArrayLike, judged: ArrayLike) -> Pairs:
    """Check the models and the verdicts of the judge."""
    n_rows = len(np.asarray(judged))
    shown = [np.asarray(side).astype(str) for side in (first, second)]
    for name, side in zip(("first", "second"), shown, strict=True):
        if side.shape != (n_rows,):
            raise errors.ShapeError(
                f"{name} has shape {side.shape}, but judged has {errors.number_of(n_rows, 'row')}",
                remedy="pass one model for each row",
                argument=name,
            )
    same = np.flatnonzero(shown[0] == shown[1])
    if len(same):
        raise errors.LabelError(
            "as is the second",
            remedy="drop rows in which a model is compared with itself",
            argument="first",
            row=int(same[0]),
            value=str(shown[0][same[0]]),
        )
    models, codes = np.unique(np.concatenate(shown), return_inverse=True)
    games = np.zeros((n_rows, len(models)))
    games[np.arange(n_rows), codes[:n_rows]] = 1.0
    games[np.arange(n_rows), codes[n_rows:]] = -1.0
    if np.ndim(judged) == 2:
        rows = gate.check_scores(judged, "probabilities")
        if rows.shape[1] != len(WINS):
            raise errors.ShapeError(
                f"judged has {errors.number_of(rows.shape[1], 'column')}",
                remedy="pass the probabilities that the first answer wins, that the second does, "
                "and of a tie",
                argument="judged",
            )
        return Pairs(models, games, rows, rows[:, 0] + 0.5 * rows[:, 2])
    verdicts = _read_verdicts(np.asarray(judged, dtype=object), "judged")
    worth = np.array([WINS[verdict] for verdict in verdicts.tolist()])
    return Pairs(models, games, verdicts, worth)


def _read_verdicts(verdicts: Array, argument: str) -> Array:
    """Return verdicts in our words."""
    read = []
    for row, verdict in enumerate(verdicts.tolist()):
        text = str(verdict).strip().casefold().strip("[]")
        known = next((name for name, words in VERDICTS.items() if text in words), None)
        if known is None:
            problem = f"{argument} has the verdict {verdict!r:.40}, the {row + 1}th of those given"
            remedy = "use 'first', 'second' and 'tie', or 'A', 'B' and 'tie'"
            raise errors.LabelError(problem, remedy=remedy, argument=argument, value=verdict)
        read.append(known)
    return np.array(read, dtype=str)


def _strengths(
    games: Floats,
    y: Floats,
    graded: Floats,
    is_graded: Bools,
    item: Wholes,
    level: float,
    power: float,
) -> list[Estimate]:
    """Return the strengths of the models, and intervals, by the equation of ``judge_pairs``."""
    n_rows, n, k = len(games), int(is_graded.sum()), games.shape[1]
    rest = games[is_graded] * (y - power * graded)[is_graded, None]
    other = power * games[~is_graded].T @ graded[~is_graded] + (n_rows - n) * rest.mean(axis=0)
    total = games[is_graded].T @ y[is_graded] + other
    beta, hessian = _solve(games, total)
    # The residuals of an item vary together; the sum over unlabelled rows is known but for their
    # mean residual, of which n of the N are drawn.
    codes = np.unique(item[is_graded], return_inverse=True)[1]
    n_items = int(codes.max()) + 1
    if n_items < k + 3:
        problem = f"human has verdicts of {errors.number_of(n_items, 'item')} on {k} models"
        remedy = f"pass those of at least {k + 3}, and of fifty if possible"
        raise errors.ShapeError(problem, remedy=remedy, argument="human")
    sums = np.zeros((n_items, k))
    np.add.at(sums, codes, rest - rest.mean(axis=0))
    scale = (n_rows - n) * n_rows / n**2 * n_items / (n_items - 2)
    inverse = np.linalg.inv(hessian)
    variance = np.diag(inverse @ (scale * sums.T @ sums) @ inverse)
    reach = stats.t.ppf(0.5 + level / 2, n_items - k) * np.sqrt(np.maximum(variance, 0.0))
    beta -= beta.mean()
    ends = zip(beta.tolist(), (beta - reach).tolist(), (beta + reach).tolist(), strict=True)
    return [Estimate(*numbers) for numbers in ends]


def _solve(games: Floats, total: Floats) -> tuple[Floats, Floats]:
    """Return the strengths and the Hessian there, by Newton's method."""
    beta, ridge = np.zeros(games.shape[1]), PRIOR_GAMES * np.eye(games.shape[1])
    for _ in range(ROUNDS):
        p = expit(games @ beta)
        hessian = (games * (p * (1.0 - p))[:, None]).T @ games + ridge
        step = np.linalg.solve(hessian, games.T @ p + ridge @ beta - total)
        # The loss is convex; where rows are certain a whole step may be too long.
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), STEP))
        beta = beta - step
        if np.abs(step).max() < STEP:
            break
    return beta, hessian


def _consistency(rows: Pairs, items: ArrayLike | None) -> float:
    """Return how often a pair of answers that was judged in both orders has one winner."""
    if items is None:
        return math.nan
    one, two = rows.games.argmax(axis=1), rows.games.argmin(axis=1)
    winner = np.sign(rows.worth - 0.5) * np.where(one < two, 1.0, -1.0)
    sides = one.tolist(), two.tolist(), winner.tolist()
    seen: dict[tuple[object, int, int], float] = {}
    agreed = []
    for item, a, b, sign in zip(np.asarray(items).tolist(), *sides, strict=True):
        seen[item, a, b] = sign
        if (item, b, a) in seen:
            agreed.append(seen[item, b, a] == sign)
    return float(np.mean(agreed)) if agreed else math.nan
