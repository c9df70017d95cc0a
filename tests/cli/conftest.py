"""Shared by tests of the command: a run in this process, with what it printed."""

import json
from types import SimpleNamespace

import pytest

from calibrant._cli.main import run


@pytest.fixture
def call(capsys):
    """Run a command that ends with a code; return what it wrote, and its JSON."""

    def of(*words, code=0):
        capsys.readouterr()
        found = run([*map(str, words)])
        out, err = capsys.readouterr()
        assert found == code, err
        return SimpleNamespace(out=out, err=err, json=json.loads(out) if "--json" in words else {})

    return of


@pytest.fixture(scope="module")
def quiet():
    """Run a command for a fixture of a module."""

    def of(*words):
        assert run([*map(str, words)]) == 0

    return of
