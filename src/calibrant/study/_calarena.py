"""CalArena: its contract, results in its files, one per method, and win rates over any of them.

CalArena (Berta et al., 2026, arXiv:2605.30188) keeps ``results/{benchmark}/{method}.csv`` with a
line for each classifier and the columns ``{method}_brier``, ``{method}_logloss``, ... Ours are
called ``calibrant-`` and the method.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from calibrant import _gate as gate
from calibrant import errors
from calibrant._atomic_file import replace_file
from calibrant._calibrators.methods import make_calibrator
from calibrant._trial import UNCALIBRATED
from calibrant.errors import DataError, ParameterError
from calibrant.study._ranks import as_losses, resample_means

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from calibrant._calibrators.base import Calibrator
    from calibrant._types import Floats
    from calibrant.study._cell import Cell, Outcome


NAME_PREFIX = "calibrant-"
"""Prefix of the names of our methods among those of others."""


class ArenaCalibrator(BaseEstimator):
    """Calibrator for columns that are the classes 0, 1, ..., k - 1, as CalArena calls it.

    CalArena passes probabilities of k classes, or of the second of two classes alone, and column
    numbers as labels. Some of its calibration sets lack classes.

    Parameters
    ----------
    calibrator : str or Calibrator, default="auto"
        A key of ``methods()``, or an unfitted calibrator of probabilities.

    Attributes
    ----------
    calibrator_ : Calibrator
        The fitted one.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.datasets import simulated_scores
    >>> from calibrant.study import ArenaCalibrator
    >>> p_cal, y_cal = simulated_scores(500)
    >>> seen = y_cal != 2
    >>> found = ArenaCalibrator("ts").fit(p_cal[seen].astype(np.float32), y_cal[seen])
    >>> found.predict_proba(p_cal).shape
    (500, 3)
    """

    def __init__(self, calibrator: str | Calibrator = "auto") -> None:
        self.calibrator = calibrator

    def fit(self, p_cal: ArrayLike, y_cal: ArrayLike) -> Self:
        """Fit to rows of probabilities and numbers of columns; returns itself."""
        rows = _columns(p_cal)
        own = self.calibrator
        made = make_calibrator(own) if isinstance(own, str) else clone(own)
        if made.scores != "probabilities":
            raise errors.ParameterError(
                f"calibrator has scores={made.scores!r}, but CalArena gives probabilities; use "
                "scores='probabilities'",
                argument="calibrator",
            )
        made.set_params(classes=np.arange(rows.shape[1]))
        self.calibrator_ = made.fit(rows, y_cal)
        return self

    def predict_proba(self, p_test: ArrayLike) -> Floats:
        """Return calibrated rows, also of a binary problem one column per class."""
        check_is_fitted(self)
        return np.asarray(self.calibrator_.predict_proba(_columns(p_test)))


def _columns(scores: ArrayLike) -> Floats:
    """Return one column per class, in float64, where the second of two stands alone."""
    rows = np.asarray(scores, dtype=np.float64)
    if rows.ndim > 1 and rows.shape[1:] != (1,):
        return rows
    positive = rows.reshape(-1)
    return np.stack([1.0 - positive, positive], axis=1)


BASE_MODEL = "Base-model"
KEYS = ["dataset", "model", "cal_size", "test_size"]
METRICS = ("brier", "logloss", "ece-15", "accuracy")
ENOUGH_DATASETS = 30
"""Number of data sets from which on intervals draw these, not experiments, as their figures do."""


def arena_name(method: str) -> str:
    """Return what a method of a study is called among CalArena's."""
    return BASE_MODEL if method == UNCALIBRATED else f"{NAME_PREFIX}{method}"


def write_results(done: Iterable[tuple[Cell, Outcome]], directory: Path) -> None:
    """Write ``{benchmark}/{method}.csv`` of all cells whose file is HDF5."""
    tables: dict[tuple[str, str], list[tuple[Cell, Outcome]]] = {}
    for cell, outcome in done:
        if cell.file.is_group:
            tables.setdefault((cell.file.path.stem, cell.method), []).append((cell, outcome))
    for (benchmark, method), cells in tables.items():
        path = directory / benchmark / f"{arena_name(method)}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame([_line(cell, outcome) for cell, outcome in cells])
        if all(cell.file.is_binary for cell, _ in cells):
            frame = frame.drop(columns="n_classes")  # as in their binary benchmarks
        with replace_file(path) as file:
            file.write(frame.to_csv(index=False).encode())


def _line(cell: Cell, outcome: Outcome) -> dict[str, object]:
    """Return an experiment in the columns of CalArena, empty where the method failed."""
    file, name = cell.file, arena_name(cell.method)
    result: dict[str, float | None] = {}
    if outcome.error is None:
        values = pd.Series(outcome.metrics, dtype=float)
        result = {
            "brier": values["brier"] * file.n_classes,  # theirs is a sum over classes
            "logloss": outcome.log_loss,
            # Of two classes theirs bins the probability of one of them.
            "ece-15": values["cw-ece" if file.n_classes == 2 else "conf-ece"],
            "accuracy": values["accuracy"],
            "time": (outcome.seconds or 0.0) + (outcome.predict_seconds or 0.0),
        }
    return {
        "dataset": file.dataset,
        "model": file.model,
        "cal_size": file.n_val,
        "test_size": file.n_test,
        "n_classes": file.n_classes,
        **{f"{name}_{key}": result.get(key) for key in (*METRICS, "time")},
    }


