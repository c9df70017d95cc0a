"""What is public: its modules, its names, what they say of themselves, and the page about them."""

import ast
import dataclasses
import importlib.util
import inspect
import re

import pytest

from test_architecture import ROOT, SOURCE

_spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "write_reference.py")
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

MODULES = [*reference.MODULES, *(inner for found in reference.MODULES.values() for inner in found)]
NAMES = [
    (module, name)
    for module in MODULES
    for name in reference.public_names(module)
    if name != "__version__"
]
IDS = [".".join(pair) for pair in NAMES]


def public(module, name):
    """The object of a public name; None where it needs an extra that is not installed."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return None


def sections(text):
    """The numpydoc sections of a docstring."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(node, value):
    """Names of the parameters, without self and what is passed on."""
    if value is not None:
        try:
            found = inspect.signature(value).parameters
        except ValueError:
            return []
        return [name for name, one in found.items() if one.kind != one.VAR_KEYWORD]
    spec = node.args if isinstance(node, ast.FunctionDef) else ast.arguments([], [], None, [], [])
    return [one.arg for one in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]


def is_exception(value):
    return isinstance(value, type) and issubclass(value, Exception)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=IDS)
def test_every_public_name_explains_itself(module, name):
    """What it is, its parameters, what it returns or has, and an example that runs."""
    value, node = public(module, name), reference.definition(module, name)
    if inspect.ismodule(value) or isinstance(node, ast.Module):
        pytest.skip("a module, whose names are looked at themselves")
    if getattr(value, "__module__", "").startswith("sklearn."):
        pytest.skip("scikit-learn's own")
    text = inspect.getdoc(value) if value is not None else ast.get_docstring(node)
    assert re.match(r"[A-Z`'a-z].*[.:]$", text.partition("\n\n")[0], re.DOTALL), text[:80]
    if is_exception(value):
        pytest.skip("an exception, which a sentence explains")
    found = sections(text)
    wanted = {"Examples"}
    if parameters(node, value):
        wanted.add("Parameters")
    is_class = isinstance(value, type) or isinstance(node, ast.ClassDef)
    if not is_class:
        of_another_room = node is None  # whose source is not that of the module
        signature = inspect.signature(value) if of_another_room else None
        returns = signature.return_annotation if signature else ast.unparse(node.returns)
        wanted |= {"Returns"} if returns != "None" else set()
    if is_class and not dataclasses.is_dataclass(value):
        wanted.add("Attributes")
    assert wanted <= found.keys(), wanted - found.keys()
    assert ">>> " in found["Examples"]
    listed = re.findall(r"^\*{0,2}([\w, *]+?)(?: :|$)", found.get("Parameters", ""), re.MULTILINE)
    known = {one.strip("* ") for line in listed for one in line.split(",")}
    assert {*parameters(node, value)} <= known, {*parameters(node, value)} - known


@pytest.mark.parametrize("module", reference.MODULES)
def test_the_reference_is_in_step(module):
    """``python tools/write_reference.py`` writes it."""
    assert reference.path_of(module).read_text(encoding="utf-8") == reference.page(module)


def test_the_reference_has_no_other_pages():
    assert (reference.REFERENCE / "index.md").read_text(encoding="utf-8") == reference.index()
    pages = {path.stem for path in reference.REFERENCE.glob("*.md")}
    modules = {reference.path_of(module).stem for module in reference.MODULES}
    assert pages == modules | {"index", *reference.OTHERS}


def test_no_other_module_is_public():
    """Everything else is in a module, or a package, that begins with an underscore."""
    found = set()
    for path in SOURCE.rglob("*.py*"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if path.suffix in {".py", ".pyx"} and not any(part.startswith("_") for part in parts):
            found.add(".".join(parts))
    assert found == {*MODULES}


@pytest.mark.parametrize("module", reference.MODULES)
def test_a_module_shows_its_public_names_alone(module):
    found = importlib.import_module(module)
    inner = (
        {name.partition(".")[2] for name in reference.MODULES} if module == "calibrant" else set()
    )
    assert {*dir(found)} - inner == {*found.__all__}
    assert not any(name.startswith("_") for name in found.__all__ if name != "__version__")
    for name in found.__all__:
        value = public(module, name)
        home = getattr(value, "__module__", None) or getattr(value, "__name__", "calibrant")
        assert home.split(".")[0] in {"calibrant", "sklearn"} or name == "__version__", name
    assert not hasattr(found, "nothing")


def test_the_number_of_names_is_counted():
    """Apart from errors, about 110 of calibration and 25 of what it is for: each is a decision."""
    uses = {"calibrant.decisions", "calibrant.judge", "calibrant.monitor"}
    found = [module for module, _ in NAMES if module != "calibrant.errors"]
    assert len([module for module in found if module not in uses]) <= 120
    assert len([module for module in found if module in uses]) <= 15
