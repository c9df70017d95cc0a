"""Write docs/reference: every public name, in lists that the site makes pages of.

``python tools/write_reference.py``. Only public modules are imported, so extras are not needed.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calibrant"
REFERENCE = ROOT / "docs" / "reference"

MODULES = {
    "calibrant": (),
    "calibrant.metrics": (),
    "calibrant.plots": (),
    "calibrant.decisions": (),
    "calibrant.scale": ("calibrant.scale.dask", "calibrant.scale.spark"),
    "calibrant.export": ("calibrant.export.mlflow",),
    "calibrant.model_file": (),
    "calibrant.report": (),
    "calibrant.study": ("calibrant.study.probmetrics",),
    "calibrant.monitor": (),
    "calibrant.hooks": (),
    "calibrant.judge": (),
    "calibrant.datasets": (),
    "calibrant.errors": (),
}
"""The public modules, each with those inside it that are public, too."""

OTHERS = {
    "command": "every command and option of `calibrant`.",
    "inputs": "what calibrators and metrics accept, and what they refuse.",
    "model-files": "the format of saved calibrators, its limits and errors.",
    "glossary": "the terms of these pages, docstrings and errors.",
    "stability": "what later releases may change, and what they may not.",
    "licences": "the licences of everything that calibrant depends on.",
    "changelog": "what each release changed.",
}
"""Pages of the reference that are not about names, and what they have."""


def source(module):
    """Return the file of a module."""
    path = SOURCE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree(path):
    """Parse a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def public_names(module):
    """Return ``__all__`` of a module, or of a module that may need an extra."""
    if module in MODULES:
        return tuple(sorted(importlib.import_module(module).__all__, key=str.lower))
    for node in tree(source(module)).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tuple(ast.literal_eval(node.value))
    raise LookupError(f"{module} has no __all__")


@cache
def definition(module, name):
    """Return the class, function or module that a public name is, as it stands in the source."""
    inner = f"{module}.{name}"
    if any(inner in found for found in MODULES.values()):
        return tree(source(inner))
    home = source(module)
    others = home.parent.rglob("*.py") if home.name == "__init__.py" else ()
    for path in (home, *sorted(others)):
        for node in tree(path).body:
            if getattr(node, "name", None) == name:
                return node
    return None


def first_sentence(node):
    """Return the first paragraph of a docstring, without markup that is not Markdown's."""
    text = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return " ".join(text.replace("``", "`").replace(":func:", "").split())


def lines(module):
    """Yield the list of a module's names, which the site makes pages of."""
    yield from ("```{eval-rst}", f".. currentmodule:: {module}", "", ".. autosummary::")
    yield from ("   :toctree: names", "   :nosignatures:", "")
    inside = {found.rpartition(".")[2] for found in MODULES.get(module, ())}
    for name in public_names(module):
        if name not in inside | {"__version__"}:
            yield f"   {name}"
    yield "```"


def page(module):
    """Return the page of a module."""
    found = [f"# `{module}`", "", first_sentence(tree(source(module))), "", *lines(module)]
    for inner in MODULES[module]:
        found += ["", f"## `{inner}`", "", first_sentence(tree(source(inner)))]
        found += ["", *lines(inner)]
    return "\n".join([*found, ""])


def path_of(module):
    """Return where the page of a module is."""
    return REFERENCE / f"{module.rpartition('.')[2]}.md"


def index():
    """Return the page that links to the others."""
    found = ["# Reference", ""]
    found += [
        "All public names, by module. Each has a page with its parameters, what it returns and"
    ]
    found += ["an example. Modules that begin with an underscore are private and may change"]
    found += ["([stability](stability.md)).", ""]
    for module in MODULES:
        about = first_sentence(tree(source(module)))
        found.append(f"- [`{module}`]({path_of(module).name}): {about}")
    found += ["", "Other pages:", ""]
    for name, about in OTHERS.items():
        title = (REFERENCE / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
        found.append(f"- [{title.removeprefix('# ')}]({name}.md): {about}")
    pages = [*(path_of(module).stem for module in MODULES), *OTHERS]
    return "\n".join([*found, "", "```{toctree}", ":hidden:", "", *pages, "```", ""])


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for written in MODULES:
        path_of(written).write_text(page(written), encoding="utf-8")
    (REFERENCE / "index.md").write_text(index(), encoding="utf-8")
