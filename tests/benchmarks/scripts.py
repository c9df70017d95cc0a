"""Modules of ``benchmarks/``, which import each other by plain names."""

import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from test_architecture import ROOT

HOME = ROOT / "benchmarks"


@contextmanager
def importing():
    """Let them be imported, and forget them afterwards: some are called as folders of tests are."""
    sys.path.insert(0, str(HOME))
    try:
        yield import_module
    finally:
        sys.path.remove(str(HOME))
        for name, module in [*sys.modules.items()]:
            if Path(getattr(module, "__file__", None) or "nowhere").parent == HOME:
                del sys.modules[name]