def read_results(directory: str | os.PathLike[str]) -> dict[str, pd.DataFrame]:
    """Read all result files of a directory.

    Parameters
    ----------
    directory : path-like
        Directory with a file ``{method}.csv`` for each method, as CalArena and studies write them.

    Returns
    -------
    results : dict of str to DataFrame
        For each method, a row per experiment and a column per metric; NaN where empty.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from calibrant.study import read_results
    >>> path = Path(tempfile.mkdtemp()) / "TS.csv"
    >>> with path.open("w") as file:
    ...     print("dataset,model,cal_size,test_size,TS_brier", file=file)
    ...     print("c10,lenet5,5000,10000,0.1", file=file)
    >>> read_results(path.parent)["TS"]["brier"].tolist()
    [0.1]
    """
    home = Path(directory)
    paths = sorted(home.glob("*.csv"))
    if not paths:
        raise DataError(f"{home} has no result files {{method}}.csv")
    return {path.stem: _read(path) for path in paths}


def _read(path: Path) -> pd.DataFrame:
    prefix = f"{path.stem}_"
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False).set_index(KEYS)
        own = sorted({f"{prefix}brier", *(name for name in frame if name.startswith(prefix))})
        numbers = frame[own].replace("", "nan").astype(float)
    except (ValueError, KeyError) as error:
        raise DataError(f"{path} is not a result file of CalArena: {error}") from error
    numbers.columns = [name.removeprefix(prefix) for name in own]
    return numbers[~numbers.index.duplicated(keep="last")]


def win_rates(*directories: str | os.PathLike[str], metric: str = "brier") -> pd.DataFrame:
    """Compute the win rate of every method, as CalArena does.

    A method wins against another in an experiment if it is strictly better there; a tie is a win
    for neither. Only experiments that all methods have count.

    Parameters
    ----------
    *directories : path-like
        With result files ``{method}.csv`` of one benchmark: those of a study, which are in
        ``OUT/calarena/{benchmark}``, and those of CalArena, in ``results/{benchmark}``. Of two
        files with one name the first counts.
    metric : {"brier", "logloss", "ece-15", "accuracy"}, default="brier"
        Metric to compare.

    Returns
    -------
    rates : DataFrame
        A row for each method, the best first: ``score``, the mean over experiments and other
        methods; ``lower`` and ``upper``, which 95 % of 1,000 resamples are between, of data sets
        if there are 30 or more, otherwise of experiments; ``experiments``, their number.

    Raises
    ------
    DataError
        If a file cannot be read, or no experiment is in all of them.
    ParameterError
        If the metric is not known, or there is only one method.

    Notes
    -----
    A method that failed loses against every other.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from calibrant.study import win_rates
    >>> home = Path(tempfile.mkdtemp())
    >>> for method, brier in (("TS", 0.11), ("calibrant-auto", 0.1)):
    ...     with (home / f"{method}.csv").open("w") as file:
    ...         print(f"dataset,model,cal_size,test_size,{method}_brier", file=file)
    ...         print(f"c10,lenet5,5000,10000,{brier}", file=file)
    >>> win_rates(home)
                    score  lower  upper  experiments
    method
    calibrant-auto    1.0    1.0    1.0            1
    TS                0.0    0.0    0.0            1
    """
    gate.check_option("metric", metric, METRICS)
    results: dict[str, pd.DataFrame] = {}
    for directory in directories:
        results = {**read_results(directory), **results}
    names = sorted(results)
    if len(names) < 2:
        raise ParameterError(
            f"directories={tuple(map(str, directories))} have the methods {names}; pass files of "
            "at least two",
            argument="directories",
            value=directories,
        )
    keys = results[names[0]].index
    for name in names[1:]:
        keys = keys.intersection(results[name].index)
        if not len(keys):
            raise DataError(
                f"{name}.csv has none of the experiments of {names[0]}.csv; put the files of one "
                "benchmark into one directory"
            )
    values = pd.DataFrame({name: results[name].reindex(columns=[metric])[metric] for name in names})
    losses = as_losses(values.loc[keys], metric).to_numpy()
    wins = (losses[:, :, None] < losses[:, None, :]).sum(axis=2) / (len(names) - 1)
    groups = keys.get_level_values("dataset")
    if groups.nunique() < ENOUGH_DATASETS:
        groups = np.arange(len(keys))
    lower, upper = np.percentile(resample_means(wins, groups, 1000), [2.5, 97.5], axis=0)
    result = {"score": wins.mean(axis=0), "lower": lower, "upper": upper, "experiments": len(keys)}
    rates = pd.DataFrame(result, index=pd.Index(names, name="method"))
    return rates.sort_values("score", ascending=False, kind="stable")
