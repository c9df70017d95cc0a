"""Warnings, at the line that asked for the work."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BETWEEN = ("calibrant", "sklearn", "joblib")
"""This package, and libraries that call a calibrator for a line of their user."""

_kept: ContextVar[list[Warning] | None] = ContextVar("_kept", default=None)


@contextmanager
def kept() -> Iterator[list[Warning]]:
    """Keep what is warned of inside, for the thread that asked: this one has no line of a user."""
    result: list[Warning] = []
    token = _kept.set(result)
    try:
        yield result
    finally:
        _kept.reset(token)


def warn(warning: Warning) -> None:
    """Give a warning that points to the line that asked, outside of the packages ``BETWEEN``."""
    waiting = _kept.get()
    if waiting is not None:
        waiting.append(warning)
        return
    depth, user = 1, sys._getframe(1)  # noqa: SLF001
    while user.f_back is not None:
        if str(user.f_globals.get("__name__", "")).partition(".")[0] not in BETWEEN:
            break
        depth, user = depth + 1, user.f_back
    warnings.warn(warning, stacklevel=depth + 1)
