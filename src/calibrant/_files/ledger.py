"""``Ledger``: statistics on disk, with the files that they have counted.

It is replaced whole after each file. The files of a run and its decay are written down before any
of them is counted, so that a run that was interrupted is finished as it was begun.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from calibrant import _notices as notices
from calibrant import _threads as threads
from calibrant._atomic_file import replace_file
from calibrant.errors import CalibrantWarning, PredictionFileError, StatisticsError, some_in_words
from calibrant.scale._statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LEDGER_VERSION = 2
EPOCH = (1980, 1, 1, 0, 0, 0)
TAIL_BYTES = 1 << 16  # of Parquet they hold the footer, with counts of all columns


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a file held: the digest of its bytes; and size, time and last bytes, for a glance."""

    sha256: str = ""
    size: int = -1
    mtime_ns: int = -1
    tail: str = ""

    def again(self, file: Path) -> Fingerprint:
        """Fingerprint of a file now, which is read whole unless a glance shows this one."""
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            opened.seek(max(0, found.st_size - TAIL_BYTES))
            tail = hashlib.sha256(opened.read(TAIL_BYTES)).hexdigest()
            now = found.st_size, found.st_mtime_ns, tail
            if now == (self.size, self.mtime_ns, self.tail):
                return self
            opened.seek(0)
            return Fingerprint(hashlib.file_digest(opened, "sha256").hexdigest(), *now)


NO_FILE = Fingerprint()


