"""Numbers, p-values and names of any origin, as words that tables, pictures and pages show."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from calibrant._result import Estimate
    from calibrant.metrics import ClassShares

LONGEST_NAME = 120
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
SIGNIFICANT = 0.05
MOST_NAMED = 3  # classes of each direction that are named


def visible(text: str) -> str:
    """Return text without characters that cannot be encoded, or that steer what shows them."""
    return "".join(
        sign.encode("unicode_escape").decode()
        if (unicodedata.category(sign) in "Cc Cs" and sign != "\n") or _DIRECTIONS.match(sign)
        else sign
        for sign in text
    )


def escape(text: object) -> str:
    """Return text of any origin as HTML that shows it and does nothing else."""
    return html.escape(visible(str(text)))


def percent(value: float, digits: int = 1) -> str:
    """Format a share as a percentage."""
    return "-" if math.isnan(value) else f"{100 * value:.{digits}f} %"


def percents(a: float, b: float) -> tuple[str, str]:
    """Format two shares as percentages, with digits that tell them apart."""
    digits = 1
    while digits < 4 and abs(a - b) < 10.0 ** (-2 - digits):
        digits += 1
    return percent(a, digits), percent(b, digits)


def p_words(p_value: float) -> str:
    """Format a p-value: ``p = 0.21``, ``p < 0.001``; empty where there is none."""
    if math.isnan(p_value):
        return ""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def shorten(text: str, length: int = 24) -> str:
    """Cut a long name in the middle, where names of classes differ least."""
    text = " ".join(str(text).split())
    if len(text) <= length:
        return text
    tail = (length - 1) // 3
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def printable(text: object, longest: int | None = LONGEST_NAME) -> str:
    """Return visible text on one line, of a bounded length if there is a bound."""
    words = visible(" ".join(str(text).split()))
    return words if longest is None else shorten(words, longest)


def align_columns(rows: Iterable[Sequence[str]], n_names: int = 1) -> list[str]:
    """Return the lines of a table: its first columns on the left, numbers on the right."""
    columns = []
    for place, column in enumerate(zip(*rows, strict=True)):
        width = max(map(len, column))
        columns.append([c.ljust(width) if place < n_names else c.rjust(width) for c in column])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def amount(value: float, scale: float) -> str:
    """Write an amount in the digits that one of this scale is worth."""
    return f"{value:,.0f}" if abs(scale) >= 100 else f"{value:#.3g}"


def money(own: Estimate) -> str:
    """Write an amount with its interval."""
    value, low, high = (amount(number, own.value) for number in own)
    return value if math.isnan(own.low) else f"{value} ({low} to {high})"


def describe_shares(shares: ClassShares) -> str:
    """Name the classes predicted too often and too seldom, of two the positive one, if any."""
    gap = shares.predicted - shares.observed
    order = [1] if len(gap) == 2 else np.argsort(-np.abs(gap), kind="stable").tolist()
    off = [j for j in order if shares.p_holm[j] < SIGNIFICANT]
    words = []
    for direction, sign in (("over", 1), ("under", -1)):
        columns = [j for j in off if sign * gap[j] > 0]
        named = []
        for j in columns[:MOST_NAMED]:
            name, said, seen = class_words(shares, j)
            chance = p_words(float(shares.p_holm[j]))
            named.append(f"class {name} ({said} predicted, {seen} observed, {chance})")
        more = len(columns) - MOST_NAMED
        if columns:
            text = f"{direction}-predicted: {', '.join(named)}"
            words.append(text + (f" and {more} more" if more > 0 else ""))
    return "; ".join(words)


def class_words(shares: ClassShares, j: int) -> tuple[str, str, str]:
    """Name of a class, and its predicted and observed shares."""
    shown = percents(float(shares.predicted[j]), float(shares.observed[j]))
    return shorten(str(shares.classes[j])), *shown
