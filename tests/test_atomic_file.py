"""A file is written whole or not at all, whatever fails and whenever the process dies."""

import errno
import os
import stat

import pytest

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


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()], ids=["disk full", "Ctrl-C"]
)
def test_whichever_call_fails_the_old_file_is_there(tmp_path, monkeypatch, exists, call, error):
    path = tmp_path / "model"
    if exists:
        path.write_bytes(OLD)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(type(error)) as caught:
            write(path)
    assert getattr(caught.value, "filename", str(path)) == str(path)
    assert names(tmp_path) == ["model"] * exists
    assert not exists or path.read_bytes() == OLD


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
        with pytest.raises(OSError, match="regular"):
            write(path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(PermissionError):
        write(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == OLD
    assert names(tmp_path) == ["directory", "model", "pipe"]


def test_one_process_at_a_time_has_a_path(tmp_path):
    path = tmp_path / "state"
    with only_one(path), pytest.raises(BlockingIOError), only_one(path):
        pass
    with only_one(path):
        pass
