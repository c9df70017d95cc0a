"""Write a file, or a directory of files, whole or not at all; keep others from it meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = ".calibrant-tmp-"

_HALF_WRITTEN: set[Path] = set()


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` when, and only when, all went well.

    What is written goes to a temporary file in the same directory, is flushed to the disk and
    then renamed, so that at any moment, also after a crash, ``path`` is the old file or the new
    one. A symbolic link is followed. Permissions are those of the file that is replaced.
    """
    target = os.path.realpath(path)
    mode, directory = _mode_of(target), Path(target).parent
    with _naming(path), _temporary(directory) as temporary:
        with open(temporary, "xb") as file:  # noqa: PTH123  (every system call through ``os``)
            if mode is not None:
                os.chmod(temporary, mode)  # noqa: PTH101
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)  # noqa: PTH105
    if os.name == "posix":  # elsewhere directories cannot be opened
        with _naming(path):
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # the new name
            finally:
                os.close(descriptor)


@contextmanager
def new_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a directory that is there, with all its files, when, and only when, all went well."""
    target = Path(path)
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with _naming(path), _temporary(target.absolute().parent) as temporary:
        temporary.mkdir()
        yield temporary
        temporary.rename(target)


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name ``path`` in errors: a full disk names no file, and nobody asked for one of our names."""
    try:
        yield
    except OSError as error:
        if PREFIX not in str(error.filename or PREFIX):
            raise
        # What numpy raises after a short write has no number.
        number, text = error.errno or errno.EIO, error.strerror or str(error)
        raise type(error)(number, text, str(path)) from error


@contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    """Yield a name that nothing has; remove what has it after an error, or after a signal."""
    temporary = directory / f"{PREFIX}{os.urandom(8).hex()}"
    _HALF_WRITTEN.add(temporary)
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    finally:
        _HALF_WRITTEN.discard(temporary)


def _remove(path: Path) -> None:
    """Remove a file, or a directory with all that is in it, as far as that can be done."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)  # noqa: PTH108


def remove_half_written() -> None:
    """Remove the temporary files and directories of this process: it is about to die."""
    for temporary in tuple(_HALF_WRITTEN):
        _remove(temporary)


@contextmanager
def only_one(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes that ask for the same path out, until the end or until this one dies.

    The lock is that of a file beside ``path``, which stays there and locks nobody out by itself.
    Windows has no such locks.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with Path(f"{os.path.realpath(path)}.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            words = "another run is using it; wait until that run has ended, or name another file"
            raise BlockingIOError(errno.EAGAIN, words, str(path)) from error
        yield


def _mode_of(target: str) -> int | None:
    """Permission bits of the file to replace, if there is one and it may be replaced."""
    try:
        status = os.stat(target)  # noqa: PTH116
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise OSError(code, "not a regular file, so it is not replaced", target)
    if not os.access(target, os.W_OK):  # a rename would not ask
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    return stat.S_IMODE(status.st_mode)
