"""Scripts of the gallery: they use public names alone, and end in one picture without a warning."""

import ast
import importlib
import runpy

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

from test_architecture import ROOT

SCRIPTS = sorted((ROOT / "docs" / "gallery").glob("*.py"))
IDS = [path.stem for path in SCRIPTS]


@pytest.mark.parametrize("path", SCRIPTS, ids=IDS)
def test_names_are_public(path):
    tree = ast.parse(path.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.module.split(".")[0] == "calibrant"]
    assert ours
    for node in ours:
        names = {alias.name for alias in node.names}
        assert names <= set(importlib.import_module(node.module).__all__)
    used = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in used if name.startswith("_")]


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=IDS)
def test_a_script_ends_in_one_picture(path, monkeypatch):
    """In its own directory, as when the site is built; a layout that fails warns when drawn."""
    monkeypatch.chdir(path.parent)
    mpl.use("agg")
    plt.close("all")
    runpy.run_path(path.name)
    (figure,) = map(plt.figure, plt.get_fignums())
    figure.canvas.draw()
    assert figure.axes
    plt.close(figure)
