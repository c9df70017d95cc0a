"""Pages whose examples need large packages, which `make test-export` installs."""

from importlib.util import find_spec

import pytest

NEEDED = {
    "into-production.md": ("onnxruntime", "onnxscript", "skl2onnx", "torch", "mlflow", "skops"),
}
collect_ignore = [page for page, packages in NEEDED.items() if not all(map(find_spec, packages))]

# mlflow's own, of its type hints and of how it compares the columns of an example; torch's own.
IGNORED = (
    "ignore:.*Any type hint is inferred",
    "ignore:Operation with range",
    "ignore:.isinstance.treespec",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in NEEDED:
            item.add_marker(pytest.mark.filterwarnings(*IGNORED))
