"""A file is written whole or not at all, whatever fails and whenever the process dies."""

import errno
import importlib.util
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from calibrant import _atomic_file as atomic_file
from calibrant._atomic_file import PREFIX, replace_file

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
    assert {"write", "flush", "fsync", "replace", "open", "flock", "fstat"} <= seen


def attempt(path, monkeypatch, calls, fails, error):
    """Write with a fault; return whether it was noticed."""
    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "os", Faulty(os, calls, fails, error))
        patch.setattr(atomic_file, "fcntl", Faulty(atomic_file.fcntl, calls, fails, error))
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


@posix
def test_temporaries_of_dead_processes_are_removed_and_no_others(tmp_path):
    """Neither those in use, nor what only has such a name."""
    stale = tmp_path / f"{PREFIX}{'0' * 16}"
    stale.write_bytes(b"half")
    others = [tmp_path / f"{PREFIX}x", tmp_path / f"{PREFIX}{'0' * 17}", tmp_path / "model.tmp"]
    for other in others:
        other.write_bytes(OLD)
    others += [tmp_path / f"{PREFIX}{'1' * 16}", tmp_path / f"{PREFIX}{'2' * 16}"]
    others[-2].symlink_to(others[0])
    os.mkfifo(others[-1])
    with replace_file(tmp_path / "one") as file:
        file.write(b"one")
        write(tmp_path / "two", b"two")  # must leave the temporary of "one" alone
    assert not stale.exists()
    assert [(tmp_path / name).read_bytes() for name in ("one", "two")] == [b"one", b"two"]
    assert others[0].read_bytes() == OLD
    assert names(tmp_path) == sorted(["one", "two", *(other.name for other in others)])


@posix
def test_a_temporary_that_was_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    """Another process may see it in between."""
    removed = []

    class Meanwhile:
        LOCK_EX, LOCK_NB = atomic_file.fcntl.LOCK_EX, atomic_file.fcntl.LOCK_NB

        @staticmethod
        def flock(*_):
            if not removed:
                removed.extend(path for path in tmp_path.iterdir() if PREFIX in path.name)
                removed[0].unlink()

    monkeypatch.setattr(atomic_file, "fcntl", Meanwhile)
    write(tmp_path / "model")
    assert removed
    assert names(tmp_path) == ["model"]


def test_without_locks_and_open_directories_it_works_as_well(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.find_spec("calibrant._atomic_file")
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    (tmp_path / f"{PREFIX}{'0' * 16}").write_bytes(b"half")
    for content in (OLD, NEW):
        with elsewhere.replace_file(tmp_path / "model") as file:
            file.write(content)
        assert (tmp_path / "model").read_bytes() == content
    assert names(tmp_path) == ["model"]


def test_of_many_writers_at_once_one_wins_whole(tmp_path):
    path = tmp_path / "model"
    contents = [bytes([i]) * 200_000 for i in range(16)]
    threads = [threading.Thread(target=write, args=(path, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert names(tmp_path) == ["model"]


KILLED = textwrap.dedent("""
    import sys
    from calibrant._atomic_file import replace_file
    path, contents = sys.argv[1], [b"a" * 300_000, b"b" * 300_000]
    print("ready", flush=True)
    for i in range(10**9):
        with replace_file(path) as file:
            for start in range(0, 300_000, 1000):
                file.write(contents[i % 2][start : start + 1000])
""")


@posix
def test_a_killed_process_leaves_the_old_or_the_new_file_whole(tmp_path):
    """A process writes again and again, and is killed at once or some time after its first file."""
    path = tmp_path / "model"
    rng = random.Random(0)
    left, seen = 0, set()
    for i in range(15):
        if i % 3 == 0:
            path.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        if i % 3:
            while not path.exists():
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        seen.add(path.read_bytes() if path.exists() else None)
        left += len([name for name in names(tmp_path) if name.startswith(PREFIX)])
        assert len(names(tmp_path)) <= 2  # the file, and what this process left
    assert left > 0  # some were killed in the middle
    assert {None} < seen <= {None, b"a" * 300_000, b"b" * 300_000}
    write(path)
    assert names(tmp_path) == ["model"]
