"""Names and messages of any origin, as text that can be shown."""

from __future__ import annotations

from calibrant._html import visible
from calibrant.plots._style import shorten

LONGEST_NAME = 120


def clean(text: object, longest: int | None = LONGEST_NAME) -> str:
    """Return visible text on one line, of a bounded length if there is a bound."""
    words = visible(" ".join(str(text).split()))
    return words if longest is None else shorten(words, longest)
