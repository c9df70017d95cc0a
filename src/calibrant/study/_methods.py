"""Which methods a study compares."""

from __future__ import annotations

from calibrant._calibrators.methods import methods
from calibrant._trial import UNCALIBRATED
from calibrant.study._searches import PaperSearch

PAPER_METHODS = (UNCALIBRATED, *(name for name, cls in methods().items() if cls.in_paper))
"""Columns of the paper's Table 2, in its order."""

DEFAULT_METHODS = (*PAPER_METHODS, "auto")
"""What a study compares if nothing is said."""

ALL_METHODS = tuple(
    name for name, cls in methods(study=True).items() if not issubclass(cls, PaperSearch)
)
"""Every method; the searches for NA-FIR, which is among them, run where they are named."""
