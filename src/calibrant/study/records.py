"""Finished cells on disk: one small JSON file each, whole or not there at all."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from calibrant.atomic_file import replace_file
from calibrant.study.cell import MEASURED, Outcome, versions

if TYPE_CHECKING:
    from pathlib import Path

    from calibrant.study.cell import Cell

FORMAT = 1
_NO_NAME = re.compile(r'[<>:"/\\|?*%]')
"""What no system, or not every one, has in the name of a file; groups of HDF5 have a slash."""


class Records:
    """The cells that a study has finished, in a directory that is made if it is not there.

    A record counts only for the same bytes of the prediction file, the same seed and the same
    version of this package.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory

    def path(self, cell: Cell) -> Path:
        """Where the record of a cell is."""
        name = _NO_NAME.sub(lambda found: f"%{ord(found[0]):02X}", cell.name)
        return self.directory / f"{name}.json"

    def write(self, cell: Cell, outcome: Outcome) -> None:
        """Keep what became of a cell; NaN, which JSON has not, is null."""
        content = {
            **_identity(cell),
            "versions": versions(),
            "seconds": _or_none(outcome["seconds"]),
            "predict_seconds": _or_none(outcome["predict_seconds"]),
            "all_seconds": _or_none(outcome["all_seconds"]),
            "error": outcome["error"],
            "warnings": outcome["warnings"],
            "log_loss": _or_none(outcome["log_loss"]),
            "values": {name: _or_none(value) for name, value in outcome["values"].items()},
        }
        with replace_file(self.path(cell)) as file:
            file.write(json.dumps(content, indent=1, allow_nan=False).encode())

    def read(self, cell: Cell) -> tuple[Outcome, str] | None:
        """Return the outcome and the versions of a finished cell; None if it must be run."""
        try:
            content = json.loads(self.path(cell).read_bytes())
            same = all(content[key] == value for key, value in _identity(cell).items())
            written = str(content["versions"])
            outcome = Outcome(
                values={name: _or_nan(content["values"][name]) for name in MEASURED},
                log_loss=_or_nan(content.get("log_loss")),  # older records have not
                seconds=_or_nan(content["seconds"]),
                predict_seconds=_or_nan(content.get("predict_seconds")),
                all_seconds=_or_nan(content["all_seconds"]),
                error=content["error"],
                warnings=[str(warning) for warning in content["warnings"]],
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # damaged: as if absent
            return None
        ours = versions().partition(";")[0]
        return (outcome, written) if same and written.partition(";")[0] == ours else None


def _identity(cell: Cell) -> dict[str, Any]:
    """Everything that the numbers depend on, and that must be the same."""
    return {
        "format": FORMAT,
        "dataset": cell.file.dataset,
        "model": cell.file.model,
        "method": cell.method,
        "seed": cell.seed,
        "file": {"bytes": cell.file.n_bytes, "sha256": cell.file.sha256},
    }


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
