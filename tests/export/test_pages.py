"""Blocks of pages that are no doctests run all the same."""

import pytest

from export.cases import blocks


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_probmetrics_takes_calibrators_as_the_page_has_it():
    pytest.importorskip("probmetrics")
    (block,) = blocks("evidence/calarena.md")
    names = {}
    exec(compile(block, "calarena.md", "exec"), names)
    assert "calibrant-auto" in names["CUSTOM_CALIBRATORS"]
