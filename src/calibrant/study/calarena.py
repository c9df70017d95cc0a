"""Results in the files of CalArena, one per method, and win rates over any of them.

CalArena (Berta et al., 2026, arXiv:2605.30188) keeps ``results/{benchmark}/{method}.csv`` with a
line for each classifier and the columns ``{method}_brier``, ``{method}_logloss``, ... Ours are
called ``calibrant-`` and the method.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant import simplex
from calibrant.atomic_file import replace_file
from calibrant.errors import DataError, ParameterError
from calibrant.export.arena import PREFIX
from calibrant.trial import UNCALIBRATED

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from calibrant.study.cell import Cell, Outcome

    Key = tuple[str, str, str, str]
    Results = dict[str, dict[Key, dict[str, float]]]

BASE_MODEL = "Base-model"
KEYS = ("dataset", "model", "cal_size", "test_size")
METRICS = ("brier", "logloss", "ece-15", "accuracy")
ENOUGH_DATASETS = 30
"""From so many on, data sets are drawn for intervals, not experiments: as in their figures."""


class WinRate(NamedTuple):
    """How often a method is better than another: the mean over experiments and other methods.

    With the limits of an interval that 95 % of resamples are in.
    """

    method: str
    score: float
    lower: float
    upper: float


class WinRates(NamedTuple):
    """Win rates of all methods, best first, by one metric over so many experiments."""

    metric: str
    n_experiments: int
    methods: tuple[WinRate, ...]


def arena_name(method: str) -> str:
    """Return what a method of a study is called among CalArena's."""
    return BASE_MODEL if method == UNCALIBRATED else f"{PREFIX}{method}"


def write_results(done: Iterable[tuple[Cell, Outcome]], directory: Path) -> list[Path]:
    """Write ``{benchmark}/{method}.csv`` of all cells whose file is HDF5; return the paths."""
    tables: dict[tuple[str, str], list[tuple[Cell, Outcome]]] = {}
    for cell, outcome in done:
        if cell.file.is_group:
            tables.setdefault((cell.file.path.stem, cell.method), []).append((cell, outcome))
    paths = []
    for (benchmark, method), cells in tables.items():
        path = directory / benchmark / f"{arena_name(method)}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Their binary benchmarks do without the number of classes.
        without = {"n_classes"} if all(cell.file.is_binary for cell, _ in cells) else set()
        lines = [_line(cell, outcome) for cell, outcome in cells]
        kept = [name for name in lines[0] if name not in without]
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, kept, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
        with replace_file(path) as file:
            file.write(text.getvalue().encode())
        paths.append(path)
    return paths


