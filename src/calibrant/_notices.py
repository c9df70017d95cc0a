"""Warnings, at the line that asked for the work, and once for a line that asks many times."""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

HERE = "calibrant"
BETWEEN = ("sklearn", "joblib")
"""Libraries that call a calibrator many times for one line of their user."""

_given: set[tuple[type[Warning], str, str, int]] = set()
_kept: ContextVar[list[Warning] | None] = ContextVar("_kept", default=None)


@contextmanager
def kept() -> Iterator[list[Warning]]:
    """Keep what is warned of inside, for the thread that asked: this one has no line of a user."""
    found: list[Warning] = []
    token = _kept.set(found)
    try:
        yield found
    finally:
        _kept.reset(token)


def warn(warning: Warning) -> None:
    """Give a warning that points to the line that asked, outside of this package and ``BETWEEN``.

    Python shows a warning once for each line, but scikit-learn's searches make it forget what it
    has shown before every fit. So what comes from within them is shown once for each line that
    started one, and numbers in the text, such as the sizes of folds, make it no other warning.
    """
    waiting = _kept.get()
    if waiting is not None:
        waiting.append(warning)
        return
    depth, user = 1, sys._getframe(1)  # noqa: SLF001
    is_direct = True
    while user.f_back is not None and _package(user) in (HERE, *BETWEEN):
        is_direct = is_direct and _package(user) == HERE
        depth, user = depth + 1, user.f_back
    if not is_direct and _is_shown_once(warning, user):
        words = re.sub(r"\d+", "", str(warning))
        key = (type(warning), words, user.f_code.co_filename, user.f_lineno)
        if key in _given:
            return
        _given.add(key)
    warnings.warn(warning, stacklevel=depth + 1)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_shown_once(warning: Warning, frame: FrameType) -> bool:
    """Whether Python's filters ask for the first of equal warnings only: not for all, or errors."""
    module = str(frame.f_globals.get("__name__", ""))
    for action, message, category, place, _ in warnings.filters:
        if (
            isinstance(warning, category)
            and (message is None or message.match(str(warning)))
            and (place is None or place.match(module))
        ):
            return action in {"default", "module", "once"}
    return True
