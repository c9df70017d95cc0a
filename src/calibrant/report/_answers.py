"""Answers of many models, read from the directories in which evaluations leave their logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibrant import _notices as notices
from calibrant._files.formats import files_below
from calibrant._files.logs import find_runs, read_logs
from calibrant._files.readers import FILE, QUESTION
from calibrant._files.source import Request
from calibrant.errors import CalibrantWarning, PredictionFileError, number_of, some_in_words
from calibrant.report._models import ModelAnswers

if TYPE_CHECKING:
    import os

    from calibrant._files.logs import Run
    from calibrant._files.source import Rows

TASK = "task"
"""Name of clusters that are the tasks of a group of tasks."""


def read_answers(
    path: str | os.PathLike[str], *, clusters: str | None = None
) -> list[ModelAnswers]:
    """Read the answers of all models below a directory of logs.

    Directories of lm-evaluation-harness (``--log_samples``), of Inspect and of HELM are read as
    they lie: the logs name model and task, and tasks of a group, such as ``mmlu``, are one. Other
    logs are ``model/task.jsonl``. Of several runs of a task, the newest is read. A log without
    scores of options is left out, with a warning.

    Parameters
    ----------
    path : path-like
        The directory.
    clusters : str, optional
        Field of each record, of its ``doc`` or of its ``metadata``, with the document or topic of
        the question; or "task", for the tasks of a group.

    Returns
    -------
    answers : list of ModelAnswers
        What :func:`compare_models` takes.

    Examples
    --------
    >>> from calibrant.report import compare_models, read_answers
    >>> answers = read_answers("tests/data/models", clusters="subject")
    >>> sorted(one.model for one in answers)
    ['falcon-40b-instruct', 'llama-2-70b-hf', 'mistral-7b-v0.1', 'yi-34b-chat']
    """
    home = Path(path)
    if not home.is_dir():
        raise PredictionFileError(
            f"{home} is not a directory; name one with logs of several models"
        )
    runs, older = find_runs(home, files_below(home, "log"))
    if older:
        names = some_in_words([str(run.file.relative_to(home)) for run in older])
        notices.warn(CalibrantWarning(f"newer runs take the place of {names}"))
    by_task: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_task.setdefault((run.model, run.task), []).append(run)
    answers, failures = [], []
    for (model, task), parts in by_task.items():
        try:
            answers.append(_read(home, model, task, parts, clusters))
        except PredictionFileError as error:
            failures.append(error)
    if not answers:
        if failures:
            raise failures[0]
        raise PredictionFileError(f"{home} has no logs of evaluations (.jsonl, .json, .eval)")
    if failures:
        left_out = f"{number_of(len(failures), 'log')} left out: {failures[0]}"
        notices.warn(CalibrantWarning(left_out))
    return answers


def _read(
    home: Path, model: str, task: str, parts: list[Run], clusters: str | None
) -> ModelAnswers:
    """Read the files of a task, of which there are several in a group of tasks."""
    more = {QUESTION: "QUESTION", FILE: "FILE"}
    named = None if clusters in (None, TASK) else str(clusters)
    if named is not None:
        more[named] = "--clusters"
    rows = read_logs(home, Request(more=more), [part.file for part in parts]).read()
    task_of = {str(part.file.relative_to(home)): part.part for part in parts}
    tasks = [task_of[str(file)] for file in rows.column(FILE).tolist()]
    questions = rows.column(QUESTION).tolist()
    items = [f"{part} {one}" for part, one in zip(tasks, questions, strict=True)]
    answers = replace(_to_answers(rows, model, task), items=items)
    if clusters is None:
        return answers
    own: list[str] = tasks if named is None else rows.column(named).astype(str).tolist()
    return replace(answers, clusters=own)


def _to_answers(rows: Rows, model: str, task: str) -> ModelAnswers:
    """Return scores and labels of the options, or whether answers were right."""
    if rows.labels is None:
        raise PredictionFileError(f"{rows.place.where([0])[0]}: the label is missing; fill it")
    if rows.is_stated:
        return ModelAnswers(rows.scores[:, 1], rows.labels == "true", model, task)
    scores, kind = rows.scores, rows.kind
    if rows.has_absent and kind == "probabilities":
        with np.errstate(divide="ignore"):
            scores, kind = np.log(scores), "logits"
    return ModelAnswers(scores, rows.labels, model, task, classes=rows.place.names, kind=kind)
