"""The experiment of the paper: methods x classifiers -> one table, and what is drawn of it.

Names are loaded when they are first used, so that worker processes start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.lazy import attach

if TYPE_CHECKING:
    from calibrant.study.calarena import read_results, win_rates
    from calibrant.study.make_predictions import from_estimator, from_torch
    from calibrant.study.outputs import write_outputs
    from calibrant.study.run import run_study
    from calibrant.study.table import StudyTable, read_table, write_table

_HOMES = {
    "StudyTable": "calibrant.study.table",
    "from_estimator": "calibrant.study.make_predictions",
    "from_torch": "calibrant.study.make_predictions",
    "read_results": "calibrant.study.calarena",
    "read_table": "calibrant.study.table",
    "run_study": "calibrant.study.run",
    "win_rates": "calibrant.study.calarena",
    "write_outputs": "calibrant.study.outputs",
    "write_table": "calibrant.study.table",
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
