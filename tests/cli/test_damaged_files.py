"""Damaged files get an exit code and one line that names them, never a traceback."""

import re

import numpy as np
import pytest

from calibrant.cli.main import run
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


def check(capsys, arguments):
    """Run a command; return its exit code."""
    code = run([str(a) for a in arguments])
    err = capsys.readouterr().err
    assert code in {0, 3}, (arguments, err)
    if code:
        assert err.count("\n") == 1, err
        assert "damaged." in err
    assert not LEAKS.search(err), err
    return code


def test_there_are_many_kinds():
    assert len(KINDS) >= 145


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_through_every_command(tmp_path, capsys, model, kind):
    suffix, data = KINDS[kind]
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(data)
    fitted, out = tmp_path / "fitted.calibrant", tmp_path / "out.npy"
    check(capsys, ["evaluate", path])
    assert check(capsys, ["fit", path, "-m", "ts", "-o", fitted]) == 0 or not fitted.exists()
    assert check(capsys, ["apply", model, path, "-o", out]) == 0 or not out.exists()
    assert not list(tmp_path.glob(".calibrant-tmp-*"))
