"""Calibration errors that chance gives calibrated predictions, from sums over rows alone.

If the predictions are right, the hits of a bin are a sum of independent events of known
probabilities: of rows in chunks their mean and variance are counted, and hits are drawn from the
normal distribution that has both, instead of row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import _threads as threads
from calibrant import errors
from calibrant._kernels.metrics import HIT, VALUE, WEIGHT, add_binned, add_cell_products
from calibrant.metrics._bins import ProblemBins, bin_edges, check_bins, uniform_bins
from calibrant.metrics._measures import RowSums
from calibrant.metrics._resampling import generator

if TYPE_CHECKING:
    from calibrant._maps.base import Floats, Wholes
    from calibrant.metrics._chunk import Chunk
    from calibrant.metrics._measures import SummedState

MOST_COVARIANCES = 1 << 10
"""Bins of all classes whose covariances are counted: 16 MiB."""


class BinMoments(RowSums):
    """Sums of squared weights, and with the value and its square, in the bins of a problem."""

    name = "bin moments"
    power = 2
    is_drawn = False

    def __init__(self, n_bins: int, column: int | None = None) -> None:
        check_bins(n_bins)
        self._n_bins, self._column = int(n_bins), column
        super().__init__(2, self._n_bins, 3)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Add w^2, w^2 p and w^2 p^2 to the bins."""
        values, hits, weight = chunk.events(self._column)
        bins, square = uniform_bins(values, bin_edges(self._n_bins)), weight * weight
        none = np.zeros_like(hits)
        add_binned(values, none, square, bins, sums[0])
        add_binned(values * values, none, square, bins, sums[1])


class CellProducts(RowSums):
    """Sums of w^2 p_j p_l over rows, by the bins of both: covariances of the labels of classes."""

    name = "cell products"
    power = 2
    is_drawn = False

    def __init__(self, n_classes: int, n_bins: int) -> None:
        check_bins(n_bins)
        if n_classes * n_bins > MOST_COVARIANCES:
            raise errors.ParameterError(
                f"{n_classes} classes of {n_bins} bins have too many covariances to be counted in "
                f"chunks, which {MOST_COVARIANCES} bins in all allow; test metric='confidence', "
                f"take n_bins={max(MOST_COVARIANCES // n_classes, 1)}, or test some rows in memory"
            )
        self._n_classes, self._n_bins = n_classes, int(n_bins)
        super().__init__(n_classes * self._n_bins, n_classes * self._n_bins)

    def add(self, chunk: Chunk, sums: Wholes) -> None:
        """Add products of all pairs of classes."""
        bins = uniform_bins(chunk.rows, bin_edges(self._n_bins))
        add_cell_products(chunk.rows, bins, chunk.weight * chunk.weight, self._n_bins, sums)


def covariance(sums: Floats) -> Floats:
    """Return the covariance of the weighted labels in all (class, bin), if they are drawn.

    Of one row it is p_j (1 - p_j), and -p_j p_l for two classes; p_j is the sum of p_j p_l over all
    classes, so that the sums of ``CellProducts`` are enough.
    """
    products = sums + sums.T - np.diag(np.diag(sums))
    return np.diag(products.sum(axis=1)) - products


def problem_bodies(n_bins: int, column: int | None) -> dict[str, RowSums]:
    """Return what is added up for the rows of a binary problem, to be judged without them."""
    return {"bins": ProblemBins(n_bins, column=column), "moments": BinMoments(n_bins, column)}


def null_problem(
    bins: SummedState,
    moments: SummedState,
    n_resamples: int,
    random_state: Any,
    *,
    replace: bool = False,
) -> Floats:
    """Weight, hits and values in each bin of each resample, as ``resampling.null_bins`` has them.

    With ``replace`` the mean value of a bin varies as that of rows drawn with replacement; the
    weight of a bin does not.
    """
    in_bin = bins.total[0]
    squares, second, third = moments.total[[0, 0, 1], :, [WEIGHT, VALUE, VALUE]]
    mean = np.divide(
        in_bin[:, VALUE], in_bin[:, WEIGHT], out=np.zeros(len(in_bin)), where=in_bin[:, WEIGHT] > 0
    )
    spread = np.maximum(third - 2.0 * mean * second + mean * mean * squares, 0.0)
    noise = generator(random_state).standard_normal((2, n_resamples, len(in_bin)))
    sums = np.empty((n_resamples, len(in_bin), 3))
    sums[:, :, WEIGHT] = in_bin[:, WEIGHT]
    sums[:, :, VALUE] = in_bin[:, VALUE] + (np.sqrt(spread) * noise[1] if replace else 0.0)
    sums[:, :, HIT] = sums[:, :, VALUE] + np.sqrt(np.maximum(second - third, 0.0)) * noise[0]
    return sums


def null_classes(
    bins: SummedState, products: SummedState, n_resamples: int, random_state: Any
) -> Floats:
    """Class-wise error of each resample."""
    n_classes, weight = len(bins.total), float(bins.total[0, :, WEIGHT].sum())
    with threads.few_blas_threads(0):
        values, vectors = np.linalg.eigh(covariance(products.total))
        noise = generator(random_state).standard_normal((n_resamples, len(values)))
        gaps = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    found: Floats = np.abs(gaps).sum(axis=1) / (n_classes * weight)
    return found
