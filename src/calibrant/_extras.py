"""What is loaded, and what is installed, on demand only."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = ("click", "rich", "matplotlib", "jinja2", "markupsafe", "pyarrow", "pandas")
"""Modules of the extra ``cli``."""


def missing(error: ImportError) -> str | None:
    """Name the module of these that an import did not find."""
    name = (error.name or "").partition(".")[0]
    return name if name in MODULES else None


def advice(extra: str = "cli") -> str:
    """Say how to install an extra, from the package index and from a clone."""
    return (
        f"install it with: pip install 'calibrant[{extra}]', "
        f"or in a clone: pip install '.[{extra}]'"
    )


def needed(error: ImportError, who: str, extra: str) -> ImportError:
    """Return an error for an import that failed, which names the extra that brings the module."""
    module = (error.name or "").partition(".")[0]
    return ImportError(f"{who} needs {module}; {advice(extra)}", name=error.name)


def attach(
    package: str, homes: dict[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    ``homes`` has the module of every public name; ``modules`` are public modules of the package.
    """

    def load(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted([*homes, *modules])
