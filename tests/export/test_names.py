"""The names of the package: there without what they need, which they ask for by its extra."""

import json
import subprocess
import sys
import tomllib

import pytest

from calibrant import export
from test_architecture import ROOT

NEEDED = {  # the package that each name needs; its extra has the same name
    "merge_onnx": "onnx",
    "mlflow": "mlflow",
    "register_skl2onnx": "skl2onnx",
    "save_pt2": "torch",
    "to_onnx": "onnx",
    "to_torch": "torch",
}

FREE = sorted({*export.__all__} - {*NEEDED})


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


@pytest.fixture(scope="module")
def without():
    """What importing each name says where none of the packages is there; nothing if it can be."""
    code = f"""
import json, sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name in {[*NEEDED.values(), "skops"]}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Nowhere())
import calibrant.export as export
said = dict.fromkeys([*export.__all__, "mlflow"], "")
for name in said:
    try:
        getattr(export, name)
    except ImportError as error:
        said[name] = str(error)
print(json.dumps(said))
"""
    return json.loads(run(code))


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_without_its_package_a_name_asks_for_the_extra(name, without):
    package = NEEDED[name]
    asks = f"needs {package}; install it with: pip install 'calibrant[{package}]'"
    assert asks in without[name]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert package in project["optional-dependencies"]


@pytest.mark.parametrize("name", FREE)
def test_other_names_need_nothing(name, without):
    assert without[name] == ""
