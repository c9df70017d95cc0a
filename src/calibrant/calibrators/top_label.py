"""M2B: calibrate the largest probability of a row, and let the others share the rest."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import simplex
from calibrant.calibrators.base import Calibrator
from calibrant.errors import MissingClassWarning, in_words
from calibrant.solvers.one_vs_rest import IDENTITY, solve_isotonic_steps
from calibrant.solvers.top_label import solve_points_histogram, solve_top_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from calibrant.simplex import SimplexBatch
    from calibrant.solvers.one_vs_rest import BinaryMap, Solve
    from calibrant.solvers.report import SolverReport


class TopLabelCalibrator(Calibrator):
    """A calibrator with a binary map of the largest probability, shared or for each class."""

    curves_: list[BinaryMap]
    solver_report_: SolverReport

    def __init__(
        self,
        *,
        per_class: bool = False,
        normalize_output: bool = True,
        scores: str = "probabilities",
        classes: Any = None,
        normalize: str | None = None,
        min_probability: float = 1e-12,
    ) -> None:
        super().__init__(
            scores=scores, classes=classes, normalize=normalize, min_probability=min_probability
        )
        self.per_class = per_class
        self.normalize_output = normalize_output

    @abstractmethod
    def _binary_solver(self) -> tuple[Solve, float]:
        """Return the binary solver, and the weight a class must be predicted with to be fitted."""

    def _check_parameters(self) -> None:
        simplex.check_option("per_class", self.per_class, (True, False))
        simplex.check_option("normalize_output", self.normalize_output, (True, False))

    def _n_parameters(self, n_classes: int) -> int:
        return 2 * n_classes if self.per_class else 1

    def _solve(self, batch: SimplexBatch) -> dict[str, Any]:
        solve, enough = self._binary_solver()
        curves, report = solve_top_label(batch, solve, per_class=self.per_class, enough=enough)
        return {"curves_": curves, "solver_report_": report}

    def _complaints(self, batch: SimplexBatch, fitted: dict[str, Any]) -> Iterator[Warning]:
        yield from super()._complaints(batch, fitted)
        rare = np.array([curve is IDENTITY for curve in fitted["curves_"]])
        if rare.any():
            yield MissingClassWarning(
                f"{rare.sum()} of {len(rare)} classes are predicted too rarely to be calibrated, "
                f"{in_words(batch.classes[rare][0])} for one; they keep their scores"
            )

    def _calibrate(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the top class its new value and scale the others to fill the row.

        Tied classes are each the top one in turn, and the results are averaged.
        """
        if self.scores == "logits":
            rows = simplex.softmax(rows)
        top = rows.max(axis=1, keepdims=True)
        tied = rows == top
        n_tied = tied.sum(axis=1, keepdims=True)
        value = np.zeros_like(rows)  # of a class while it is the top one
        if len(self.curves_) == 1:
            value = np.where(tied, self.curves_[0](top), 0.0)
        else:
            for j, curve in enumerate(self.curves_):
                here = tied[:, j]
                value[here, j] = curve(top[here, 0])
        if not self.normalize_output:
            alone = np.where(tied, (value + (n_tied - 1) * rows) / n_tied, rows)
            # Lifted here, since the floor of the base class would shrink all other values as well.
            return np.maximum(alone, self.min_probability)
        others = np.where(tied, 0.0, rows).sum(axis=1, keepdims=True) + (n_tied - 1) * top
        left = np.where(tied, 1.0 - value, 0.0)  # for the others, while a class is the top one
        left = (left.sum(axis=1, keepdims=True) - left) / n_tied
        n_others = rows.shape[1] - 1
        part = np.minimum(rows, others)  # a lone top class takes no share: no overflow for it
        share = np.where(others > 0, part / np.where(others > 0, others, 1.0), 1.0 / n_others)
        out: NDArray[np.float64] = value / n_tied + left * share
        return out


