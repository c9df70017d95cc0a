"""Run the experiment of the paper: methods x classifiers, with tables and figures.

Names are loaded when they are first used, so that worker processes start quickly.
"""

from __future__ import annotations

from calibrant._lazy import attach

_HOMES = {
    "StudyTable": "calibrant.study._table",
    "from_estimator": "calibrant.study._make_predictions",
    "from_torch": "calibrant.study._make_predictions",
    "read_results": "calibrant.study._calarena",
    "read_table": "calibrant.study._table",
    "run_study": "calibrant.study._run",
    "win_rates": "calibrant.study._calarena",
    "write_outputs": "calibrant.study._outputs",
    "write_table": "calibrant.study._table",
}
"""The module of every public name."""

__all__ = sorted(_HOMES)  # noqa: PLE0605  (a list)
__getattr__, __dir__ = attach(__name__, _HOMES)
