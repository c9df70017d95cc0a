"""The package keeps to its layers and sizes, and has nothing in it that does not belong."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from calibrant import FlattenedIsotonic
from calibrant.datasets import simulated_scores
from calibrant.model_file import save

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calibrant"
FILES = sorted(SOURCE.rglob("*.py"))
KERNELS = sorted((SOURCE / "_kernels").glob("*.p[yx][xd]"))
LAYERS = [  # from the bottom up
    {"errors", "_notices", "_progress", "_threads", "_extras", "_types"}
    | {"_atomic_file", "_kernels", "_result", "_text", "_drawing"},
    {"_row_order"},
    {"_gate"},
    {"_maps"},
    {"_bad_rows", "_row_sample"},
    {"_objectives"},
    {"_solvers"},
    {"scale"},
    {"_predictions"},
    {"_calibrators", "metrics", "plots", "datasets", "_trial", "_pages"},
    {"_files", "model_file"},
    {"export"},
    {"report", "study", "decisions", "monitor", "judge"},
    {"hooks"},
    {"_cli"},
    {"__main__"},
]
LAYER_OF = {top: place for place, layer in enumerate(LAYERS) for top in layer}


def name(path):
    """The module of a file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name(path): path for path in FILES}


def statements(node):
    """Every import in a tree, also inside functions, but not those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from statements(child)


def imports(path):
    """Every module of this package that a file imports."""
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = {alias.name for alias in node.names}
        else:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found = (inner & MODULES.keys()) or {node.module}
        yield from found & MODULES.keys()


# The top imports lazily, so nobody waits for it.
IMPORTS = {module: {*imports(path)} - {"calibrant"} for module, path in MODULES.items()}
del IMPORTS["calibrant"]


def test_imports_are_found():
    assert "calibrant._kernels.tables" in IMPORTS["calibrant._solvers.one_vs_rest"]
    assert "calibrant._gate" in IMPORTS["calibrant._calibrators.base"]
    assert sum(map(len, IMPORTS.values())) > 500


def top(module):
    """The module of the first level that a module belongs to."""
    return module.split(".")[1]


def test_imports_point_one_way():
    for module, found in IMPORTS.items():
        for other in found:
            assert LAYER_OF[top(other)] <= LAYER_OF[top(module)], f"{module} imports {other}"


def test_imports_go_in_no_circle():
    """Neither between files nor between modules of the first level, also within a layer."""
    tops = {top(module): set() for module in IMPORTS}
    for module, found in IMPORTS.items():
        tops[top(module)] |= {top(other) for other in found} - {top(module)}
    for graph in (IMPORTS, tops):
        TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_kernels_import_only_numpy_and_c():
    allowed = {"numpy", "libc", "cython", "calibrant._kernels"}
    for path in KERNELS:
        found = re.findall(
            r"^(?:from|c?import) ([\w.]+)(?: c?import|$| as)", path.read_text(), re.MULTILINE
        )
        roots = {re.sub(r"^(calibrant\.\w+|\w+).*", r"\1", module) for module in found}
        assert roots <= allowed, path
    assert len(KERNELS) > 10


def length(function):
    """Lines of a function without its docstring."""
    documented = ast.get_docstring(function) is not None and len(function.body) > 1
    return function.end_lineno - function.body[documented].lineno + 1


BUDGETS = {
    "": 500,
    "_gate": 1_740,
    "shared": 2_210,
    "_kernels": 3_580,
    "_maps": 1_540,
    "_objectives": 1_160,
    "_solvers": 4_150,
    "_calibrators": 5_150,
    "metrics": 3_830,
    "plots report": 3_230,
    "decisions monitor judge": 3_720,
    "scale": 1_080,
    "model_file": 1_310,
    "export": 2_040,
    "_files _cli": 4_900,
    "hooks": 530,
    "study": 3_530,
}
"""Lines of code of each room, at most, with space for one more metric, method or format. They may
fall; one that rises needs a line in CHANGELOG.md that says which users asked."""

OF_TOP = {"__init__", "__main__", "errors", "datasets"}


def room(path):
    """The room whose budget a file counts for."""
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if first in OF_TOP:
        return ""
    return next((name for name in BUDGETS if first in name.split()), "shared")


def test_rooms_keep_to_their_budgets():
    lines = dict.fromkeys(BUDGETS, 0)
    for path in {*FILES, *KERNELS}:
        lines[room(path)] += len(path.read_text().splitlines())
    assert {name: n for name, n in lines.items() if n > BUDGETS[name]} == {}


def test_functions_stay_small():
    functions = [
        (path.name, node)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert len(functions) > 500
    assert [(path, node.name) for path, node in functions if length(node) > 60] == []


def test_private_modules_belong_to_their_room():
    """A module that begins with an underscore is imported by its own room only."""
    rooms = {name for names in BUDGETS for name in names.split() if not name.startswith("_")}
    rooms.add("_gate")
    found = [
        (module, other)
        for module, others in IMPORTS.items()
        for other in others
        if top(other) in rooms - {top(module)} and "._" in other.replace("._gate", "", 1)
    ]
    assert len(found) == 0, found


def test_one_column_of_two_classes_is_known_at_the_gate_alone():
    """Others ask it what a kind of scores is."""
    found = {path.parent.name for path in FILES if "ONE_COLUMN" in path.read_text()}
    assert found == {"_gate"}


MOST_ANY = 100
"""Annotations that hold ``Any``, into which mypy does not look; they may fall."""


def test_annotations_say_what_they_take():
    def annotations(path):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg | ast.AnnAssign):
                yield node.annotation
            elif isinstance(node, ast.FunctionDef):
                yield node.returns

    found = [
        path.name
        for path in FILES
        for annotation in annotations(path)
        if annotation is not None and re.search(r"\bAny\b", ast.unparse(annotation))
    ]
    assert 0 < len(found) <= MOST_ANY


def asserts(node):
    """Whether a statement asserts, or expects an exception."""
    inside = list(ast.walk(node))
    expected = [one.items[0].context_expr for one in inside if isinstance(one, ast.With)]
    return any(isinstance(one, ast.Assert) for one in inside) or any(
        ast.unparse(one).startswith("pytest.raises") for one in expected
    )


def test_no_assertion_stands_under_an_if():
    """Such a one may never be reached, and nobody would know."""
    found = [
        f"{path.relative_to(ROOT)}:{statement.lineno}"
        for path in ROOT.glob("tests/**/*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.If)
        for statement in (*node.body, *node.orelse)
        if asserts(statement)
    ]
    assert found == []


def test_class_names_mean_one_thing():
    """A name that two modules give to different classes says too little."""
    homes = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), []).append(path.name)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_kernels_are_built_without_fast_math():
    """Nothing that reorders sums or merges a product with a sum, and no threads of their own."""
    build = (SOURCE / "_kernels" / "meson.build").read_text()
    assert "-ffp-contract=off" in build
    for text in (build, *(path.read_text() for path in KERNELS)):
        assert not re.search(r"-ffast-math|-Ofast|-fassociative|openmp|prange", text)


def test_no_pickle_in_the_package():
    """But for the number of threads, which joblib's settings say."""
    for path in FILES:
        text = path.read_text()
        if path.name == "_threads.py":
            text = text.replace("import joblib\n", "")
        assert not re.search(
            r"^\s*(import|from) (pickle|joblib|marshal|shelve)", text, re.MULTILINE
        )


