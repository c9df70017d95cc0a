"""``StepFunction``: what an isotonic fit is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class StepFunction:
    """A non-decreasing step function on [0, 1], continuous from the right.

    Attributes
    ----------
    thresholds : ndarray of shape (n_blocks,)
        Where each block starts, strictly increasing; the first is 0.
    values : ndarray of shape (n_blocks,)
        Value of each block, not negative, non-decreasing.
    sizes : ndarray of shape (n_blocks,)
        Total weight of the calibration cells in each block.

    Examples
    --------
    >>> from calibrant.step_function import StepFunction
    >>> step = StepFunction([0.0, 0.5], [0.1, 0.8], [30.0, 10.0])
    >>> step([0.2, 0.5, 0.9])
    array([0.1, 0.8, 0.8])
    """

    thresholds: NDArray[np.float64]
    values: NDArray[np.float64]
    sizes: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("thresholds", "values", "sizes"):
            array = np.array(getattr(self, name), dtype=np.float64, order="C")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        t, v = self.thresholds, self.values
        if not (t.ndim == 1 and t.shape == v.shape == self.sizes.shape and t.size > 0):
            raise ParameterError("thresholds, values and sizes must be 1-D, alike, not empty")
        if not np.all(np.isfinite(t)) or t[0] != 0 or t[-1] > 1 or np.any(np.diff(t) <= 0):
            raise ParameterError("thresholds must start at 0 and increase strictly within [0, 1]")
        if not np.all(np.isfinite(v)) or v[0] < 0 or np.any(np.diff(v) < 0):
            raise ParameterError("values must be finite, not negative and non-decreasing")

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """Value at each ``x``; below 0 as at 0."""
        block = np.searchsorted(self.thresholds, np.asarray(x, dtype=np.float64), side="right") - 1
        return self.values[np.maximum(block, 0)]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.values)
