"""Tests of real predictions run in a clone without the collection, and are found where it is."""

import ast
from pathlib import Path

import pytest

from conftest import DATA, REAL_FILES, SMALL
from test_architecture import ROOT

READERS = {"load_real", "real_losses", "DATA"}
"""What opens files of the collection."""


def all_that_read():
    """Tests that name a reader themselves: path, function and its decorators."""
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                if READERS & names and path.resolve() != Path(__file__).resolve():
                    yield path, node, {ast.unparse(one) for one in node.decorator_list}


def test_a_test_that_reads_a_real_file_has_its_name_or_asks_for_all():
    """Otherwise the marker ``collection`` would not find it."""
    found = list(all_that_read())
    assert len(found) > 10
    for path, node, decorators in found:
        arguments = {argument.arg for argument in node.args.args}
        assert "name" in arguments or "needs_collection" in decorators, f"{path}: {node.name}"


@pytest.mark.parametrize("name", REAL_FILES[:1])
def test_what_reads_the_collection_is_marked(name, request):
    is_marked = request.node.get_closest_marker("collection") is not None
    assert is_marked == (DATA.resolve() != SMALL.resolve()), name
