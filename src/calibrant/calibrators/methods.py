"""The short name of every calibrator, as the command line and the study use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import calibrant

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator

METHODS = {
    "na-fir": "NormalizationAwareIsotonic",
    "scir": "SortedCumulativeIsotonic",
    "fir": "FlattenedIsotonic",
    "ir-ovr": "OneVsRestIsotonic",
    "ts": "TemperatureScaling",
    "vs": "VectorScaling",
    "ms": "MatrixScaling",
    "dirichlet": "DirichletCalibration",
    "platt-ovr": "OneVsRestPlatt",
    "beta-ovr": "OneVsRestBeta",
    "hb-ovr": "OneVsRestHistogram",
    "bbq-ovr": "OneVsRestBBQ",
    "scw": "SharedClasswise",
    "m2b-hb": "TopLabelHistogram",
    "m2b-ir": "TopLabelIsotonic",
    "structured": "StructuredScaling",
    "spline": "MonotoneSpline",
    "auto": "AutoCalibrator",
}
"""Short name -> class: first those of the paper's tables, in their order."""


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
    from calibrant.simplex import check_option  # here: the names alone are quick to import

    check_option("method", method, tuple(METHODS))
    cls = getattr(calibrant, METHODS[method])
    calibrator: Calibrator = cls(**parameters)
    return calibrator
