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
CODE = f"""
import json, sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name in {[*NEEDED.values(), "skops"]}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Nowhere())
import calibrant.export as export
loaded = sorted({{"numpy", "sklearn"}} & {{*sys.modules}})
said = dict.fromkeys([*export.__all__, "mlflow"], "")
for name in said:
    try:
        getattr(export, name)
    except ImportError as error:
        said[name] = str(error)
print(json.dumps([loaded, said]))
"""


@pytest.fixture(scope="module")
def without():
    """What an import loads, and what names say, where none of the packages is there."""
    command = [sys.executable, "-c", CODE]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def test_import_loads_no_package_and_names_that_need_none_are_there(without):
    loaded, said = without
    assert loaded == []
    assert {name for name, text in said.items() if not text} == {*export.__all__} - {*NEEDED}


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_without_its_package_a_name_asks_for_the_extra(name, without):
    package = NEEDED[name]
    assert f"pip install 'calibrant[{package}]'" in without[1][name]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert package in project["optional-dependencies"]
