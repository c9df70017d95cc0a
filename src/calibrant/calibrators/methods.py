"""The short name of every calibrator, as the command line and the study use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import calibrant
from calibrant.simplex import check_option

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

METHODS = {
    #"na-fir": "NormalizationAwareIsotonic",
    #"scir": "SortedCumulativeIsotonic",
    "fir": "FlattenedIsotonic",
    "ir-ovr": "OneVsRestIsotonic",
    "ts": "TemperatureScaling",
    "vs": "VectorScaling",
    "ms": "MatrixScaling",
}
"""Short name -> class, in the order of the paper's tables."""


def make_calibrator(method: str, **parameters: Any) -> Calibrator:
    """Return an unfitted calibrator by its short name.

    Parameters
    ----------
    method : str
        A key of ``METHODS``.
    **parameters
        Passed to the constructor.

    Returns
    -------
    calibrator : Calibrator

    Examples
    --------
    >>> from calibrant.calibrators.methods import make_calibrator
    >>> make_calibrator("ts", scores="logits")
    TemperatureScaling(scores='logits')
    """
    check_option("method", method, tuple(METHODS))
    cls = getattr(calibrant, METHODS[method])
    calibrator: Calibrator = cls(**parameters)
    return calibrator
