"""Write a file, or a directory of files, whole or not at all; keep others from it meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where a file that is open can be neither renamed nor removed
    fcntl = None

msvcrt: Any
try:
    import msvcrt
except ImportError:
    msvcrt = None

PREFIX = ".calibrant-tmp-"
_LOCKED_BYTE = 1 << 30
"""Far behind what is written: on Windows a byte that is locked cannot be read either."""

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
    temporary = _name_temporary(directory)
    try:
        with open(temporary, "xb") as file:  # noqa: PTH123  (every system call through ``os``)
            if mode is not None:
                os.chmod(temporary, mode)  # noqa: PTH101
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException as error:
        _remove(temporary)
        if not isinstance(error, OSError) or error.errno is None:
            raise
        if error.filename not in (None, str(temporary), temporary):
            raise
        # A full disk names no file; and nobody asked for a file of our own name.
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        _HALF_WRITTEN.discard(temporary)
    if fcntl is not None:  # elsewhere directories cannot be opened
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
    temporary = _name_temporary(target.absolute().parent)
    try:
        temporary.mkdir()
        yield temporary
        temporary.rename(target)
    except BaseException:
        _remove(temporary)
        raise
    finally:
        _HALF_WRITTEN.discard(temporary)


def _name_temporary(directory: Path) -> Path:
    """Return a name that nothing has, and note it: a signal may come at any moment."""
    temporary = directory / f"{PREFIX}{os.urandom(8).hex()}"
    _HALF_WRITTEN.add(temporary)
    return temporary


@contextmanager
def only_one(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes that ask for the same path out, until the end or until this one dies.

    The lock is that of a file beside ``path``, held by the system for as long as the process lives:
    what a killed one leaves there locks nobody out.
    """
    lock = Path(f"{os.path.realpath(path)}.lock")
    while True:
        try:
            file = open(lock, "a+b", buffering=0)  # noqa: PTH123, SIM115  (closed below)
        except OSError as error:  # of the file that was asked for, not of a name of our own
            raise type(error)(error.errno, error.strerror, str(path)) from error
        with file:
            if not _try_lock(file):
                file.seek(0)
                holder = file.read(200).decode(errors="replace").strip()
                raise BlockingIOError(
                    errno.EAGAIN,
                    f"another run is using it{holder and f' ({holder})'}; wait until that run has "
                    "ended, or name another file",
                    str(path),
                )
            if fcntl is not None and os.fstat(file.fileno()).st_nlink == 0:  # removed: once more
                continue
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            try:
                yield
                return
            finally:
                if fcntl is None:
                    file.close()
                _remove(lock)  # elsewhere while it is locked: no other has it


def _try_lock(file: IO[bytes]) -> bool:
    """Lock an open file, unless another process has; where there are no locks, all have it."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            file.seek(_LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK, errno.EDEADLK)
    return True


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


def _mode_of(target: str) -> int | None:
    """Permission bits of the file to replace, if there is one and it may be replaced."""
    try:
        found = os.stat(target)  # noqa: PTH116
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(code, "not a regular file, so it is not replaced", target)
    if not os.access(target, os.W_OK):  # a rename would not ask
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    return stat.S_IMODE(found.st_mode)
