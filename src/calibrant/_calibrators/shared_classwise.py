"""sCW: one binary map for each group of classes with similar priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._maps.cells import ClasswiseCurves
from calibrant._solvers.histogram import STRATEGIES
from calibrant._solvers.shared_classwise import MAPS, solve_shared_classwise

if TYPE_CHECKING:
    from calibrant._simplex import SimplexBatch


class SharedClasswise(Calibrator):
    """Shared class-wise calibration (sCW): one map for classes with similar priors.

    The one-vs-rest problems of the classes of a group are merged into one, which gives rare
    classes enough data. With an isotonic map for one group, and rows divided by their sums, it is
    ``FlattenedIsotonic``.

    Parameters
    ----------
    map : {"histogram", "isotonic"}, default="histogram"
        What is fitted to the cells of a group.
    n_groups : int, default=1
        Most groups: classes are sorted by their frequency in the calibration set and cut into
        groups of about equal size. Classes of one frequency stay together; classes without a
        label join the rarest others.
    n_bins : int, default=15
        Number of bins of a histogram.
    strategy : {"width", "mass"}, default="width"
        Bins of a histogram: of equal width, or of equal mass, nearly all of which lie close to 0
        where most cells are.
    normalize_output : bool, default=True
        Whether rows are divided by their sums. False gives the method as it was published: each
        cell is calibrated on its own, and rows need not sum to 1.

    Attributes
    ----------
    groups_ : ndarray of shape (n_classes,)
        Group of each class, from 0 for the rarest.
    curves_ : tuple of StepFunction or of Histogram
        The map of each group.

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
    >>> from calibrant import SharedClasswise
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
    _copies = 12

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
        found = solve_shared_classwise(batch, kind=options.pop("map"), **options)
        return dict(zip(self._found, found, strict=True))
