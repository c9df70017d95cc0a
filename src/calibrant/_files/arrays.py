"""Arrays in npy files, which are mapped into memory, and in npz archives; no pickle is read."""

from __future__ import annotations

import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from calibrant import _simplex as simplex
from calibrant.errors import MemoryLimitError, PredictionFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.lib.npyio import NpzFile
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


@contextmanager
def _without_pickles(where: str) -> Iterator[None]:
    """Name an array of Python objects, which numpy refuses."""
    try:
        yield
    except ValueError as error:
        if "allow_pickle" not in str(error) and "Python objects" not in str(error):
            raise
        raise PredictionFileError(
            f"{where} is not an array of numbers: Python objects are never unpickled; save numbers"
        ) from error


def load_npy(path: Path) -> NDArray[Any]:
    """Map an npy file into memory."""
    open_binary(path, "npy").close()
    with decoding(path, "npy"), _without_pickles(str(path)):
        return np.lib.format.open_memmap(path, mode="r")


@dataclass(frozen=True, slots=True)
class Archive:
    """An open npz file, whose arrays are read when they are asked for."""

    path: Path
    file: NpzFile

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        members = self.file.zip.namelist()  # type: ignore[union-attr]  # until it is closed
        return [name.removesuffix(".npy") for name in members if name.endswith(".npy")]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array, of which only the header is read."""
        with decoding(self.path, "npz"), self.file.zip.open(f"{name}.npy") as member:  # type: ignore[union-attr]
            version = np.lib.format.read_magic(member)
            of_version = {(1, 0): "read_array_header_1_0", (2, 0): "read_array_header_2_0"}
            shape, *_ = getattr(np.lib.format, of_version[version])(member)
        return tuple(shape)

    def load(self, name: str) -> NDArray[Any]:
        """Read an array."""
        where = f"{self.path}: {name}"
        with decoding(self.path, "npz"), _without_pickles(where):
            member = self.file.zip.getinfo(f"{name}.npy")  # type: ignore[union-attr]
            simplex.check_memory(member.file_size, where)  # before so much is asked for
            array = self.file[name]
            if not isinstance(array, np.ndarray):  # what has no header of numpy is bytes
                raise TypeError(type(array))
        return array


@contextmanager
def open_npz(path: Path) -> Iterator[Archive]:
    """Open an npz file."""
    with open_binary(path, "npz") as opened:
        with decoding(path, "npz"):
            file = np.load(opened, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise TypeError(type(file))
        with file:
            yield Archive(path, file)


def check_array(array: NDArray[Any], where: str, fits: bool, needed: str) -> None:
    """Refuse an array that is not what is needed."""
    if not fits:
        raise PredictionFileError(
            f"{where} has shape {array.shape} and dtype {array.dtype}; {needed}"
        )
