"""Whether a fit predicts each class as often as it comes: a map for all classes alike may not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant import errors
from calibrant._gate import FEWEST_ROWS_IN_DOUBT
from calibrant._kernels.rows import symmetric_hashes

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._types import Bools, Floats, Labels

FALSE_ALARMS = 1e-4
"""Honest fits, of all, in which some class may be reported by chance; a bound, not an estimate."""

MOST_CELLS_CHECKED = 1 << 17
LEAST_ROWS_CHECKED = 2000
"""Number of cells, and least number of rows, of the sample whose shares are checked."""

LEAST_SCORES_DIFFER, MOST_ROWS_DIFFER = 1e-3, 1e-6
"""A fit is constant if scores differ by the first and probabilities by no more than the second."""


class ClassShare(NamedTuple):
    """A class whose mean predicted probability is not its share of the labels."""

    column: int
    predicted: float
    observed: float

    def warning(self, classes: Labels, reason: str) -> errors.ClassShareWarning:
        """Say so, with the reason and the remedy."""
        return errors.ClassShareWarning(
            f"class {errors.in_words(classes[self.column])} has a mean probability of "
            f"{self.predicted:.3g} after the fit, but a share of {self.observed:.3g} in the "
            f"calibration set, more than chance explains; {reason}"
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
