"""Write a file, or a directory of files, whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None

PREFIX = ".calibrant-tmp-"
_TEMPORARY = re.compile(re.escape(PREFIX) + "[0-9a-f]{16}")
_ON_WINDOWS = os.name == "nt"
_HALF_WRITTEN: set[Path] = set()


@contextmanager
def replace_file(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` when, and only when, all went well.

    What is written goes to a temporary file in the same directory, is flushed to the disk and
    then renamed, so that at any moment, also after a crash, ``path`` is the old file or the new
    one. The temporary is removed on any failure; one that a killed process left behind is
    removed the next time a file is written to the directory. A symbolic link is followed; hard
    links keep the old content. ``mode`` are permission bits, by default those of the file that is
    replaced, or what the umask leaves.
    """
    target = os.path.realpath(path)
    if mode is None:
        mode = _mode_of(target)
    directory = Path(target).parent
    _remove_stale(directory)
    try:
        file, temporary = _create(directory)
    except OSError as error:  # of the file that was asked for, not of a name of our own
        raise type(error)(error.errno, error.strerror, str(path)) from error
    try:
        with file:
            if mode is not None:
                os.chmod(temporary, mode)  # noqa: PTH101  (every system call through ``os``)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not _ON_WINDOWS:  # renamed while open: its lock says that it is in use
                os.replace(temporary, target)  # noqa: PTH105
        if _ON_WINDOWS:
            os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    finally:
        _HALF_WRITTEN.discard(temporary)
    _sync_directory(directory)


@contextmanager
def new_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a directory that is there, with all its files, when, and only when, all went well."""
    target = Path(path)
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary = target.absolute().parent / f"{PREFIX}{os.urandom(8).hex()}"
    _HALF_WRITTEN.add(temporary)
    try:
        temporary.mkdir()
        yield temporary
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        _HALF_WRITTEN.discard(temporary)


def remove_half_written() -> None:
    """Remove the temporary files and directories of this process: it is about to die."""
    for temporary in tuple(_HALF_WRITTEN):
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108


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


def _create(directory: Path) -> tuple[IO[bytes], Path]:
    """Make a temporary file and lock it for as long as it is open."""
    while True:
        temporary = directory / f"{PREFIX}{os.urandom(8).hex()}"
        _HALF_WRITTEN.add(temporary)  # before it is there: a signal may come at any moment
        file = None
        try:
            file = open(temporary, "xb")  # noqa: PTH123, SIM115  (the caller closes it)
            if fcntl is not None:
                with suppress(OSError):  # not every file system has locks
                    fcntl.flock(file, fcntl.LOCK_EX)
            if _ON_WINDOWS or os.fstat(file.fileno()).st_nlink > 0:
                return file, temporary
            file.close()  # removed by another process before it was locked: once more
            _HALF_WRITTEN.discard(temporary)
        except BaseException:
            if file is not None:
                file.close()
                with suppress(OSError):
                    os.unlink(temporary)  # noqa: PTH108
            _HALF_WRITTEN.discard(temporary)
            raise


def _remove_stale(directory: Path) -> None:
    """Remove temporaries that no process holds; the lock of a process dies with it."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError), ExitStack() as stack:
                    if fcntl is not None:
                        descriptor = os.open(entry, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                        stack.callback(os.close, descriptor)
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry)  # noqa: PTH108


def _sync_directory(directory: Path) -> None:
    """Flush the new name to the disk."""
    if _ON_WINDOWS:  # directories cannot be opened there
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
