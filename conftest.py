"""Modules that need a package which is not installed are not looked at for examples.

Any other module that cannot be imported is an error, a test module above all: with pytest's own
``--doctest-ignore-import-errors`` it would be skipped in silence, with all of its tests.
"""

from importlib.util import find_spec

EXPORT, SCALE, HOOKS = (f"src/calibrant/{room}" for room in ("export", "scale", "hooks"))
STUDY = "src/calibrant/study"
MODULES = {
    "evaluate": [f"{HOOKS}/_hub/calibration.py"],
    "inspect_ai": [f"{HOOKS}/_inspect.py"],
    "mlflow": [f"{EXPORT}/*mlflow*.py"],
    "onnx": [f"{EXPORT}/*onnx*.py", "tools/measure_runtimes.py"],
    "probmetrics": [f"{STUDY}/*probmetrics.py"],
    "pyspark": [f"{SCALE}/*spark*.py"],
    "skl2onnx": [f"{EXPORT}/*skl2onnx*.py"],
    "torch": [f"{EXPORT}/*torch*.py", f"{EXPORT}/*pt2.py"],
}
# What `make docs` runs, and writes.
collect_ignore_glob = ["docs/conf.py", "docs/gallery/*", "docs/examples/*"]
collect_ignore_glob += [
    pattern
    for package, patterns in MODULES.items()
    if find_spec(package) is None
    for pattern in patterns
]
