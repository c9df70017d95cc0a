"""A file is written whole or not at all, whatever fails and whenever the process dies."""

import errno
import os
import stat
import sys

import pytest

from calibrant import _atomic_file as atomic_file
from calibrant._atomic_file import PREFIX, only_one, replace_file

OLD, NEW = b"old" * 1000, b"new" * 100_000
posix = pytest.mark.skipif(os.name != "posix", reason="as POSIX has it")


def write(path, content=NEW):
    with replace_file(path) as file:
        for start in range(0, len(content), 50_000):
            file.write(content[start : start + 50_000])


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("exists", [False, True])
def test_a_file_is_there_only_at_the_end(tmp_path, exists):
    path = tmp_path / "model"
    if exists:
        path.write_bytes(OLD)
    with replace_file(path) as file:
        file.write(NEW)
        file.flush()
        assert (path.read_bytes() if path.exists() else None) == (OLD if exists else None)
        assert [n for n in names(tmp_path) if n.startswith(PREFIX)]
    assert path.read_bytes() == NEW
    assert names(tmp_path) == ["model"]


class Faulty:
    """Passes everything on to a module or file, but the n-th call of all fails."""

    def __init__(self, inner, calls, fails, error):
        self._inner, self._calls, self._fails, self._error = inner, calls, fails, error

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found) or name in {"fileno", "strerror", "PathLike"}:
            return found

        def call(*arguments, **named):
            self._calls.append(name)
            if len(self._calls) == self._fails:
                raise self._error
            return found(*arguments, **named)

        return call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._inner.close()

    def fileno(self):
        return self._inner.fileno()


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()], ids=["disk full", "Ctrl-C"]
)
def test_whichever_call_fails_the_file_is_old_or_new(tmp_path, monkeypatch, exists, error):
    """The n-th system call, write or flush fails, for n = 1, 2, ... until nothing fails."""
    path = tmp_path / "model"
    seen = set()
    for n in range(1, 100):
        path.unlink(missing_ok=True)
        if exists:
            path.write_bytes(OLD)
        calls = []
        failed = attempt(path, monkeypatch, calls, n, error)
        content = path.read_bytes() if path.exists() else None
        assert content in ({OLD, NEW} if exists else {None, NEW}), calls
        assert [p for p in names(tmp_path) if p != "model"] == [], calls
        seen |= set(calls)
        if len(calls) < n:
            break
    assert (failed, content) == (False, NEW)
    assert len(calls) < n
    assert {"write", "flush", "fsync", "replace", "open"} <= seen


def attempt(path, monkeypatch, calls, fails, error):
    """Write with a fault; return whether it was noticed."""
    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "os", Faulty(os, calls, fails, error))
        patch.setattr(
            atomic_file,
            "open",
            lambda *a: Faulty(
                Faulty(sys.modules["io"], calls, fails, error).open(*a), calls, fails, error
            ),
            raising=False,
        )
        try:
            write(path)
        except (OSError, KeyboardInterrupt):
            return True
    return False


@posix
def test_a_link_is_followed_and_keeps_the_mode_of_its_file(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "model", tmp_path / "link"
    link.symlink_to(target)
    before = os.umask(0o027)
    try:
        write(link)
        assert stat.S_IMODE(target.stat().st_mode) == 0o640  # what the umask leaves
        target.chmod(0o604)
        write(link)
        assert stat.S_IMODE(target.stat().st_mode) == 0o604
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert names(tmp_path / "there") == ["model"]


@posix
def test_what_is_no_file_or_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "model").write_bytes(OLD)
    for path in (tmp_path / "pipe", tmp_path / "directory", "/dev/null"):
        with pytest.raises(OSError, match="not a regular file"):
            write(path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(PermissionError):
        write(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == OLD
    assert names(tmp_path) == ["directory", "model", "pipe"]


def test_one_process_at_a_time_has_a_path(tmp_path):
    path = tmp_path / "state"
    with only_one(path), pytest.raises(BlockingIOError, match="another run"), only_one(path):
        pass
    with only_one(path):
        pass
