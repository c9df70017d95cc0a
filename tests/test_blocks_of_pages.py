"""Blocks of Python in the pages: examples run as doctests; here all are typed, and others run."""

import ast
import doctest
import os
import re
import subprocess
import sys
import textwrap
import types

import numpy as np
import pandas as pd
import pytest

from calibrant import NormalizationAwareIsotonic
from calibrant.metrics import negative_log_likelihood
from conftest import simulate
from test_architecture import ROOT
from test_documentation import PROJECT, TEXTS

PAGES = {path: text for path, text in TEXTS.items() if "```python\n" in text}

UNTYPED = "allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs, allow-redefinition"
"""What mypy allows on pages, which have no annotations; everything else is as in the package."""

NOT_ON_PAGES = "union-attr, no-any-return, name-match, no-redef, import-untyped, import-not-found"
"""Errors of mypy that say nothing of a page."""


def blocks(text):
    """Every block of Python, those of lists too."""
    fenced = re.finditer(r"^( *)```python\n(.*?)^\1```", text, flags=re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(found[2]) for found in fenced]


def others(page):
    """Blocks of a page that are no examples, so no doctest runs them."""
    return [block for block in blocks(TEXTS[ROOT / "docs" / page]) if ">>>" not in block]


def module_of(text):
    """A page as one module: what it shows, but for what it shows to be refused."""
    parser, found = doctest.DocTestParser(), [f"# mypy: {UNTYPED}"]
    found.append(f'# mypy: disable-error-code="{NOT_ON_PAGES}"')
    for block in blocks(text):
        examples = parser.get_examples(block)
        shown = [one.source for one in examples if one.exc_msg is None]
        found += shown if examples else [block]
    defined = [one for one in ast.parse("\n".join(found)).body if isinstance(one, ast.ClassDef)]
    made = [f"def make_{one.name}(*given):\n    return {one.name}(*given)" for one in defined]
    return "\n".join([*found, *made])  # mypy refuses to make what has an abstract method left


def test_no_block_is_missed():
    """Python is called python, and pages with examples are among those that pytest looks at."""
    for path, text in TEXTS.items():
        fences = re.findall(r"^ *(?:```+|~~~+) *(\S*)", text, flags=re.MULTILINE)
        known = {"", "json", "python", "sh", "{click}", "{eval-rst}", "{include}", "{toctree}"}
        assert set(fences) <= known, path
        assert len(blocks(text)) == fences.count("python"), path
    run = [ROOT / name for name in PROJECT["tool"]["pytest"]["ini_options"]["testpaths"]]
    run.append(ROOT / "CONTRIBUTING.md")  # by a test of its own
    assert all({path, *path.parents} & {*run} for path in PAGES)


@pytest.mark.slow
def test_pages_have_the_types_of_the_package(tmp_path):
    """Names, attributes, arguments and abstract methods, of examples that are skipped as well."""
    pytest.importorskip("mypy")
    for path, text in PAGES.items():
        name = re.sub(r"\W", "_", f"page_{path.relative_to(ROOT).with_suffix('')}").lower()
        (tmp_path / f"{name}.py").write_text(module_of(text), encoding="utf-8")
    files = sorted(map(str, tmp_path.glob("*.py")))
    assert len(files) == len(PAGES) > 10
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *files],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Dataset:
    """What the page asks of a data set of Ray, in memory: a data frame, in several batches."""

    def __init__(self, frame, written=None):
        self.frame, self.written = frame, {} if written is None else written

    def select_columns(self, names):
        return Dataset(self.frame[names], self.written)

    def unique(self, name):
        return list(dict.fromkeys(self.frame[name]))

    def map_batches(self, function, *, batch_size=100, batch_format="numpy"):
        found = []
        for start in range(0, len(self.frame), min(batch_size, 100)):
            batch = self.frame.iloc[start : start + min(batch_size, 100)]
            if batch_format == "numpy":
                batch = {name: batch[name].to_numpy() for name in batch.columns}
            found.append(pd.DataFrame(function(batch)))
        return Dataset(pd.concat(found, ignore_index=True), self.written)

    def iter_rows(self):
        return iter(self.frame.to_dict("records"))

    def write_parquet(self, path):
        self.written[path] = self.frame


def test_the_recipe_for_ray_is_the_fit_in_memory(monkeypatch):
    page = "guides/a-billion-predictions.md"
    (recipe,) = [block for block in others(page) if "import ray" in block]
    scores, y = simulate(450, 3)
    names = ["prob_ant", "prob_bee", "prob_cow"]
    frame = pd.DataFrame(scores, columns=names).assign(label=np.array(["ant", "bee", "cow"])[y])
    stored = Dataset(frame)
    ray = types.SimpleNamespace(
        data=types.SimpleNamespace(read_parquet={"predictions/": stored}.__getitem__)
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    found = {}
    exec(compile(recipe, page, "exec"), found)
    want = NormalizationAwareIsotonic().fit(scores, frame["label"]).predict_proba(scores)
    written = np.stack(stored.written["calibrated/"]["calibrated"])
    np.testing.assert_allclose(written, want, rtol=0, atol=1e-9)
    chunks = found["RayChunks"](stored, names)
    assert chunks.labels().tolist() == ["ant", "bee", "cow"]
    assert negative_log_likelihood(chunks) == pytest.approx(
        negative_log_likelihood(frame["label"], frame[names])
    )
