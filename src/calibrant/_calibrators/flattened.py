"""FIR: one isotonic map for all classes."""

from __future__ import annotations

from calibrant._calibrators.base import Calibrator
from calibrant._calibrators.parameters import FromMap, fitted
from calibrant._maps.cells import SharedSteps
from calibrant._solvers.flattened import solve_flattened
from calibrant.scale._isotonic import FlattenedStatistics


class FlattenedIsotonic(Calibrator):
    """Flattened isotonic regression (FIR): one isotonic map for all classes.

    All cells of the matrix are pooled into one binary problem, "is this cell the label?", and
    isotonic regression is fitted to it; new rows are mapped cell by cell and divided by their
    sum. Keeps the order of the classes and does not depend on which class is which, so classes
    without a label in the calibration set are no problem.

    Attributes
    ----------
    step_function_ : StepFunction
        The fitted map, before division by the sum.

    See Also
    --------
    NormalizationAwareIsotonic : Takes the division into account when it fits.
    OneVsRestIsotonic : One map for each class.

    Notes
    -----
    Exact, in O(m k log m) time, by pooling the segments between the probabilities that were
    given to true labels; only exact ties are merged. A row that lies wholly below everything the
    map has seen keeps its scores.

    References
    ----------
    .. [1] A. Arad and S. Rosset, "Improving Multi-Class Calibration through Normalization-Aware
       Isotonic Techniques", ICML 2025.
    .. [2] J. Zhang, B. Kailkhura and T. Han, "Mix-n-Match: Ensemble and Compositional Methods for
       Uncertainty Calibration in Deep Learning", ICML 2020.
    """

    method = "fir"
    title = "FIR"
    summary = "one isotonic step function"
    good_for = "comparison"
    same_for_all_classes = True
    place, in_paper, keeps_order = 2, True, True
    _copies = 2
    _statistics = FlattenedStatistics
    _solver = staticmethod(solve_flattened)

    map_: SharedSteps = fitted()

    step_function_ = FromMap("step_function")