class TopLabelHistogram(TopLabelCalibrator):
    """Top-label histogram binning (M2B-HB): calibrates the confidence of the predicted class.

    The largest probability of each row is binned, and replaced by how often the predicted class
    was right in its bin; the other classes share what is left in proportion to their scores.

    Parameters
    ----------
    n_bins : int, default=15
        Most bins of a map; they have equal mass, and equal confidences stay together.
    points_per_bin : float, default=50
        Fewest rows for each bin, which is all that the authors set; a row of weight 2 counts
        twice.
    per_class : bool, default=False
        Whether there is a map for each predicted class, as in the authors' top-label calibration,
        or one for all, as in their confidence calibration. A class that is predicted in fewer rows
        than fill a bin keeps its scores.
    normalize_output : bool, default=True
        Whether the other classes share what is left. False leaves them as they are, so that rows
        need not sum to 1; only the confidence has a meaning then.
    scores : {"probabilities", "logits"}, default="probabilities"
        What the matrix holds; never guessed.
    classes : array-like of shape (n_classes,), optional
        Label of each column, where the labels do not name every column.
    normalize : {None, "rows"}, default=None
        "rows" divides rows of the input by their sums, whatever they are.
    min_probability : float, default=1e-12
        Floor of the output. Rows that sum to 1 still do so; without ``normalize_output`` smaller
        values are replaced by it, and nothing else changes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Label of each column.
    curves_ : list of Histogram
        The map, or one for each class; the identity for a class that is predicted too rarely.
    solver_report_ : SolverReport
        What the solver reached.

    See Also
    --------
    TopLabelIsotonic : The same with isotonic maps.

    Notes
    -----
    A confidence that is lowered far enough falls below the share of another class: the method
    then changes the predicted class. Tied classes are each taken as the predicted one in turn,
    at fit and at prediction, with the average as result; the authors break ties at random.

    References
    ----------
    .. [1] C. Gupta and A. Ramdas, "Top-label calibration and multiclass-to-binary reductions",
       ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators.top_label import TopLabelHistogram
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (honest.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> bold = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    >>> calibrator = TopLabelHistogram().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.66, 0.27, 0.07]])
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        points_per_bin: float = 50.0,
        per_class: bool = False,
        normalize_output: bool = True,
        scores: str = "probabilities",
        classes: Any = None,
        normalize: str | None = None,
        min_probability: float = 1e-12,
    ) -> None:
        super().__init__(
            per_class=per_class,
            normalize_output=normalize_output,
            scores=scores,
            classes=classes,
            normalize=normalize,
            min_probability=min_probability,
        )
        self.n_bins = n_bins
        self.points_per_bin = points_per_bin

    def _check_parameters(self) -> None:
        super()._check_parameters()
        simplex.check_number("n_bins", self.n_bins, low=1, high=10**6, whole=True)
        simplex.check_number("points_per_bin", self.points_per_bin, low=0.0, high=1e300)

    def _binary_solver(self) -> tuple[Solve, float]:
        points = max(float(self.points_per_bin), 1e-300)  # 0 sets no limit
        bins = int(self.n_bins)
        return partial(solve_points_histogram, n_bins=bins, points_per_bin=points), points


class TopLabelIsotonic(TopLabelCalibrator):
    """Top-label isotonic regression (M2B-IR): calibrates the confidence of the predicted class.

    Isotonic regression of "was the predicted class right?" on the largest probability of each
    row; the other classes share what is left in proportion to their scores.

    Parameters
    ----------
    per_class : bool, default=False
        Whether there is a map for each predicted class, or one for all. A class that is never
        predicted keeps its scores.
    normalize_output : bool, default=True
        Whether the other classes share what is left. False leaves them as they are, so that rows
        need not sum to 1; only the confidence has a meaning then.
    scores : {"probabilities", "logits"}, default="probabilities"
        What the matrix holds; never guessed.
    classes : array-like of shape (n_classes,), optional
        Label of each column, where the labels do not name every column.
    normalize : {None, "rows"}, default=None
        "rows" divides rows of the input by their sums, whatever they are.
    min_probability : float, default=1e-12
        Floor of the output. Rows that sum to 1 still do so; without ``normalize_output`` smaller
        values are replaced by it, and nothing else changes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Label of each column.
    curves_ : list of StepFunction
        The map, or one for each class; the identity for a class that is never predicted.
    solver_report_ : SolverReport
        What the solver reached.

    See Also
    --------
    TopLabelHistogram : The same with histograms, and what to know about ties.
    SortedCumulativeIsotonic : Calibrates the two, three, ... largest as well.

    References
    ----------
    .. [1] C. Gupta and A. Ramdas, "Top-label calibration and multiclass-to-binary reductions",
       ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.calibrators.top_label import TopLabelIsotonic
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.dirichlet(np.ones(3), size=1000)
    >>> y = (honest.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> bold = honest**3 / (honest**3).sum(axis=1, keepdims=True)
    >>> calibrator = TopLabelIsotonic().fit(bold, y)
    >>> calibrator.predict_proba([[0.9, 0.08, 0.02]]).round(2)
    array([[0.63, 0.3 , 0.07]])
    """

    def _binary_solver(self) -> tuple[Solve, float]:
        return solve_isotonic_steps, 0.0
