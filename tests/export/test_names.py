"""The names of the package, which are there without any of the packages that they need."""

import subprocess
import sys

import pytest

from calibrant import export


def test_import_needs_no_extra():
    code = (
        "import sys, calibrant.export as export\n"
        "assert {*export.__all__} <= {*dir(export)}\n"
        "print(sorted({'numpy', 'sklearn', 'onnx', 'torch', 'mlflow', 'skops'} & {*sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match=r"'calibrant.export' has no attribute 'to_nothing'"):
        _ = export.to_nothing
