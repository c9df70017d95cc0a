"""Blocks of pages that are no doctests run all the same, and pages name what they need."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from export.cases import blocks

ROOT = Path(__file__).parents[2]
PAGES = ("guides/into-production.md", "evidence/calarena.md")
PAGE = ROOT / "docs" / "guides" / "into-production.md"
IMPORTED = {"sklearn", "pandas", "calibrant", "tempfile", "pathlib", "h5py", "numpy"}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_probmetrics_takes_calibrators_as_the_page_has_it():
    pytest.importorskip("probmetrics")
    (block,) = blocks("evidence/calarena.md")
    names = {}
    exec(compile(block, "calarena.md", "exec"), names)
    assert "calibrant-auto" in names["CUSTOM_CALIBRATORS"]


def test_what_the_page_imports_is_named_in_its_first_lines_and_asked_for():
    """PyTorch writes ONNX by a package that it does not install."""
    text = PAGE.read_text()
    needed = runpy.run_path(str(PAGE.with_name("conftest.py")))["NEEDED"][PAGE.name]
    assert "torch.onnx.export" in text
    assert "onnxscript" in needed
    install = re.search(r"`pip install '([^']*)' (\w+)`", text)
    assert install[2] == "onnxscript"
    imports = set(re.findall(r"^>>> (?:import|from) (\w+)", text, re.MULTILINE)) - IMPORTED
    assert imports <= {*needed}
    extras = {*re.findall(r"\w+", install[1])}
    assert {name.removesuffix("runtime") for name in imports} <= extras


def test_every_page_about_export_runs_with_what_it_needs():
    text = (ROOT / "Makefile").read_text()
    target = text.split("\ntest-export:")[1].split("\n\n")[0]
    assert {*re.findall(r"docs/([\w/-]+\.md)", target)} == {*PAGES}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    asked = {re.match(r"[\w-]+", one)[0] for one in groups["export"]}
    needed = runpy.run_path(str(PAGE.with_name("conftest.py")))["NEEDED"][PAGE.name]
    assert {*needed} <= asked
