"""sCW: one binary problem for each group of classes with similar priors, and its calibrator."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._maps.curves import ClasswiseCurves
from calibrant._solvers.one_vs_rest import (
    BinaryProblem,
    binary_problem,
    pool_segments,
    solve_each,
    solve_isotonic_steps,
)
from calibrant.study._histogram import STRATEGIES, MassBins, solve_histogram

if TYPE_CHECKING:
    from calibrant._gate import SimplexBatch
    from calibrant._solvers.report import SolverReport
    from calibrant._types import Floats, Wholes

MAPS = ("histogram", "isotonic")


def group_classes(batch: SimplexBatch, n_groups: int) -> Wholes:
    """Group of each class, from 0 for the rarest; at most ``n_groups`` of about equal size.

    Classes of one frequency are never parted, and those without a label join the rarest others.
    """
    frequency: Floats = np.bincount(
        batch.class_index, batch.weight, minlength=batch.n_classes
    ).astype(np.float64)
    one_each = np.ones(batch.n_classes)
    distinct = binary_problem(frequency, one_each, one_each)
    thresholds, _, _ = MassBins(distinct).cut(n_groups)
    group = np.searchsorted(thresholds, frequency, side="right") - 1
    group = np.maximum(group, group[frequency > 0].min())
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def pool_cells(batch: SimplexBatch, columns: Wholes) -> BinaryProblem:
    """All cells of some columns."""
    cells = np.broadcast_to(batch.weight[:, None], (batch.n_rows, len(columns)))
    positives = np.where(batch.class_index[:, None] == columns, cells, 0.0)
    values = batch.probabilities()[:, columns]
    return binary_problem(values.ravel(), positives.ravel(), cells.ravel())


def solve_shared_classwise(
    batch: SimplexBatch,
    *,
    kind: str = "histogram",
    n_groups: int = 1,
    n_bins: int = 15,
    strategy: str = "width",
    normalize_output: bool = True,
) -> tuple[ClasswiseCurves, SolverReport]:
    """Return one curve for each group of classes, and the report."""
    started = perf_counter()
    group = group_classes(batch, n_groups)
    columns = [np.flatnonzero(group == g) for g in range(int(group.max()) + 1)]
    if kind == "isotonic":
        problems = (pool_segments(batch, part) for part in columns)
        curves, report = solve_each(problems, solve_isotonic_steps, "group", started)
    else:
        problems = (pool_cells(batch, part) for part in columns)
        solve = partial(solve_histogram, n_bins=n_bins, strategy=strategy)
        curves, report = solve_each(problems, solve, "group", started)
    return ClasswiseCurves(group, curves, normalize_output, batch.kind), report


class SharedClasswise(Calibrator):
    """Shared class-wise calibration (sCW): one map for classes with similar priors.

    The one-vs-rest problems of the classes of a group are merged into one, which gives rare
    classes enough data. With an isotonic map for one group, and rows divided by their sums, it is
    ``FlattenedIsotonic``.

    Parameters
    ----------
    map : {"histogram", "isotonic"}, default="histogram"
        Map fitted to the cells of a group.
    n_groups : int, default=1
        Largest number of groups: classes are sorted by their frequency in the calibration set and
        split into groups of about equal size. Classes of equal frequency stay together; classes
        without a label join the rarest group.
    n_bins : int, default=15
        Number of bins of a histogram.
    strategy : {"width", "mass"}, default="width"
        Bins of equal width or of equal mass; nearly all bins of equal mass lie close to 0.
    normalize_output : bool, default=True
        Whether rows are divided by their sums. False is the published method: each cell is
        calibrated separately, and rows may not sum to 1.

    Attributes
    ----------
    groups_ : ndarray of shape (n_classes,)
        Group of each class, from 0 for the rarest.
    curves_ : tuple of StepFunction or of Histogram
        Fitted map of each group.

    See Also
    --------
    FlattenedIsotonic : One isotonic map for all classes.
    OneVsRestHistogram : One map for each class.

    Notes
    -----
    Patel et al. share one map among all classes of balanced data. Their I-Max choice of bin edges
    is not offered. A row that every map sends to zero keeps its scores if it is to sum to 1.

    References
    ----------
    .. [1] K. Patel et al., "Multi-Class Uncertainty Calibration via Mutual Information
       Maximization-based Binning", ICLR 2021.

    Examples
    --------
    >>> from calibrant.study import SharedClasswise
    >>> from calibrant.datasets import simulated_scores
    >>> bold, y = simulated_scores()
    >>> calibrator = SharedClasswise(map="isotonic").fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.61, 0.23, 0.16]])
    >>> original = SharedClasswise(normalize_output=False).fit(bold, y)
    >>> original.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.64, 0.26, 0.11]])
    """

    method = "scw"
    title = "sCW"
    summary = "a map for each group of similarly frequent classes"
    good_for = "comparison"
    place = 12

    map: str = choice(MAPS, default="histogram")
    n_groups: int = number(default=1, low=1, high=10**6, whole=True)
    n_bins: int = number(default=15, low=1, high=10**6, whole=True)
    strategy: str = choice(STRATEGIES, default="width")
    normalize_output: bool = choice(default=True)
    map_: ClasswiseCurves = fitted()

    curves_ = FromMap("curves")
    groups_ = FromMap("groups")

    def _n_parameters(self, n_classes: int) -> int:
        return min(int(self.n_groups), n_classes) * int(self.n_bins)

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        options = self._options()
        result = solve_shared_classwise(batch, kind=options.pop("map"), **options)
        return dict(zip(self._found, result, strict=True))
