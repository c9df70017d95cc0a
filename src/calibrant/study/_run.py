"""``run_study``: every method on every prediction file, in processes, resumable."""

from __future__ import annotations

import datetime as dt
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from calibrant import _gate as gate
from calibrant import errors
from calibrant._calibrators.methods import methods as all_methods
from calibrant._threads import count_threads
from calibrant._trial import UNCALIBRATED
from calibrant.study._calarena import write_results
from calibrant.study._cell import Cell, Outcome, Records, measure
from calibrant.study._files import find_files
from calibrant.study._methods import ALL_METHODS, DEFAULT_METHODS
from calibrant.study._table import TYPES, StudyTable, write_table
from calibrant.study._workers import compute

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

SQUARE = frozenset({"ms", "dirichlet", "structured", "auto"})
"""Methods with a parameter for each pair of classes."""


def run_study(
    directory: str | os.PathLike[str],
    output: str | os.PathLike[str],
    methods: Sequence[str] | Literal["all"] | None = None,
    *,
    n_jobs: int | None = None,
    seed: int = 0,
    retry_failed: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    message: Callable[[str], None] | None = None,
) -> StudyTable:
    """Fit every method to every prediction file of a directory, and evaluate it.

    Every finished cell (a method on a file) is kept in ``output/cells``. When the study is run
    again, after a crash or with more files or methods, only the cells that are missing are
    computed. Cells are computed again if the file, the seed or the version of this package
    changed.

    Parameters
    ----------
    directory : path-like
        With files ``dataset_model.npz`` that hold ``val_labels``, ``test_labels`` and
        ``val_probs``, ``test_probs`` (or ``val_logits``, ``test_logits``). Methods are fitted on
        the val part and judged on the test part. HDF5 files, in a directory or alone, hold groups
        ``dataset/model`` with ``probas_cal``, ``labels_cal``, ``probas_test`` and ``labels_test``,
        as those of CalArena; they need h5py. Other files are left alone.
    output : path-like
        Directory for the cells, the table (``study.csv``, and ``study.parquet`` where pyarrow is
        installed) and ``study.log``; of HDF5 files also ``calarena/{file}/{method}.csv``, in
        CalArena's columns. Made if it is not there.
    methods : sequence of str or "all", optional
        Short names of methods; by default the paper's and "auto". "all" is every method but the
        paper's searches for NA-FIR. The uncalibrated predictions are always judged as well.
    n_jobs : int, optional
        Number of processes, with one thread each; all cores by default. 0 computes in this
        process.
    seed : int, default=0
        Seed of methods that draw random numbers.
    retry_failed : bool, default=False
        Whether to compute cells again in which the method failed.
    progress : callable, optional
        Called as ``progress(done, total, "study")`` at the start and after each cell.
    message : callable, optional
        Called with each line of the log: failures, and files that were skipped.

    Returns
    -------
    table : StudyTable
        Results; equal for equal seeds, except for the seconds.

    Raises
    ------
    PredictionFileError
        If there is no prediction file.
    ParameterError
        If a method is not known.

    Notes
    -----
    A method that fails on a file, or crashes its process twice, gives NaN and a line in the log.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from calibrant.datasets import overconfident_digits
    >>> from calibrant.study import run_study
    >>> home = Path(tempfile.mkdtemp())
    >>> names = ("val_probs", "val_labels", "test_probs", "test_labels")
    >>> np.savez(home / "digits_network.npz", **dict(zip(names, overconfident_digits())))
    >>> table = run_study(home, home / "out", ["ts", "na-fir"], n_jobs=0)
    >>> table.wide("nll").round(2)
    method          uncalibrated  na-fir    ts
    dataset model
    digits  network          1.0    0.86  0.86
    """
    wanted = _check_methods(methods)
    gate.check_number("seed", seed, low=0, whole=True)
    n_workers = count_threads(-1) if n_jobs is None else n_jobs
    gate.check_number("n_jobs", n_workers, low=0, whole=True)
    files, skipped = find_files(directory)
    home = Path(output)
    records = Records(home / "cells")
    log = partial(_log, home / "study.log", message)
    for name, reason in skipped.items():
        log(f"{name} skipped: {reason}")
    cells = [Cell(file, method, int(seed)) for file in files for method in wanted]
    waiting = []
    for cell in cells:
        known = records.read(cell)
        if known is None or (retry_failed and known[0].error is not None):
            waiting.append(cell)
    tell = progress or (lambda *_: None)
    n_done = len(cells) - len(waiting)
    tell(n_done, len(cells), "study")
    waiting = longest_first(waiting)
    here = ((cell, measure(cell)) for cell in waiting)
    outcomes = compute(measure, waiting, n_workers) if n_workers else here
    for done, (cell, result) in enumerate(outcomes, n_done + 1):
        outcome = result or Outcome(error="its process died twice")
        records.write(cell, outcome)
        if outcome.error is not None:
            log(f"{cell.file.name}: {cell.method} failed: {outcome.error}")
        tell(done, len(cells), "study")
    return _finish(cells, records, home)


def _check_methods(methods: Sequence[str] | None) -> tuple[str, ...]:
    """Return the methods without repetition, the uncalibrated predictions first."""
    if methods is None or methods == "all":
        methods = DEFAULT_METHODS if methods is None else ALL_METHODS
    if isinstance(methods, str):
        raise errors.ParameterError(
            f"methods={methods!r} must be a sequence of names", argument="methods", value=methods
        )
    for method in methods:
        gate.check_option("method", method, (UNCALIBRATED, *all_methods(study=True)))
    return tuple(dict.fromkeys((UNCALIBRATED, *methods)))


def longest_first(cells: Iterable[Cell]) -> list[Cell]:
    """Order cells so that no long one starts when the others have ended."""

    def cost(cell: Cell) -> int:
        file = cell.file
        numbers = (file.n_val + file.n_test) * file.n_classes
        return numbers * file.n_classes if cell.method in SQUARE else numbers

    return sorted(cells, key=lambda cell: (-cost(cell), cell.name))


def _finish(cells: list[Cell], records: Records, output: Path) -> StudyTable:
    """Assemble the table from the records, and write it."""
    rows, done = [], []
    for cell in cells:
        result = records.read(cell)
        if result is None:
            raise errors.DataError(f"the record {records.path(cell)} is missing or damaged")
        outcome, computed_with = result
        done.append((cell, outcome))
        label = (cell.file.dataset, cell.file.model, cell.method)
        rows += [
            (*label, metric, value, outcome.seconds, computed_with)
            for metric, value in outcome.metrics.items()
        ]
    table = StudyTable(pd.DataFrame(rows, columns=list(TYPES)))
    for suffix in ("csv", "parquet") if find_spec("pyarrow") else ("csv",):
        write_table(table, output / f"study.{suffix}")
    write_results(done, output / "calarena")
    return table


def _log(path: Path, message: Callable[[str], None] | None, text: str) -> None:
    """Add a line with the time to a file, and tell whoever listens."""
    now = dt.datetime.now(dt.UTC).isoformat(" ", "seconds")[:19]
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{now} UTC  {text}\n")
    if message is not None:
        message(text)
