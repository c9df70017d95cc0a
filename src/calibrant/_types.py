"""Types that many signatures name: arrays by what is in them, and labels of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]
Bools = NDArray[np.bool_]

Array = NDArray[np.generic]
"""An array of anything: its values are moved or compared, and nothing is calculated with them."""

Labels = NDArray[np.generic]
"""Labels of rows or of columns: numbers, text or whatever the caller has."""

Label = str | bytes | bool | int | float | np.generic
"""The label of one class."""