def test_import_is_lazy():
    """`import calibrant` loads neither numpy nor scikit-learn nor matplotlib."""
    code = (
        "import sys, calibrant\n"
        "print(sorted({'numpy', 'sklearn', 'scipy', 'matplotlib'} & {*sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def modules_after(code, *arguments):
    """Names of all modules that a fresh process has loaded after some code."""
    code += "\nimport sys; print(*sys.modules, file=open(sys.argv[1], 'w'))"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    subprocess.run(command, capture_output=True, check=True)
    return {*Path(arguments[0]).read_text().split()}


def packages(modules):
    """Names of packages that Python does not bring along; what all Cython modules share is none."""
    names = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return {name for name in names if not name.startswith("_cython_")}


RUN = "import sys; from calibrant._cli.main import run; assert run(sys.argv[2:]) == 0"


def test_help_loads_nothing_but_the_commands(tmp_path):
    found = packages(modules_after(RUN, tmp_path / "modules", "--help"))
    assert found - packages(modules_after("", tmp_path / "modules")) == {"calibrant", "click"}


@pytest.fixture(scope="module")
def of_scikit_learn(tmp_path_factory):
    """What scikit-learn loads itself, such as pandas where it is installed."""
    return modules_after("import sklearn.base", tmp_path_factory.mktemp("base") / "modules")


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_apply_loads_an_estimator_and_what_opens_its_file(tmp_path, suffix, of_scikit_learn):
    scores, y = simulated_scores(200)
    model, file, out = (tmp_path / name for name in ("m.calibrant", f"p.{suffix}", f"o.{suffix}"))
    save(FlattenedIsotonic().fit(scores, y), model)
    if suffix == "npz":
        np.savez(file, probs=scores)
    else:
        csv.write_csv(pa.table({f"class {c}": scores[:, c] for c in range(3)}), file)
    found = modules_after(RUN, tmp_path / "modules", "apply", model, file, "-o", out)
    ours = found - of_scikit_learn
    assert "calibrant.model_file._parts" in ours
    assert not any(module.startswith("scipy.") for module in ours)
    wanted = {"calibrant", "click", "numpy", "sklearn"}
    assert packages(ours) <= wanted | ({"pyarrow"} if suffix != "npz" else set())
