"""Finished cells on disk: one small JSON file each, whole or not there at all."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from calibrant.atomic_file import replace_file
from calibrant.study.cell import METRIC_NAMES, Outcome, Task, versions
from calibrant.study.table import StudyRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from calibrant.study.files import PredictionFile

FORMAT = 1


class Cell(NamedTuple):
    """A method on a prediction file."""

    file: PredictionFile
    method: str

    @property
    def name(self) -> str:
        """As in messages and in the name of its record."""
        return f"{self.file.path.stem}__{self.method}"

    def task(self, seed: int) -> Task:
        """Return what a process needs to know."""
        return Task(str(self.file.path), self.method, seed)

    def rows(self, outcome: Outcome, computed_with: str) -> Iterator[StudyRow]:
        """Rows of the table."""
        for metric in METRIC_NAMES:
            yield StudyRow(
                dataset=self.file.dataset,
                model=self.file.model,
                method=self.method,
                metric=metric,
                value=outcome["values"][metric],
                seconds=outcome["seconds"],
                versions=computed_with,
            )


class Records:
    """The cells that a study has finished.

    A record counts only for the same bytes of the prediction file, the same seed and the same
    version of this package.

    Parameters
    ----------
    directory : Path
        Made if it is not there.
    seed : int
    """

    def __init__(self, directory: Path, seed: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.seed = seed

    def path(self, cell: Cell) -> Path:
        """Where the record of a cell is."""
        return self.directory / f"{cell.name}.json"

    def write(self, cell: Cell, outcome: Outcome) -> None:
        """Keep what became of a cell."""
        content = {**self._identity(cell), "versions": versions(), **_to_json(outcome)}
        with replace_file(self.path(cell)) as file:
            file.write(json.dumps(content, indent=1, allow_nan=False).encode())

    def read(self, cell: Cell) -> tuple[Outcome, str] | None:
        """Return the outcome and the versions of a finished cell; None if it must be run."""
        try:
            content = json.loads(self.path(cell).read_bytes())
            same = all(content[key] == value for key, value in self._identity(cell).items())
            written = str(content["versions"])
            outcome = _from_json(content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # damaged: as if absent
            return None
        ours = versions().partition(";")[0]
        return (outcome, written) if same and written.partition(";")[0] == ours else None

    def _identity(self, cell: Cell) -> dict[str, Any]:
        """Everything that the numbers depend on, and that must be the same."""
        return {
            "format": FORMAT,
            "dataset": cell.file.dataset,
            "model": cell.file.model,
            "method": cell.method,
            "seed": self.seed,
            "file": {"bytes": cell.file.n_bytes, "sha256": cell.file.sha256},
        }


def _to_json(outcome: Outcome) -> dict[str, Any]:
    """Make NaN, which JSON has not, null."""
    return {
        "seconds": _or_none(outcome["seconds"]),
        "all_seconds": _or_none(outcome["all_seconds"]),
        "error": outcome["error"],
        "warnings": outcome["warnings"],
        "values": {name: _or_none(value) for name, value in outcome["values"].items()},
    }


def _from_json(content: dict[str, Any]) -> Outcome:
    return Outcome(
        values={name: _or_nan(content["values"][name]) for name in METRIC_NAMES},
        seconds=_or_nan(content["seconds"]),
        all_seconds=_or_nan(content["all_seconds"]),
        error=cast("str | None", content["error"]),
        warnings=[str(warning) for warning in content["warnings"]],
    )


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
