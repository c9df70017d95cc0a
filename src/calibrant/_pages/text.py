"""Names and messages of any origin, as text that can be shown."""

from __future__ import annotations

import re
import unicodedata

from calibrant.plots._style import shorten

LONGEST_NAME = 120
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return text without characters that cannot be encoded, or that steer what shows them."""
    return "".join(
        sign.encode("unicode_escape").decode()
        if (unicodedata.category(sign) in "Cc Cs" and sign != "\n") or _DIRECTIONS.match(sign)
        else sign
        for sign in text
    )


def clean(text: object, longest: int | None = LONGEST_NAME) -> str:
    """Return visible text on one line, of a bounded length if there is a bound."""
    words = visible(" ".join(str(text).split()))
    return words if longest is None else shorten(words, longest)
