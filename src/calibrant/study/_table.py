"""The tidy table of a study, one row per classifier, method and metric, and its files."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant._atomic_file import replace_file
from calibrant._extras import needed
from calibrant.errors import DataError
from calibrant.study._methods import PAPER_METHODS

try:
    import pandas as pd
except ImportError as error:
    raise needed(error, "a study", "cli") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

TYPES: dict[str, type] = {
    **dict.fromkeys(("dataset", "model", "method", "metric"), str),
    **dict.fromkeys(("value", "seconds"), float),
    "versions": str,
}
CASE = ["dataset", "model"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StudyTable:
    """All numbers of a study; equal to another table with the same numbers, NaN included.

    Parameters
    ----------
    frame : DataFrame
        One number per row, in any order: ``dataset`` and ``model``, the two halves of the name of
        the prediction file; ``method``, a key of ``methods()`` or "uncalibrated"; ``metric``
        ("accuracy", "nll", "brier", "conf-ece", "cw-ece", "tece"; calibration errors also with a
        number of bins, such as "conf-ece-10"); ``value`` on the test part, NaN if the method
        failed; ``seconds`` of the fit; ``versions`` of the libraries.

    Attributes
    ----------
    frame : DataFrame
        The numbers, sorted.

    Raises
    ------
    DataError
        If a column is missing, or a number appears twice.

    Examples
    --------
    >>> import pandas as pd
    >>> from calibrant.study import StudyTable
    >>> frame = pd.DataFrame({"method": ["ts", "uncalibrated"], "value": [0.3, 0.4]})
    >>> table = StudyTable(frame.assign(
    ...     dataset="mnist", model="lenet", metric="nll", seconds=0.1, versions=""))
    >>> table.methods
    ['uncalibrated', 'ts']
    >>> table.wide("nll").loc["mnist", "lenet"].tolist()
    [0.4, 0.3]
    """

    frame: pd.DataFrame

    def __post_init__(self) -> None:
        missing = [name for name in TYPES if name not in self.frame]
        if missing:
            raise DataError(f"the table of a study has no column {missing[0]!r}")
        key = [*CASE, "method", "metric"]
        frame = self.frame[list(TYPES)].astype(TYPES).sort_values(key, ignore_index=True)
        twice = frame[frame.duplicated(key)]
        if len(twice):
            raise DataError(f"the table of a study has {tuple(twice[key].iloc[0])} twice")
        object.__setattr__(self, "frame", frame)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StudyTable) and self.frame.equals(other.frame)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = f"{len(self.cases)} classifiers, {len(self.methods)} methods"
        return f"<StudyTable of {sizes}, {len(self.metrics)} metrics>"

    @property
    def cases(self) -> list[tuple[str, str]]:
        """Every (dataset, model), sorted."""
        return list(self.frame[CASE].drop_duplicates().itertuples(index=False, name=None))

    @property
    def datasets(self) -> list[str]:
        """Every data set, sorted."""
        return self.frame["dataset"].unique().tolist()  # type: ignore[no-any-return]

    @property
    def metrics(self) -> list[str]:
        """Every metric, sorted."""
        return sorted(self.frame["metric"].unique())

    @property
    def methods(self) -> list[str]:
        """The paper's methods first, in its order, then the others by name."""
        order = {method: place for place, method in enumerate(PAPER_METHODS)}
        return sorted(self.frame["method"].unique(), key=lambda m: (order.get(m, len(order)), m))

    def wide(self, metric: str, methods: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the values of a metric: a row per case, a column per method (all by default)."""
        return self._pivot(self.frame[self.frame["metric"] == metric], "value", methods)

    def seconds(self, methods: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the times of the fits, cases by methods."""
        once = self.frame.drop_duplicates([*CASE, "method"], keep="last")
        return self._pivot(once, "seconds", methods)

    def _pivot(self, part: pd.DataFrame, field: str, methods: Iterable[str] | None) -> pd.DataFrame:
        columns = self.methods if methods is None else list(methods)
        rows = pd.MultiIndex.from_tuples(self.cases, names=CASE)
        wide = part.pivot(index=CASE, columns="method", values=field)  # noqa: PD010
        return wide.reindex(index=rows, columns=pd.Index(columns, name="method"))


def write_table(table: StudyTable, path: str | os.PathLike[str]) -> Path:
    """Write a table to a ``.csv`` or ``.parquet`` file, atomically.

    Parameters
    ----------
    table : StudyTable
    path : path-like
        Parquet needs pyarrow.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from calibrant.study import StudyTable, read_table, write_table
    >>> row = ["mnist", "lenet", "ts", "nll", 0.1 + 0.2, 0.01, ""]
    >>> columns = ["dataset", "model", "method", "metric", "value", "seconds", "versions"]
    >>> table = StudyTable(pd.DataFrame([row], columns=columns))
    >>> path = write_table(table, Path(tempfile.mkdtemp()) / "study.csv")
    >>> read_table(path) == table
    True
    """
    path = Path(path)
    content = io.BytesIO()
    if _is_parquet(path):
        table.frame.to_parquet(content, index=False)
    else:
        table.frame.to_csv(content, index=False, na_rep="nan")  # floats as repr has them: exact
    with replace_file(path) as file:
        file.write(content.getvalue())
    return path


def read_table(path: str | os.PathLike[str]) -> StudyTable:
    """Read a table from a ``.csv`` or ``.parquet`` file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    table : StudyTable
        The table that was written, to the last bit.

    Raises
    ------
    DataError
        If the file is not a table of a study.

    Examples
    --------
    >>> from calibrant.study import read_table
    >>> read_table("out/study.csv").wide("nll")  # doctest: +SKIP
    """
    path = Path(path)
    is_parquet, content = _is_parquet(path), io.BytesIO(path.read_bytes())
    try:
        if is_parquet:
            return StudyTable(pd.read_parquet(content))
        # As text: numbers to the last bit, and a classifier may be called "NA".
        return StudyTable(pd.read_csv(content, dtype=str, keep_default_na=False))
    except (ValueError, KeyError, TypeError, pd.errors.ParserError) as error:
        raise DataError(f"{path} is not a table of a study: {error}") from error


def _is_parquet(path: Path) -> bool:
    if path.suffix not in {".csv", ".parquet"}:
        raise DataError(f"{path}: {path.suffix!r} is not known; use .csv or .parquet")
    return path.suffix == ".parquet"
