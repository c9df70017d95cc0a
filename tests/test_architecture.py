"""The house stays as it was planned: layers, sizes, and nothing that does not belong."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "calibrant"
FILES = sorted(SOURCE.rglob("*.py"))
FLOORS = {
    "kernels": 0,
    "errors": 0,
    "notices": 0,
    "atomic_file": 0,
    "columns": 1,
    "extras": 0,
    "containers": 1,
    "labels": 1,
    "row_order": 1,
    "step_function": 1,
    "simplex": 2,
    "solvers": 3,
    "calibrators": 4,
    "metrics": 4,
    "plots": 4,
    "datasets": 4,
    "files": 5,
    "model_file": 5,
    "report": 5,
    "study": 5,
    "cli": 6,
    "__main__": 7,
}


def floor(module):
    """Return the floor of a module of this package; None for the top, which imports lazily."""
    parts = module.split(".")
    return FLOORS[parts[1]] if len(parts) > 1 else None


def imports(path):
    """Every module of this package that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("calibrant"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibrant"):
            if node.module == "calibrant":
                yield from (f"calibrant.{a.name}" for a in node.names if a.name in FLOORS)
            else:
                yield node.module


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    if path == SOURCE / "__init__.py":  # loads what it names when it is used
        return
    here = floor(".".join(["calibrant", *path.relative_to(SOURCE).with_suffix("").parts]))
    for module in imports(path):
        there = floor(module)
        assert there is None or there <= here, f"{path.name} imports {module}"


def test_kernels_import_only_numpy_and_numba():
    ours = {"__future__", "calibrant"}
    allowed = {"numpy", "numba", "math", "typing", "collections", "contextlib", *ours}
    for path in (SOURCE / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module.partition(".")[0] in allowed, path
            elif isinstance(node, ast.Import):
                assert all(a.name.partition(".")[0] in allowed for a in node.names), path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body
            documented = ast.get_docstring(node) is not None
            first = body[1] if documented and len(body) > 1 else body[0]
            assert node.end_lineno - first.lineno < 60, f"{path.name}: {node.name}"


def test_no_fastmath_and_no_parallel():
    for path in FILES:
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.keyword)]
        assert not [n for n in calls if n.arg in {"fastmath", "parallel"}], path


def test_no_pickle_in_the_package():
    for path in FILES:
        assert not re.search(
            r"^\s*(import|from) (pickle|joblib|marshal|shelve)", path.read_text(), re.MULTILINE
        )


def test_import_is_lazy():
    """`import calibrant` loads neither numba nor scikit-learn nor matplotlib."""
    code = (
        "import sys, calibrant\n"
        "print(sorted({'numba', 'sklearn', 'scipy', 'matplotlib'} & {*sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_is_there():
    import calibrant

    for name in calibrant.__all__:
        assert getattr(calibrant, name) is not None
        assert name in dir(calibrant)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = calibrant.Nothing


USE_A_KERNEL = (
    "import numpy as np\n"
    "from calibrant.kernels.pava import pool_adjacent_violators as pava\n"
    "print(pava(np.array([1.0, 0.0]), np.ones(2))[1])\n"
)


@pytest.mark.parametrize(
    "fault",
    [
        "c.CacheImpl._locator_classes = []",
        "c.IndexDataCacheFile._open_for_write = lambda *_: open('/dev/full', 'w')",
        "c.IndexDataCacheFile._save_data = lambda *_: open('/nowhere/else')",
    ],
    ids=["read-only", "full", "half full"],
)
def test_kernels_compile_without_a_place_for_their_cache(tmp_path, fault):
    """A read-only install without a home, or a full disk."""
    code = f"import numba.core.caching as c\n{fault}\n{USE_A_KERNEL}"
    assert use_a_kernel(tmp_path, code) == "[1.]"


def test_kernels_compile_although_their_cache_is_damaged(tmp_path):
    assert use_a_kernel(tmp_path, USE_A_KERNEL) == "[1.]"
    files = [path for path in tmp_path.rglob("*.nb*") if path.is_file()]
    assert files
    for suffix in ("nbc", "nbi"):  # the code alone, then the index as well
        for path in tmp_path.rglob(f"*.{suffix}"):
            path.write_bytes(path.read_bytes()[:50])
        assert use_a_kernel(tmp_path, USE_A_KERNEL) == "[1.]"


def use_a_kernel(cache, code):
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=cache,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )
    return out.stdout.strip()
