"""Arrays in npy files and npz archives: header first, checked against the size of the file."""

from __future__ import annotations

import math
import os
import stat
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple
from zipfile import ZipFile

import numpy as np

from calibrant import simplex
from calibrant.errors import MemoryLimitError, PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


class Header(NamedTuple):
    """What an array says of itself before its numbers come."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        """Bytes of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


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
            f"{path} needs more memory than there is, or is damaged: it cannot be read as {kind}"
        ) from error
    except OSError as error:
        if error.errno is None:
            raise PredictionFileError(_damaged(path, kind)) from error
        raise PredictionFileError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:
        raise PredictionFileError(_damaged(path, kind)) from error


def open_binary(path: Path, kind: str) -> IO[bytes]:
    """Open a file of a format in which one must go back and forth."""
    with decoding(path, kind):
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise PredictionFileError(  # which opening could wait for, for ever
                f"{path} is a pipe or a device; {kind} is read from files: save it to one first"
            )
        return path.open("rb")


def _damaged(path: Path, kind: str) -> str:
    return (
        f"{path} cannot be read as {kind}: it is damaged or of another format; write it again, or "
        "give it the suffix of its format"
    )


def read_npy(path: Path) -> NDArray[Any]:
    """Map the array of a npy file into memory, without ever unpickling."""
    with open_binary(path, "npy") as file, decoding(path, "npy"):
        header = read_header(file, str(path))
        start = file.tell()
        found = os.fstat(file.fileno()).st_size - start
        if found < header.n_bytes:
            raise PredictionFileError(_too_short(str(path), header, found))
        if header.n_bytes == 0:
            return np.empty(header.shape, header.dtype)
        order: Literal["F", "C"] = "F" if header.fortran else "C"
        mapped: NDArray[Any] = np.memmap(
            file,
            header.dtype,
            "r",
            start,
            header.shape,
            order,
        )
        return mapped


def read_header(file: IO[bytes], where: str) -> Header:
    """Read the header of an array; ``where`` is the file, and the array in it, for messages."""
    version = np.lib.format.read_magic(file)
    if version not in {(1, 0), (2, 0)}:  # 3.0 is for structured arrays alone
        raise PredictionFileError(f"{where} is not an array of numbers: its npy version is unknown")
    one = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if any(type(size) is not int or size < 0 for size in shape):
        raise PredictionFileError(f"{where} has the shape {shape}; write it again")
    if dtype.itemsize == 0:
        raise PredictionFileError(f"{where} has dtype {dtype}, which holds nothing")
    if dtype.hasobject:
        raise PredictionFileError(
            f"{where} is not an array of numbers: Python objects are never unpickled; save numbers"
        )
    return Header(shape, fortran, dtype)


def check_matrix(header: Header, where: str) -> None:
    """Refuse scores that are no matrix of numbers."""
    if len(header.shape) != 2 or header.dtype.kind not in "fiub" or 0 in header.shape[1:]:
        raise PredictionFileError(
            f"{where} has shape {header.shape} and dtype {header.dtype}; one row per sample and "
            "one column of numbers per class are needed"
        )


def _too_short(where: str, header: Header, found: int) -> str:
    of_a_row = header.dtype.itemsize * math.prod(header.shape[1:])
    return (
        f"{where} ends in row {max(found, 0) // max(of_a_row, 1)}, but its header promises "
        f"{header.shape[0] if header.shape else 1} rows; write it again"
    )


class Archive:
    """An open npz file: names of its arrays, and each of them when it is asked for."""

    def __init__(self, path: Path, archive: ZipFile) -> None:
        self._path, self._archive = path, archive
        self.names = [
            name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")
        ]

    @contextmanager
    def open(self, name: str) -> Iterator[tuple[IO[bytes], Header]]:
        """Open an array behind its header."""
        with decoding(self._path, "npz"):
            member = self._archive.open(f"{name}.npy")
        with member:
            with decoding(self._path, "npz"):
                header = read_header(member, f"{self._path}: {name}")
            yield member, header

    def read(self, name: str) -> NDArray[Any]:
        """Read an array whole."""
        where = f"{self._path}: {name}"
        with self.open(name) as (file, header):
            simplex.check_memory(header.n_bytes, where)
            size = self._archive.getinfo(f"{name}.npy").file_size
            if size < header.n_bytes:  # before so much is asked for
                raise PredictionFileError(_too_short(where, header, size))
            data = read_numbers(file, header, self._path, where)
        if header.n_bytes == 0:
            return np.empty(header.shape, header.dtype)
        order: Literal["F", "C"] = "F" if header.fortran else "C"
        return np.frombuffer(data, header.dtype).reshape(header.shape, order=order)


def read_numbers(
    file: IO[bytes],
    header: Header,
    path: Path,
    where: str,
    *,
    n_bytes: int | None = None,
    done: int = 0,
) -> bytes:
    """Read the next bytes of an array, by default all of them, and not fewer."""
    wanted = header.n_bytes if n_bytes is None else n_bytes
    with decoding(path, path.suffix[1:]):
        data = file.read(wanted)
        if done + wanted == header.n_bytes:
            file.read(1)  # an archive compares its checksum at the end
    if len(data) != wanted:
        raise PredictionFileError(_too_short(where, header, done + len(data)))
    return data


@contextmanager
def open_npz(path: Path) -> Iterator[Archive]:
    """Open an npz file."""
    with open_binary(path, "npz") as file:
        with decoding(path, "npz"):
            archive = ZipFile(file)
        with archive:
            yield Archive(path, archive)
