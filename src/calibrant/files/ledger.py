"""``Ledger``: statistics on disk, with the files that they have counted.

It is replaced whole after each file. Whoever is killed goes on from there; whoever comes the next
night counts the new files only.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING

from calibrant.atomic_file import replace_file
from calibrant.errors import PredictionFileError, StatisticsError, some_in_words
from calibrant.scale.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)


class Ledger:
    """Statistics, the files that they have counted, and the path where both are kept.

    Parameters
    ----------
    statistics : Statistics
    directory : Path
        Names of files are relative to it, so that both can be moved together.
    path : Path
        Where it is kept; it goes on from what is there.
    """

    def __init__(self, statistics: Statistics, directory: Path, path: Path) -> None:
        self.statistics, self._directory, self._path = statistics, directory, path
        self.sizes: dict[str, int] = {}
        self.has_decayed = False
        if path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                about = json.loads(archive.read("files.json"))
                found = Statistics.from_bytes(archive.read("statistics"))
            self.sizes = {str(name): int(size) for name, size in about["files"].items()}
            self.has_decayed = bool(about["has_decayed"])
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError) as error:
            raise StatisticsError(f"{path}: {error}") from error
        try:
            self.statistics = self.statistics.empty().merge(found)
        except ValueError as error:
            raise StatisticsError(f"{path}: {error}; name another file") from error

    def _name(self, file: Path) -> str:
        return file.relative_to(self._directory).as_posix() if file != self._directory else "."

    def new_files(self, files: Sequence[Path]) -> list[Path]:
        """Return those that are not counted yet; refuse those that have changed since."""
        changed = [
            str(file)
            for file in files
            if self.sizes.get(self._name(file), size := file.stat().st_size) != size
        ]
        if changed:
            raise PredictionFileError(
                f"{some_in_words(changed)} changed after {self._path} had counted it; count all "
                "files anew, into another one"
            )
        return [file for file in files if self._name(file) not in self.sizes]

    def decay(self, factor: float) -> None:
        """Let all that was counted so far weigh less."""
        if factor < 1.0:
            self.statistics.scale(factor)
            self.has_decayed = True

    def can_repeat(self, files: Sequence[Path]) -> bool:
        """Whether reading these files again would count the same rows at the same weight."""
        return not self.has_decayed and self.sizes.keys() <= {self._name(f) for f in files}

    def add(self, file: Path, counted: Statistics) -> None:
        """Merge the statistics of a file, and keep the result."""
        self.statistics.merge(counted)
        self.sizes[self._name(file)] = file.stat().st_size
        with replace_file(self._path) as out:
            out.write(self._to_bytes())

    def _to_bytes(self) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            about = {"files": self.sizes, "has_decayed": self.has_decayed}
            text = json.dumps(about, sort_keys=True)
            archive.writestr(zipfile.ZipInfo("files.json", EPOCH), text)
            archive.writestr(zipfile.ZipInfo("statistics", EPOCH), self.statistics.to_bytes())
        return out.getvalue()
