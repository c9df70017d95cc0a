"""How many rows humans have to grade for an interval of a wanted width, and which."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _gate as gate
from calibrant._result import Result, doc, result
from calibrant.judge._judge import calibrate_judge, find_graded

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from calibrant.metrics import Seed

N_PILOT = 100
"""Labels from which a plan is made: the width of its interval is then known within some 8 %."""


@result(repr=False)
class LabelPlan(Result):
    """Rows to be graded next; ``print`` says why."""

    rows: NDArray[np.int64] = doc("Indices of the rows to grade, in their order.")
    n_labelled: int = doc("Rows that have a human grade already.")
    n_needed: int = doc("Rows with a human grade when the plan is carried out.")
    width: float = doc("Wanted width of the interval.")
    width_now: float = doc("Width of the interval of the labels so far; NaN before there are any.")
    expected_width: float = doc("Width that is expected of so many; NaN before there are any.")

    def __repr__(self) -> str:
        more = f"grade {len(self.rows):,} more rows"
        if math.isnan(self.width_now):
            return (
                f"No plan yet: {more}, drawn at random, {self.n_needed:,} in all; how wide an "
                "interval is depends on how well judge and humans agree. Then plan again."
            )
        now = f"{self.n_labelled:,} labels give an interval {self.width_now:.4g} wide"
        if len(self.rows) == 0:
            return f"{now}, which is no wider than {self.width:.4g}: no more labels are needed."
        return (
            f"{now}. For one {self.width:.4g} wide, {more}, {self.n_needed:,} in all; "
            f"{self.expected_width:.4g} is expected."
        )


def plan_labels(
    human: ArrayLike,
    judged: ArrayLike,
    width: float,
    *,
    classes: ArrayLike | None = None,
    values: ArrayLike | None = None,
    scores: str = "probabilities",
    confidence_level: float = 0.95,
    random_state: Seed = 0,
) -> LabelPlan:
    """Plan which rows humans should grade next, for an interval of a wanted width.

    Parameters
    ----------
    human : array-like of shape (n_rows,)
        Human grades so far, None or NaN where there is none; of a random sample of the rows, such
        as an earlier plan. With fewer than 100 the plan is to grade 100 first.
    judged : array-like of shape (n_rows,) or (n_rows, n_grades)
        Grades of the judge for all rows, or its probability of each grade.
    width : float
        Wanted width of the interval of the mean human grade of these rows.
    classes, values, scores, confidence_level
        As of :func:`calibrate_judge`.
    random_state : int or numpy Generator, default=0
        Seed of the rows that are drawn.

    Returns
    -------
    LabelPlan
        The rows to grade. Every row is as likely to be drawn as any other, so that their mean
        residual is that of all; they are spread evenly over the grades of the judge.

    Notes
    -----
    The width falls with the number n of labels among N rows as sqrt(1 / n - 1 / N), from that of
    the labels so far.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.judge import plan_labels
    >>> rng = np.random.default_rng(0)
    >>> grade = rng.integers(1, 6, 5000).astype(float)
    >>> judged = np.clip(grade + rng.integers(0, 2, 5000), 1, 5)
    >>> plan = plan_labels(np.full(5000, np.nan), judged, 0.1)
    >>> len(plan.rows)
    100
    >>> human = np.full(5000, np.nan)
    >>> human[plan.rows] = grade[plan.rows]
    >>> plan = plan_labels(human, judged, 0.1, classes=[1, 2, 3, 4, 5])
    >>> plan.n_needed > 100
    True
    """
    gate.check_number("width", width, low=1e-12)
    stored = np.asarray(judged)
    is_graded, _ = find_graded(human, len(stored))
    n_rows, n = len(stored), int(np.count_nonzero(is_graded))
    now = expected = math.nan
    needed = min(N_PILOT, n_rows)
    if n >= needed:
        report = calibrate_judge(
            human,
            judged,
            classes=classes,
            values=values,
            scores=scores,
            confidence_level=confidence_level,
        )
        now = expected = report.mean.high - report.mean.low
        # 1 / n - 1 / N falls to its part at which the width is the wanted one.
        scale = (1.0 / n - 1.0 / n_rows) / now**2 if now > 0.0 else 0.0
        needed = max(n, math.ceil(1.0 / (scale * width**2 + 1.0 / n_rows)))
        if scale > 0.0:
            expected = math.sqrt(max(1.0 / needed - 1.0 / n_rows, 0.0) / scale)
    rows = _draw_evenly(stored, ~is_graded, needed - n, np.random.default_rng(random_state))
    return LabelPlan(
        rows=rows,
        n_labelled=n,
        n_needed=needed,
        width=float(width),
        width_now=now,
        expected_width=expected,
    )


def _draw_evenly(
    judged: NDArray[Any], is_open: NDArray[np.bool_], n_drawn: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw rows with equal chances, at equal distances in the order of the judge's grades."""
    rows = rng.permutation(np.flatnonzero(is_open))
    graded = judged[rows] if judged.ndim == 1 else judged[rows].argmax(axis=1)
    if judged.ndim > 1:  # within a grade, by how sure the judge is of it
        order = np.lexsort((judged[rows].max(axis=1), graded))
    else:
        order = np.argsort(np.unique(graded, return_inverse=True)[1], kind="stable")
    place = (rng.random() + np.arange(n_drawn)) * (len(rows) / max(n_drawn, 1))
    return np.sort(rows[order][np.minimum(place.astype(np.int64), len(rows) - 1)])
