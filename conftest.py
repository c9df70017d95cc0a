"""Modules that need a package which is not installed are not looked at for examples.

Any other module that cannot be imported is an error, a test module above all: with pytest's own
``--doctest-ignore-import-errors`` it would be skipped in silence, with all of its tests.
"""

from importlib.util import find_spec

MODULES = {
    "mlflow": ["export/mlflow*.py"],
    "onnx": ["export/onnx*.py"],
    "probmetrics": ["export/probmetrics.py"],
    "pyspark": ["scale/spark*.py"],
    "skl2onnx": ["export/skl2onnx*.py"],
    "torch": ["export/torch*.py", "export/pt2.py"],
}
collect_ignore_glob = [
    f"src/calibrant/{pattern}"
    for package, patterns in MODULES.items()
    if find_spec(package) is None
    for pattern in patterns
]
