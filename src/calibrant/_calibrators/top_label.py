"""M2B: calibrate the largest probability of a row, and let the others share the rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, choice, fitted, number
from calibrant._maps.cells import TopLabelMap
from calibrant._maps.curves import IDENTITY
from calibrant._solvers.one_vs_rest import solve_isotonic_steps
from calibrant._solvers.top_label import solve_points_histogram, solve_top_label
from calibrant.errors import MissingClassWarning, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrant._simplex import SimplexBatch


class TopLabelCalibrator(Calibrator):
    """A calibrator with a binary map of the largest probability, shared or for each class.

    ``_solver`` is that of the binary problem.

    Parameters
    ----------
    per_class : bool, default=False
        Whether to fit a map for each predicted class, as in the authors' top-label calibration, or
        one for all, as in their confidence calibration. A class that is predicted in fewer rows
        than a bin needs keeps its scores.
    normalize_output : bool, default=True
        Whether the other classes share the rest. False leaves them unchanged, so that rows may not
        sum to 1 and only the confidence is meaningful.

    Attributes
    ----------
    curves_ : tuple of Histogram or of StepFunction
        Fitted map, or one for each class; the identity for a class that is predicted too rarely.

    References
    ----------
    .. [1] C. Gupta and A. Ramdas, "Top-label calibration and multiclass-to-binary reductions",
       ICLR 2022.
    """

    per_class: bool = choice(default=False)
    normalize_output: bool = choice(default=True)
    map_: TopLabelMap = fitted()

    curves_ = FromMap("curves")

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes if self.per_class else 1

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        options = self._options()
        shared = {name: options.pop(name) for name in ("per_class", "normalize_output")}
        enough = options.get("points_per_bin", 0.0)  # weight of a class that is fitted
        solve = partial(self._solver, **options)
        found = solve_top_label(batch, solve, enough=enough, **shared)
        return dict(zip(self._found, found, strict=True))

    def _complaints(self, batch: SimplexBatch, found: dict[str, Any]) -> Iterator[Warning]:
        yield from super()._complaints(batch, found)
        rare = np.array([curve is IDENTITY for curve in found["map_"].curves])
        if rare.any():
            yield MissingClassWarning(
                f"{rare.sum()} of {len(rare)} classes are predicted too rarely to be calibrated, "
                f"for example {in_words(batch.classes[rare][0])}; they keep their scores"
            )


class TopLabelHistogram(TopLabelCalibrator):
    """Top-label histogram binning (M2B-HB): calibrates the confidence of the predicted class.

    The largest probability of each row is binned and replaced by the accuracy in its bin; the other
    classes share the rest in proportion to their scores.

    Parameters
    ----------
    n_bins : int, default=15
        Largest number of bins, which have equal mass; equal confidences stay together.
    points_per_bin : float, default=50
        Smallest number of rows per bin; a row of weight 2 counts twice.

    See Also
    --------
    TopLabelIsotonic : The same with isotonic maps.

    Notes
    -----
    A confidence that is lowered far enough falls below the share of another class: the method
    then changes the predicted class. It is never lowered below 1 / k, what all classes have where
    they tie, as long as they share the map and ``normalize_output``: else two classes would change
    places across the tie. Tied classes are each taken as the predicted one in turn, at fit and at
    prediction, with the average as result; the authors break ties at random.
    """

    method = "m2b-hb"
    title = "M2B-HB"
    summary = "a histogram of the confidence alone"
    good_for = "comparison"
    place = 13
    _solver = staticmethod(solve_points_histogram)

    n_bins: int = number(default=15, low=1, high=10**6, whole=True)
    points_per_bin: float = number(default=50.0, high=1e300)

    def _options(self) -> dict[str, Any]:
        points = max(float(self.points_per_bin), 1e-300)  # 0 sets no limit
        return super()._options() | {"points_per_bin": points}


class TopLabelIsotonic(TopLabelCalibrator):
    """Top-label isotonic regression (M2B-IR): calibrates the confidence of the predicted class.

    Isotonic regression of whether the predicted class is right on the largest probability; the
    other classes share the rest in proportion to their scores.

    See Also
    --------
    TopLabelHistogram : The same with histograms; its notes explain ties.
    SortedCumulativeIsotonic : Calibrates the two, three, ... largest as well.
    """

    method = "m2b-ir"
    title = "M2B-IR"
    summary = "an isotonic map of the confidence alone"
    good_for = "comparison"
    place = 14
    _solver = staticmethod(solve_isotonic_steps)
