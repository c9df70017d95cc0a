"""The experiment of the paper: methods x classifiers -> one table, and what is drawn of it.

Names are loaded when they are first used, so that worker processes start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.lazy import lazily

if TYPE_CHECKING:
    from calibrant.study.make_predictions import from_estimator, from_torch
    from calibrant.study.outputs import write_outputs
    from calibrant.study.run import run_study
    from calibrant.study.simulate import simulate_imagenet
    from calibrant.study.storage import read_table, write_table
    from calibrant.study.table import StudyRow, StudyTable
    from calibrant.study.text_models import train_text_models

_HOME = {
    "StudyRow": "table",
    "StudyTable": "table",
    "from_estimator": "make_predictions",
    "from_torch": "make_predictions",
    "read_table": "storage",
    "run_study": "run",
    "simulate_imagenet": "simulate",
    "train_text_models": "text_models",
    "write_outputs": "outputs",
    "write_table": "storage",
}

__all__ = [
    "StudyRow",
    "StudyTable",
    "from_estimator",
    "from_torch",
    "read_table",
    "run_study",
    "simulate_imagenet",
    "train_text_models",
    "write_outputs",
    "write_table",
]

__getattr__, __dir__ = lazily(__name__, _HOME)
