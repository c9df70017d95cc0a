"""Damaged files get an exit code and one line that names them, never a traceback."""

import re
import subprocess
import sys

import numpy as np
import pytest

from calibrant._cli.main import run
from conftest import simulate
from files.damaged import KINDS

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")

LEAKS = re.compile(
    r"Errno|codec|[Tt]hrift|0-d array|Traceback|tokeniz|magic string|<class|object at 0x"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    home = tmp_path_factory.mktemp("model")
    p, y = simulate(600, 3)
    np.savez(home / "val.npz", probs=p, labels=y)
    path = home / "m.calibrant"
    assert run(["fit", str(home / "val.npz"), "-m", "ts", "-o", str(path)]) == 0
    return str(path)


def arrow_with(*things):
    return {f"{suffix} with {thing}" for suffix in ("parquet", "arrow") for thing in things}


HARMLESS = arrow_with("decimals", "categories for labels") | {
    "npz with bytes after its end",
    "npz with a size too large",
    "npz of big-endian numbers",
    "npz with labels too large",
    "csv cut at 1 %",
    "csv cut at 50 %",
    "csv cut at 90 %",
    "csv without its last byte",
    "csv with CR after a header",
    "tsv with commas",
}
"""Odd, but they say what they hold."""

NO_LABELS = arrow_with(
    "no rows",
    "lists for labels",
    "fractions for labels",
) | {
    "npy with bytes after its end",
    "npz without rows",
    "npz without labels",
    "npz with fractions as labels",
    "npz with two columns of labels",
    "csv with NUL in a label",
    "csv with a long label",
    "csv without a label",
}
"""Those whose scores can be calibrated, while labels are what ``evaluate`` and ``fit`` need."""

FLIPPED = [kind for kind in KINDS if kind.endswith("flipped bits")]


def codes(capsys, tmp_path, model, kind):
    """Exit codes of every command that reads predictions; a refusal is one line, and no file."""
    suffix, data = KINDS[kind]
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(data)
    fitted, out = tmp_path / "fitted.calibrant", tmp_path / "out.npy"
    found = []
    for words, written in (
        (["evaluate", path], path),
        (["fit", path, "-m", "ts", "-o", fitted], fitted),
        (["apply", model, path, "-o", out], out),
    ):
        found.append(run([str(word) for word in words]))
        err = capsys.readouterr().err
        refusals = [line for line in err.splitlines() if "damaged." in line]
        assert not LEAKS.search(err), err
        assert found[-1] == 0 or len(refusals) == err.count("\n") == 1, err
        assert written.exists() == (found[-1] == 0 or written == path)
    assert not list(tmp_path.glob(".calibrant-tmp-*"))
    return found


@pytest.mark.parametrize("large_bytes", [1 << 30, 0])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in FLIPPED])
def test_damaged_files_through_every_command(
    tmp_path, capsys, monkeypatch, model, kind, large_bytes
):
    """Whether they are read whole or in chunks."""
    monkeypatch.setattr("calibrant._files.chunks.LARGE_BYTES", large_bytes)
    wanted = [0, 0, 0] if kind in HARMLESS else [3, 3, 0 if kind in NO_LABELS else 3]
    assert codes(capsys, tmp_path, model, kind) == wanted


@pytest.mark.parametrize("large_bytes", [1 << 30, 0])
def test_flipped_bits_are_refused_or_change_a_number(
    tmp_path, capsys, monkeypatch, model, large_bytes
):
    """Which of the two depends on where they are, and on the reader."""
    monkeypatch.setattr("calibrant._files.chunks.LARGE_BYTES", large_bytes)
    found = []
    for kind in FLIPPED:
        (home := tmp_path / kind).mkdir()
        found += codes(capsys, home, model, kind)
    assert {*found} == {0, 3}


def test_every_kind_is_known():
    assert {*HARMLESS, *NO_LABELS} <= KINDS.keys()
    assert len(KINDS) >= 100
    assert len(FLIPPED) == 48


@pytest.mark.slow
def test_400_refused_tables_beside_busy_processes_end_with_their_exit_code(tmp_path):
    """A thread of Arrow that held a file of Python aborted one of forty: exit 134."""
    path = tmp_path / "bad.csv"
    path.write_text("ant,bee,label\n0.5,0.5,ant\n0.5,x,bee\n")
    command = [sys.executable, "-m", "calibrant", "fit", path, "-o", tmp_path / "m.calibrant"]
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        options = {"capture_output": True, "text": True}
        ends = [subprocess.run(command, check=False, **options) for _ in range(400)]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert {(end.returncode, end.stderr.count("\n")) for end in ends} == {(3, 1)}
