"""Arrays in npy files and npz archives: header first, checked against the size of the file."""

from __future__ import annotations

import math
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple
from zipfile import ZipFile

import numpy as np

from calibrant import _simplex as simplex
from calibrant.errors import MemoryLimitError, PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


@contextmanager
def decoding(path: Path, kind: str) -> Iterator[None]:
    """Say which file is damaged, whatever its decoder raises.

    Decoders of damaged bytes raise anything: SyntaxError, zlib.error, NotImplementedError, ...
    """
    try:
        yield
    except (PredictionFileError, MemoryLimitError, ImportError):
        raise
    except MemoryError as error:
        raise PredictionFileError(
            f"{path} cannot be read as {kind}: it needs more memory than there is, or is damaged"
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise PredictionFileError(f"{path} cannot be read: {error.strerror}") from error
        raise PredictionFileError(
            f"{path} cannot be read as {kind}: it is damaged or has another format; write it "
            "again, or rename it to the suffix of its format"
        ) from error


def open_binary(path: Path, kind: str) -> IO[bytes]:
    """Open a file of a format in which one must go back and forth."""
    with decoding(path, kind):
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise PredictionFileError(  # which opening could wait for, for ever
                f"{path} is a pipe or a device; {kind} must be a file: save it to one first"
            )
        return path.open("rb")


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array in an open file, at the end of its header; ``where`` is its name in messages.

    ``n_stored`` is at least the number of bytes that are left in the file.
    """

    file: IO[bytes]
    path: Path
    where: str
    n_stored: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        """Bytes of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize

    def check(self, fits: bool, needed: str) -> None:
        """Refuse an array that is not what is needed."""
        if not fits:
            raise PredictionFileError(
                f"{self.where} has shape {self.shape} and dtype {self.dtype}; {needed}"
            )

    def whole(self) -> NDArray[Any]:
        """All of it, mapped into memory if it is a file of its own."""
        if self.n_stored < self.n_bytes:  # before so much is asked for
            raise self._too_short(self.n_stored)
        if self.n_bytes > 0 and self.path.suffix.lower() == ".npy":
            with decoding(self.path, "npy"):
                start = self.file.tell()
                return np.memmap(self.file, self.dtype, "r", start, self.shape, self.order)
        simplex.check_memory(self.n_bytes, self.where)
        data = np.frombuffer(self._read(self.n_bytes, 0), self.dtype)
        return data.reshape(self.shape, order=self.order)

    def chunks(self, n_rows: int) -> Iterator[NDArray[Any]]:
        """Rows, some at a time."""
        starts = range(0, self.shape[0], n_rows)
        if self.order == "F" and len(self.shape) > 1:  # a row is not in one piece
            whole = self.whole()
            yield from (whole[start : start + n_rows] for start in starts)
            return
        for start in starts:
            height = min(n_rows, self.shape[0] - start)
            data = self._read(height * self._row_bytes(), start * self._row_bytes())
            yield np.frombuffer(data, self.dtype).reshape(height, *self.shape[1:])

    def _row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def _read(self, n_bytes: int, done: int) -> bytes:
        with decoding(self.path, self.path.suffix[1:]):
            data = self.file.read(n_bytes)
            if done + n_bytes == self.n_bytes:
                self.file.read(1)  # an archive compares its checksum at the end
        if len(data) != n_bytes:
            raise self._too_short(done + len(data))
        return data

    def _too_short(self, found: int) -> PredictionFileError:
        return PredictionFileError(
            f"{self.where} ends in row {max(found, 0) // max(self._row_bytes(), 1)}, but its "
            f"header says {self.shape[0] if self.shape else 1} rows; write it again"
        )


def _stored(file: IO[bytes], path: Path, where: str, size: int) -> StoredArray:
    """Read the header of an array, without ever unpickling."""
    with decoding(path, path.suffix[1:].lower()):
        version = np.lib.format.read_magic(file)
        if version not in {(1, 0), (2, 0)}:  # 3.0 is for structured arrays alone
            raise PredictionFileError(f"{where} is not an array of numbers: {version} is unknown")
        first = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
    if any(type(size) is not int or size < 0 for size in shape):
        raise PredictionFileError(f"{where} has the shape {shape}; write it again")
    if dtype.itemsize == 0:
        raise PredictionFileError(f"{where} has dtype {dtype}, which holds no data")
    if dtype.hasobject:
        raise PredictionFileError(
            f"{where} is not an array of numbers: Python objects are never unpickled; save numbers"
        )
    order: Literal["C", "F"] = "F" if is_fortran else "C"
    return StoredArray(file, path, where, size - file.tell(), shape, order, dtype)


@contextmanager
def open_npy(path: Path) -> Iterator[StoredArray]:
    """Open a npy file."""
    with open_binary(path, "npy") as file:
        yield _stored(file, path, str(path), os.fstat(file.fileno()).st_size)


class Archive(NamedTuple):
    """An open npz file: names of its arrays, and each of them when it is asked for."""

    path: Path
    names: list[str]
    file: ZipFile

    @contextmanager
    def open(self, name: str) -> Iterator[StoredArray]:
        """Open an array."""
        with decoding(self.path, "npz"):
            member = self.file.open(f"{name}.npy")
        with member:
            size = self.file.getinfo(f"{name}.npy").file_size
            yield _stored(member, self.path, f"{self.path}: {name}", size)


@contextmanager
def open_npz(path: Path) -> Iterator[Archive]:
    """Open an npz file."""
    with open_binary(path, "npz") as opened:
        with decoding(path, "npz"):
            file = ZipFile(opened)
        with file:
            arrays = [name for name in file.namelist() if name.endswith(".npy")]
            yield Archive(path, [name.removesuffix(".npy") for name in arrays], file)
