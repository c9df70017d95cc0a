"""The names of the package: there without what they need, which they ask for by its extra."""

import subprocess
import sys

import pytest

from calibrant import export
from test_documentation import PROJECT

NEEDED = {  # the package that each name needs; its extra has the same name
    "merge_onnx": "onnx",
    "mlflow": "mlflow",
    "register_skl2onnx": "skl2onnx",
    "to_onnx": "onnx",
    "to_torch": "torch",
}


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_needs_no_extra():
    packages = "{'numpy', 'sklearn', 'onnx', 'torch', 'mlflow', 'skl2onnx', 'skops'}"
    code = (
        "import sys, calibrant.export as export\n"
        "assert {*export.__all__} <= {*dir(export)}\n"
        f"print(sorted({packages} & {{*sys.modules}}))"
    )
    assert run(code) == "[]"


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match=r"'calibrant.export' has no attribute 'to_nothing'"):
        _ = export.to_nothing


def test_what_every_name_needs_is_known():
    assert {*export.__all__} <= {*NEEDED, "trusted_types"}


@pytest.mark.parametrize("name", sorted({*export.__all__} & {*NEEDED}))
def test_without_its_package_a_name_asks_for_the_extra(name):
    package = NEEDED[name]
    code = (
        "import sys\n"
        f"sys.modules[{package!r}] = None  # as if it were not installed\n"
        f"try:\n    from calibrant.export import {name}\n"
        "except ImportError as error:\n    print(error)"
    )
    assert f"needs {package}; install it with: pip install 'calibrant[{package}]'" in run(code)
    assert package in PROJECT["project"]["optional-dependencies"]


def test_the_list_for_skops_needs_no_skops():
    code = "import sys; sys.modules['skops'] = None; from calibrant.export import trusted_types; "
    assert int(run(code + "print(len(trusted_types()))")) > 40
