"""Are classes predicted as often as they come? Mean probability against share, class by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammainc

from calibrant._kernels.metrics import HIT, VALUE, WEIGHT, add_binned_classes
from calibrant.metrics._calibration_error import ClassBins
from calibrant.metrics._measures import RowSums
from calibrant.metrics._reading import of_predictions
from calibrant.metrics._result import Result, doc, result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._chunk import Chunk
    from calibrant.metrics._measures import SummedState
    from calibrant.metrics._reading import Source

GAP_OF_ROUNDING = 1e-9
"""Gaps of less than this share of the weight are of rounding."""


@result(eq=False)
class ClassShares(Result):
    """Result of :func:`class_shares`; arrays have one number per class."""

    classes: NDArray[Any] = doc("Label of each column.")
    predicted: Floats = doc("Mean probability of each class.")
    observed: Floats = doc("Share of rows that are of each class.")
    p_value: Floats = doc("How often calibrated predictions miss the share of a class by as much.")
    p_holm: Floats = doc("The same after Holm's correction for the number of classes.")


@of_predictions
def class_shares(predictions: Source) -> ClassShares:
    """Compare the mean probability of every class with the share of rows that are of it.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,), optional
        Weight 2 is the row twice in the shares; in the p-values it is one event that counts double.

    Notes
    -----
    If the predictions are right, the rows of a class are a sum of independent events, and its
    variance is known: the sum of p (1 - p). No such sum is more skewed than a Poisson variable of
    the same variance, so the p-value is twice the chance that one exceeds its mean by as much.
    Weights are counted in units of their mean over the rows that would be of the class. Of two
    classes one test is made; of more Holm's correction is for all.

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
       Journal of Statistics 6, 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import class_shares
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.uniform(0.0, 0.4, 2000)
    >>> found = class_shares(rng.random(2000) < positive / 2, positive)
    >>> f"{found.predicted[1]:.3f} predicted, {found.observed[1]:.3f} observed"
    '0.200 predicted, 0.101 observed'
    >>> bool(found.p_holm[1] < 1e-9)
    True
    """
    n_classes = len(predictions.classes)
    bodies = {"bins": ClassBins(n_classes, 1), "moments": ClassMoments(n_classes)}
    return judge_shares(predictions.classes, **predictions.add_up(bodies))


class ClassMoments(RowSums):
    """Sums of squared weights, with the probability of each class and with its square."""

    name = "class moments"
    power = 2
    is_drawn = False

    def __init__(self, n_classes: int) -> None:
        super().__init__(2, n_classes, 3)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        rows, square = chunk.rows, chunk.weight * chunk.weight
        cells = np.zeros(rows.shape, dtype=np.int32)
        add_binned_classes(rows, chunk.class_index, square, cells, 1, sums[0])
        add_binned_classes(rows * rows, chunk.class_index, square, cells, 1, sums[1])


def judge_shares(classes: NDArray[Any], bins: SummedState, moments: SummedState) -> ClassShares:
    """Compare the shares of all classes from sums over rows."""
    by_class = bins.total.sum(axis=1)
    weight, happened, said = (by_class[:, column] for column in (WEIGHT, HIT, VALUE))
    first, second = moments.total[:, :, VALUE]
    p_value = chances(said - happened, first, second, said, weight)
    # The probabilities of two classes add up to one, so that both tests are the same.
    corrected = np.full(2, p_value.min()) if len(classes) == 2 else holm(p_value)
    return ClassShares(classes.copy(), said / weight, happened / weight, p_value, corrected)


def chances(gap: Floats, first: Floats, second: Floats, said: Floats, weight: Floats) -> Floats:
    """P-values of gaps between sums of events and of their probabilities.

    ``first`` and ``second`` are the sums of w^2 p and w^2 p^2, ``said`` those of w p.
    """
    # The square of a weight may be too small to be counted where the weight itself is not.
    size = np.divide(first, said, out=np.ones_like(said), where=(said > 0) & (first > 0))
    variance = np.maximum(first - second, 0.0) / size**2
    found: Floats = np.minimum(2.0 * gammainc(variance + np.abs(gap) / size, variance), 1.0)
    return np.where(np.abs(gap) <= GAP_OF_ROUNDING * weight, 1.0, found)


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjust p-values so that the chance of any false alarm is kept (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted
