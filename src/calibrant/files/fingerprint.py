"""``Fingerprint``: whether a file is one that was read before, under whatever name."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

TAIL_BYTES = 1 << 16
"""Last bytes that are compared at a glance; of Parquet they hold the footer, with offsets, counts
and statistics of all columns."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a file held: size, time and last bytes at a glance, the digest of all bytes for sure.

    A ledger of an earlier version knows the size alone.
    """

    size: int
    mtime_ns: int = -1
    tail: str = ""
    sha256: str = ""

    @classmethod
    def of(cls, file: Path) -> Self:
        """Read a file."""
        size, mtime_ns, tail = _glance(file)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return cls(size, mtime_ns, tail, digest)

    def again(self, file: Path) -> Fingerprint:
        """Fingerprint of a file that is likely to be this one; read only where it may not be."""
        is_same = self.sha256 and _glance(file) == (self.size, self.mtime_ns, self.tail)
        return self if is_same else Fingerprint.of(file)

    def has_content_of(self, other: Fingerprint) -> bool:
        """Whether both are of the same bytes, as far as the older of them knows."""
        return self.size == other.size and (
            self.sha256 == other.sha256 or "" in (self.sha256, other.sha256)
        )


def _glance(file: Path) -> tuple[int, int, str]:
    """Size, time of the last change, and digest of the last bytes."""
    with file.open("rb") as opened:
        found = os.fstat(opened.fileno())
        opened.seek(max(0, found.st_size - TAIL_BYTES))
        tail = hashlib.sha256(opened.read(TAIL_BYTES)).hexdigest()
    return found.st_size, found.st_mtime_ns, tail
