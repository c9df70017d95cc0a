"""Tables that notebooks show: every name is escaped, and no colour is set.

Text and background are those of the notebook, so a table is readable in a light one and a dark one.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_CELL = "padding:.2em .7em;vertical-align:top;border-bottom:1px solid rgba(128,128,128,.35)"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_STAR = '<span style="display:inline-block;width:0">*</span>'
"""Takes no room, so that numbers with one and without one line up."""


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


def short_number(value: float, digits: int = 4) -> str:
    """Return a number in so many digits; a large one without an exponent: 43,170."""
    is_large = 10.0 ** (digits - 1) <= abs(value) < 1e15
    return f"{value:,.0f}" if is_large else f"{value:.{digits}g}"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    notes: Iterable[str] = (),
    *,
    n_text: int = 1,
) -> str:
    """Return a table with notes below it.

    The first ``n_text`` columns are text, the others numbers; a number that ends in * is bold.
    """
    lines = [_row(head, "th", n_text), *(_row(row, "td", n_text) for row in rows)]
    below = "".join(f'<p style="margin:.4em 0;max-width:60em">{escape(note)}</p>' for note in notes)
    return (
        '<div style="overflow-x:auto" tabindex="0">'
        '<table style="border-collapse:collapse;margin:.4em 0;font-size:.9em">'
        f"<thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>{below}</div>"
    )


def _row(cells: Sequence[object], tag: str, n_text: int) -> str:
    """Return a row; the first cell names it."""
    parts = []
    for i, cell in enumerate(cells):
        text, style = escape(cell), "text-align:left" if i < n_text else _NUMBER
        if i >= n_text and text.endswith("*"):
            text = f"<b>{text[:-1]}{_STAR}</b>"
        name, scope = (tag, "") if i and tag == "td" else ("th", "col" if tag == "th" else "row")
        scope = f' scope="{scope}"' if scope else ""
        parts.append(f'<{name}{scope} style="{_CELL};{style}">{text}</{name}>')
    return f"<tr>{''.join(parts)}</tr>"
