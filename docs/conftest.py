"""Pages whose examples need large packages, which `make test-export` installs."""

from importlib.util import find_spec

NEEDED = {"into-production.md": ("onnxruntime", "skl2onnx", "torch", "mlflow", "skops")}
collect_ignore = [page for page, packages in NEEDED.items() if not all(map(find_spec, packages))]
