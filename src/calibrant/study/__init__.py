"""The experiment of the paper: methods x classifiers -> one table, and what is drawn of it.

Names are loaded when they are first used, so that worker processes start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._lazy import attach

if TYPE_CHECKING:
    from calibrant.study._calarena import read_results, win_rates
    from calibrant.study._make_predictions import from_estimator, from_torch
    from calibrant.study._outputs import write_outputs
    from calibrant.study._run import run_study
    from calibrant.study._table import StudyTable, read_table, write_table

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

__all__ = [
    "StudyTable",
    "from_estimator",
    "from_torch",
    "read_results",
    "read_table",
    "run_study",
    "win_rates",
    "write_outputs",
    "write_table",
]
__getattr__, __dir__ = attach(__name__, _HOMES)
