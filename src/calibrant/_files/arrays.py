"""Arrays in npy files, which are mapped into memory, and in npz archives; no pickle is read."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from calibrant._gate import two_column_kind
from calibrant.errors import MemoryLimitError, PredictionFileError, some_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.lib.npyio import NpzFile
    from numpy.typing import NDArray

ARRAYS = {"probs": "probabilities", "logits": "logits"}
"""Names of arrays of scores in an npz file, and what they hold."""


@contextmanager
def decoding(where: Path | str, kind: str) -> Iterator[None]:
    """Say which file is damaged, whatever its decoder raises.

    Decoders of damaged bytes raise anything: SyntaxError, zlib.error, NotImplementedError, ...
    """
    try:
        yield
    except (PredictionFileError, MemoryLimitError, ImportError):
        raise
    except Exception as error:
        fault = (
            f" as {kind}: it is damaged or has another format; write it again, or rename it to the "
            "suffix of its format"
        )
        if isinstance(error, UnicodeDecodeError):
            fault = ": it is not UTF-8 text; save it as UTF-8"
        elif isinstance(error, OSError) and error.errno is not None:
            fault = f": {error.strerror}"
        elif isinstance(error, MemoryError):
            fault = f" as {kind}: it needs more memory than there is, or is damaged"
        elif "allow_pickle" in str(error) or "Python objects" in str(error):
            fault = ": Python objects are never unpickled; save an array of numbers"
        raise PredictionFileError(f"{where} cannot be read{fault}") from error


def open_binary(path: Path, kind: str) -> IO[bytes]:
    """Open a file; a pipe is refused, since files are read more than once."""
    with decoding(path, kind):
        if path.is_fifo() or path.is_char_device():
            raise PredictionFileError(f"{path} is a pipe; save it as {kind} in a file first")
        return path.open("rb")


def load_npy(path: Path) -> NDArray[Any]:
    """Map an npy file into memory."""
    open_binary(path, "npy").close()
    with decoding(path, "npy"):
        return np.lib.format.open_memmap(path, mode="r")


@dataclass(frozen=True, slots=True)
class Archive:
    """An open npz file, whose arrays are read when they are asked for."""

    path: Path
    file: NpzFile

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return self.file.files

    @property
    def parts(self) -> list[str]:
        """What stands before the names of scores: nothing, or the name of a part."""
        return [p for p in ("", "val_", "test_") if {f"{p}{own}" for own in ARRAYS} & {*self.names}]

    def load(self, name: str) -> NDArray[Any]:
        """Read an array."""
        with decoding(f"{self.path}: {name}", "npz"):
            array = self.file[name]
            if not isinstance(array, np.ndarray):  # what has no header of numpy is bytes
                raise TypeError(type(array))
        return array

    def load_column(self, name: str, prefix: str, option: str) -> NDArray[Any]:
        """Return an array with a value for each row, of a part if there are parts."""
        known = [own for own in (f"{prefix}{name}", name) if own in self.names]
        if not known:
            has = some_in_words(self.names)
            raise PredictionFileError(f"{self.path} has no array {name!r} ({option}); it has {has}")
        column = self.load(known[0])
        needed = f"write a list with one value for each row ({option})"
        check_array(column, f"{self.path}: {known[0]}", column.ndim == 1, needed)
        return column

    def load_classes(self, n_columns: int) -> list[str] | None:
        """Return the names of the columns, the array ``classes``."""
        if "classes" not in self.names:
            return None
        stored = self.load("classes")
        needed = f"write one text or number for each of the {n_columns} columns"
        fits = stored.shape == (n_columns,) and stored.dtype.kind in "iufbU"
        check_array(stored, f"{self.path}: classes", fits, needed)
        texts: list[str] = stored.astype(str).tolist()
        if len(set(texts)) != len(texts):
            raise PredictionFileError(
                f"{self.path}: classes has the same name twice; give each column its own"
            )
        return texts

    def find_scores(self, part: str | None, usual_part: str | None, kind: str | None) -> str:
        """Return the name of the array of scores: of the part and of the kind asked for.

        Never that of another part. Probabilities come first where no kind is asked for.
        """
        parts, chosen = self.parts, part or usual_part
        is_plain = part is None and ("" in parts or not parts or usual_part is None)
        prefix = "" if is_plain else f"{chosen}_"
        kinds = [
            own for own, long in ARRAYS.items() if kind is None or two_column_kind(kind) == long
        ]
        known = [f"{prefix}{own}" for own in kinds if f"{prefix}{own}" in self.names]
        if known:
            return known[0]
        wanted = " or ".join(f"{prefix}{own}" for own in kinds)
        others = " or ".join(own.rstrip("_") for own in parts if own)
        remedy = f"write one, or choose {others} with --part" if others else "write one"
        raise PredictionFileError(
            f"{self.path} has no {wanted}, but {some_in_words(self.names)}; {remedy}"
        )


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
