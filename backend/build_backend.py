"""meson-python as it is; on Linux without a C compiler, with zig's from PyPI.

So ``pip install .`` needs Python and pip alone. ``CC`` names another compiler.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import mesonpy
from mesonpy import build_editable, build_sdist, build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

ZIG: list[str] = []
if sys.platform == "linux" and "CC" not in os.environ:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        ZIG.append("ziglang>=0.13")
        os.environ["CC"] = "python-zig cc -mcpu=baseline"  # for any processor of the kind
        os.environ["AR"] = "python-zig ar"


def get_requires_for_build_sdist(settings: Any = None) -> list[str]:
    """Return what a build needs beside the requirements of pyproject.toml."""
    return mesonpy.get_requires_for_build_sdist(settings) + ZIG


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """Return what a build needs beside the requirements of pyproject.toml."""
    return mesonpy.get_requires_for_build_wheel(settings) + ZIG


get_requires_for_build_editable = get_requires_for_build_wheel
