"""What is installed only on demand, and how."""

from __future__ import annotations

MODULES = ("click", "rich", "matplotlib", "jinja2", "markupsafe", "pyarrow")
"""Modules of the extra ``cli``."""


def missing(error: ImportError) -> str | None:
    """Name the module of these that an import did not find."""
    name = (error.name or "").partition(".")[0]
    return name if name in MODULES else None


def advice() -> str:
    """Say how to install them, from the package index and from a clone."""
    return "install it with: pip install 'calibrant[cli]', or in a clone: pip install '.[cli]'"
