"""Warnings, at the line that asked for the work, and once for a line that asks many times."""

from __future__ import annotations

import re
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

HERE = "calibrant"
BETWEEN = ("sklearn", "joblib")
"""Libraries that call a calibrator many times for one line of their user."""

_given: set[tuple[type[Warning], str, str, int]] = set()


def warn(warning: Warning) -> None:
    """Give a warning that points to the line that asked, outside of this package and ``BETWEEN``.

    Python shows a warning once for each line, but scikit-learn's searches make it forget what it
    has shown before every fit. So what comes from within them is shown once for each line that
    started one, and numbers in the text, such as the sizes of folds, make it no other warning.
    """
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