def _line(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    """One experiment in their columns; nothing stands where the method failed."""
    file, values = cell.file, outcome["values"]
    found = {
        "brier": values["brier"] * file.n_classes,  # theirs is a sum over classes
        "logloss": outcome["log_loss"],
        # Of two classes theirs bins the probability of one of them.
        "ece-15": values["cw-ece" if file.n_classes == 2 else "conf-ece"],
        "accuracy": values["accuracy"],
        "time": outcome["seconds"] + outcome["predict_seconds"],
    }
    name = arena_name(cell.method)
    return {
        "dataset": file.dataset,
        "model": file.model,
        "cal_size": file.n_val,
        "test_size": file.n_test,
        "n_classes": file.n_classes,
        **{f"{name}_{key}": "" if math.isnan(one) else one for key, one in found.items()},
    }


def read_results(directory: str | os.PathLike[str]) -> Results:
    """Read all result files of a directory: numbers by method, experiment and metric.

    Parameters
    ----------
    directory : path-like
        With files ``{method}.csv``.

    Returns
    -------
    results : dict
        ``results[method][dataset, model, cal_size, test_size][metric]``; NaN where nothing stands.

    Raises
    ------
    DataError
        If there is no such file, or one is not like this.
    """
    home = Path(directory)
    paths = sorted(home.glob("*.csv"))
    if not paths:
        raise DataError(f"{home} has no result files {{method}}.csv")
    return {path.stem: _read(path) for path in paths}


def _read(path: Path) -> dict[Key, dict[str, float]]:
    with path.open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        missing = {*KEYS, f"{path.stem}_brier"}.difference(table.fieldnames or ())
        if missing:
            raise DataError(f"{path} is no result file of CalArena: no column {min(missing)!r}")
        prefix = f"{path.stem}_"
        found: dict[Key, dict[str, float]] = {}
        for line in table:
            key = (line["dataset"], line["model"], line["cal_size"], line["test_size"])
            try:
                found[key] = {
                    name.removeprefix(prefix): float(text or "nan")
                    for name, text in line.items()
                    if name and name.startswith(prefix)
                }
            except (TypeError, ValueError) as error:
                raise DataError(f"{path}, line {table.line_num}: {error}") from error
    return found


def win_rates(
    *directories: str | os.PathLike[str],
    metric: str = "brier",
    n_resamples: int = 1000,
    random_state: int = 0,
) -> WinRates:
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
        What is compared.
    n_resamples : int, default=1000
        For the intervals. Data sets are drawn where there are 30 or more, else experiments.
    random_state : int, default=0
        Of the resamples.

    Returns
    -------
    rates : WinRates

    Raises
    ------
    DataError
        If a file cannot be read, or no experiment is in all of them.
    ParameterError
        If the metric is not known, or there is only one method.

    Notes
    -----
    A method that failed, which theirs never does, loses against every other.

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
    >>> win_rates(home).methods[0]
    WinRate(method='calibrant-auto', score=1.0, lower=1.0, upper=1.0)
    """
    simplex.check_option("metric", metric, METRICS)
    simplex.check_number("n_resamples", n_resamples, low=1, whole=True)
    results: Results = {}
    for directory in directories:
        results = {**read_results(directory), **results}
    names = sorted(results)
    if len(names) < 2:
        raise ParameterError(
            f"directories={tuple(map(str, directories))} have the methods {names}; two or more are "
            "needed"
        )
    keys = _shared(results)
    losses = _losses(results, names, keys, metric)
    wins = (losses[:, :, None] < losses[:, None, :]).sum(axis=2) / (len(names) - 1)
    lower, upper = _limits(wins, [dataset for dataset, *_ in keys], n_resamples, random_state)
    rates = map(WinRate, names, wins.mean(axis=0).tolist(), lower.tolist(), upper.tolist())
    ordered = tuple(sorted(rates, key=lambda rate: (-rate.score, rate.method)))
    return WinRates(metric, len(keys), ordered)


def _shared(results: Results) -> list[Key]:
    """Experiments that all methods have."""
    first, *others = results
    keys = set(results[first])
    for method in others:
        both = keys.intersection(results[method])
        if keys and not both:
            raise DataError(
                f"{method}.csv has none of the experiments of {first}.csv; put the files of one "
                "benchmark beside each other"
            )
        keys = both
    return sorted(keys)


def _losses(
    results: Results, names: Sequence[str], keys: Sequence[Key], metric: str
) -> NDArray[np.float64]:
    """Return a matrix, experiments by methods, of which small is good; infinity for what failed."""

    def value(found: Mapping[str, float]) -> float:
        number = found.get(metric, math.nan)
        if math.isnan(number):
            return math.inf
        return -number if metric == "accuracy" else number

    return np.array([[value(results[name][key]) for name in names] for key in keys])


def _limits(
    wins: NDArray[np.float64], datasets: Sequence[str], n_resamples: int, random_state: int
) -> NDArray[np.float64]:
    """Percentiles of the mean of each column, over resamples of data sets or of rows."""
    distinct, group = np.unique(datasets, return_inverse=True)
    if len(distinct) < ENOUGH_DATASETS:
        group = np.arange(len(wins))
    counts = np.bincount(group)
    sums = np.stack([np.bincount(group, column) for column in wins.T], axis=1)
    drawn = np.random.default_rng(random_state).integers(len(sums), size=(n_resamples, len(sums)))
    means = [sums[own].sum(axis=0) / counts[own].sum() for own in drawn]
    limits: NDArray[np.float64] = np.percentile(means, [2.5, 97.5], axis=0)
    return limits
