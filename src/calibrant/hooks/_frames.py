"""pandas: ``frame.calibrant.evaluate("label", "p_*")``."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from calibrant import errors, metrics

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from calibrant._calibrators.base import Calibrator


def register_accessor(name: str = "calibrant") -> type:
    """Give data frames of pandas an accessor: ``frame.calibrant``.

    Parameters
    ----------
    name : str, default="calibrant"
        Name of the accessor.

    Returns
    -------
    accessor : type
        Its class, with ``evaluate(label, columns)`` and ``calibrate(calibrator, columns)``.

    Examples
    --------
    >>> import pandas as pd
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.hooks import register_accessor
    >>> accessor = register_accessor()
    >>> scores, y = simulated_scores(500)
    >>> frame = pd.DataFrame(scores, columns=["p_0", "p_1", "p_2"]).assign(label=y)
    >>> result = frame.calibrant.evaluate("label", "p_*")
    >>> 0.6 < result.accuracy.value < 0.9
    True
    """
    import pandas as pd

    registered: type = pd.api.extensions.register_dataframe_accessor(name)(FrameAccessor)
    return registered


class FrameAccessor:
    """Calibration of the predictions in a data frame.

    ``columns`` are those of the scores, by name or by a pattern such as ``"p_*"``.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def _rows(self, columns: str | list[str]) -> pd.DataFrame:
        """Return columns by name, or by a pattern."""
        wanted = columns
        if isinstance(columns, str):
            wanted = [c for c in self._frame.columns if fnmatchcase(str(c), columns)]
        if not wanted:
            known = errors.some_in_words(list(self._frame.columns))
            problem = f"no column is like {columns!r}; the data frame has {known}"
            raise errors.ColumnNameError(problem, argument="columns", value=columns)
        return self._frame[list(wanted)]

    def evaluate(
        self, label: str, columns: str | list[str], *, sample_weight: str | None = None
    ) -> metrics.Evaluation:
        """Return :func:`calibrant.metrics.evaluate` of probabilities; the rest are columns, too."""
        weight = None if sample_weight is None else self._frame[sample_weight]
        return metrics.evaluate(self._frame[label], self._rows(columns), sample_weight=weight)

    def calibrate(self, calibrator: Calibrator, columns: str | list[str]) -> np.ndarray:
        """Return the probabilities of a fitted calibrator."""
        return calibrator.predict_proba(self._rows(columns))
