"""Run the experiment of the paper: methods x classifiers, with tables and figures.

Here is also what only the paper compares with: histogram binning, BBQ, sCW and M2B, its own
estimators without our priors, and its five searches for NA-FIR. They are known as methods by their
names once this module is imported; the command imports it when it is asked for one of them. Other
names are loaded when they are first used, so that worker processes start quickly.
"""

from __future__ import annotations

from calibrant._extras import attach
from calibrant.study import _histogram, _paper, _searches, _top_label

_NAMES = {
    _searches: "Annealing Penalty ProjectedGradient SLSQP TrustConstr",
    _paper: "PaperMatrix PaperNormalizationAware PaperOneVsRestIsotonic PaperSortedCumulative "
    "PaperTemperature PaperVector",
    _histogram: "OneVsRestBBQ OneVsRestHistogram SharedClasswise",
    _top_label: "TopLabelHistogram TopLabelIsotonic",
}
_HOMES = {name: home.__name__ for home, names in _NAMES.items() for name in names.split()} | {
    "ArenaCalibrator": "calibrant.study._calarena",
    "StudyTable": "calibrant.study._table",
    "read_results": "calibrant.study._calarena",
    "read_table": "calibrant.study._table",
    "run_study": "calibrant.study._run",
    "win_rates": "calibrant.study._calarena",
    "write_outputs": "calibrant.study._outputs",
    "write_table": "calibrant.study._table",
}
"""The module of every public name."""

__all__ = sorted(_HOMES)  # noqa: PLE0605  (a list)
__getattr__, _ = attach(__name__, _HOMES, ("probmetrics",))


def __dir__() -> list[str]:
    return __all__
