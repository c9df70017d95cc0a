"""Which methods a study compares."""

from __future__ import annotations

from calibrant._calibrators.methods import methods
from calibrant._trial import UNCALIBRATED
from calibrant.study._searches import PaperSearch

PAPER_METHODS = (UNCALIBRATED, *(name for name, cls in methods().items() if cls.in_paper))
"""Columns of the paper's Table 2, in its order."""

PAPER_ESTIMATORS = {
    "na-fir": "na-fir-paper",
    "scir": "scir-paper",
    "fir": "fir",
    "ir-ovr": "ir-ovr-paper",
    "ts": "ts-paper",
    "vs": "vs-paper",
    "ms": "ms-paper",
    UNCALIBRATED: UNCALIBRATED,
}
"""The paper's own estimators of these columns, without our priors."""

ON_LOGITS = frozenset({"vs", "ms", "ts-paper", "vs-paper", "ms-paper"})
"""Methods that get logits from a file that has both: a matrix sees what softmax takes away.

Temperature scaling of logits and of log-probabilities is one map; of the paper's row, too, the
logits are read, since probabilities may have underflowed to 0.
"""

DEFAULT_METHODS = (*PAPER_METHODS, "auto")
"""What a study compares if nothing is said."""

ALL_METHODS = tuple(
    name for name, cls in methods(study=True).items() if not issubclass(cls, PaperSearch)
)
"""Every method; the searches for NA-FIR, which is among them, run where they are named."""
