"""What is installed only on demand, and how."""

from __future__ import annotations

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