class Ledger:
    """Statistics, the files that they have counted, and the path where both are kept.

    Names of files are relative to ``directory``. It goes on from what is in ``path``; hold
    ``_atomic_file.only_one`` of that.
    """

    def __init__(self, statistics: Statistics, directory: Path, path: Path) -> None:
        self.statistics, self._directory, self._path = statistics, directory, path
        self.counted: dict[str, Fingerprint] = {}
        self.pending: dict[str, Fingerprint] = {}
        """Files of the run that has begun which are not counted yet."""
        self._decay = 1.0  # that of the pending run, which is applied already
        self.has_decayed = False
        if path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
                    raise StatisticsError("it is compressed")  # to any size
                about = json.loads(archive.read("files.json"))
                found = Statistics.from_bytes(archive.read("statistics"))
            if about["version"] != LEDGER_VERSION:
                raise StatisticsError(
                    "another version of calibrant wrote it; update calibrant, or name another file"
                )
            self.counted = _fingerprints(about["files"])
            pending = about["pending"] or {"files": {}, "decay": 1.0}
            self.pending, self._decay = _fingerprints(pending["files"]), float(pending["decay"])
            self.has_decayed = bool(about["has_decayed"])
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError) as error:
            raise StatisticsError(f"{path}: {error}") from error
        try:
            self.statistics = self.statistics.empty().merge(found)
        except ValueError as error:
            raise StatisticsError(f"{path}: {error}; name another file") from error

    def _name(self, file: Path) -> str:
        return file.relative_to(self._directory).as_posix() if file != self._directory else "."

    def runs(self, files: Sequence[Path], decay: float) -> Iterator[list[Path]]:
        """Yield the files to be counted next: those of an interrupted run, then the new ones.

        What was counted before a run weighs ``decay`` times less from its beginning on; an
        interrupted one has begun, with the decay of its own.
        """
        new = self._uncounted(files)
        if self.pending:
            yield self._resume(new, decay)
        new = {file: found for file, found in new.items() if self._name(file) not in self.counted}
        if new:
            self._begin(new, decay)
            yield list(new)

    def _uncounted(self, files: Sequence[Path]) -> dict[Path, Fingerprint]:
        """Return the files whose content was not counted; refuse those that changed since."""
        known = {**self.pending, **self.counted}
        pairs = [(known.get(self._name(file), NO_FILE), file) for file in files]
        found = threads.each(lambda pair: pair[0].again(pair[1]), pairs)
        new = dict(zip(files, found, strict=True))
        again, left = {}, dict(self.counted)
        for file, own in list(new.items()):
            then = left.get(self._name(file))
            if then is not None and own.sha256 == then.sha256:
                again[self._name(file)] = new.pop(file)
                del left[self._name(file)]
        by_content = {own.sha256: file for file, own in reversed(new.items())}
        for name, then in list(left.items()):
            renamed = by_content.pop(then.sha256, None)
            if renamed is not None:
                again[self._name(renamed)] = new.pop(renamed)
                del left[name]
                self._warn(f"{renamed} was counted before as {name!r}, and is not counted again")
        changed = [str(file) for file in files if self._name(file) in left]
        if changed:
            raise PredictionFileError(
                f"{some_in_words(changed)} changed after {self._path} had counted it; write new "
                "rows to new files, or count all files again with another --statistics file"
            )
        if self.counted != left | again:
            self.counted = left | again
            self._write()
        return new

    def _resume(self, new: dict[Path, Fingerprint], decay: float) -> list[Path]:
        """Return what is left of the run that was interrupted; forget files that are gone."""
        if decay != self._decay:
            self._warn(
                f"the interrupted run had --decay {self._decay:g}; it is finished with this value"
            )
        names = {self._name(file) for file in new}
        moved = {found.sha256: name for name, found in self.pending.items() if name not in names}
        left = {
            file: found
            for file, found in new.items()
            if self._name(file) in self.pending or moved.pop(found.sha256, None) is not None
        }
        if moved:
            gone = some_in_words(sorted(moved.values()))
            self._warn(f"{gone} is missing: the interrupted run has not counted it")
        self.pending = {self._name(file): found for file, found in left.items()}
        self._write()
        return list(left)

    def _begin(self, new: dict[Path, Fingerprint], decay: float) -> None:
        """Write down which files are going to be counted, together with what decayed for them."""
        self._decay = decay
        if self.counted and decay < 1.0:
            self.statistics.scale(decay)
            self.has_decayed = True
        contents = Counter(found.sha256 for found in (*self.counted.values(), *new.values()))
        copies = [str(file) for file, found in new.items() if contents[found.sha256] > 1]
        if copies:
            self._warn(f"{some_in_words(copies)} have the same content; each is counted")
        self.pending = {self._name(file): found for file, found in new.items()}
        self._write()

    @staticmethod
    def _warn(text: str) -> None:
        notices.warn(CalibrantWarning(text))

    def add(self, file: Path, counted: Statistics) -> None:
        """Merge the statistics of a file of this run, and keep the result."""
        name = self._name(file)
        found = self.pending[name]
        if found.again(file).sha256 != found.sha256:
            raise PredictionFileError(
                f"{file} changed while it was counted; run again when it is complete"
            )
        self.statistics.merge(counted)
        self.counted[name] = self.pending.pop(name)
        self._write()

    def can_repeat(self, files: Sequence[Path]) -> bool:
        """Whether reading these files again would count the same rows at the same weight."""
        return not self.has_decayed and self.counted.keys() <= {self._name(f) for f in files}

    def _write(self) -> None:
        about = {
            "version": LEDGER_VERSION,
            "files": _plain(self.counted),
            "pending": {"files": _plain(self.pending), "decay": self._decay}
            if self.pending
            else None,
            "has_decayed": self.has_decayed,
        }
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
            text = json.dumps(about, sort_keys=True)
            archive.writestr(zipfile.ZipInfo("files.json", EPOCH), text)
            archive.writestr(zipfile.ZipInfo("statistics", EPOCH), self.statistics.to_bytes())
        with replace_file(self._path) as file:
            file.write(out.getvalue())


def _plain(files: dict[str, Fingerprint]) -> dict[str, Any]:
    return {name: asdict(found) for name, found in files.items()}


def _fingerprints(stored: dict[str, Any]) -> dict[str, Fingerprint]:
    return {str(name): Fingerprint(**told) for name, told in stored.items()}
