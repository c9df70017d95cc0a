r"""A table as Markdown, as LaTeX and as HTML; what stands in its cells is text, never markup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\u2212": r"$-$",
    "\u2013": "--",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Cell(NamedTuple):
    """Text, bold or not; ``note`` follows it, in brackets."""

    text: str
    bold: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    r"""A table, not yet in any markup.

    Attributes
    ----------
    name : str
        Of the file, without suffix.
    title : str
        A few words, for a heading.
    caption : str
    head : tuple of str
    rows : tuple of tuples of Cell
        Each as long as ``head``.
    n_labels : int
        How many columns at the left are labels: set left, and headings in HTML.
    rules_before : tuple of int
        Rows that have a rule above.

    Examples
    --------
    >>> from calibrant.study.typeset import Cell, Table, to_markdown
    >>> rows = ((Cell("x"), Cell("1", bold=True)),)
    >>> print(to_markdown(Table("t", "One", "One row.", ("a|b", "c"), rows)))
    One row.
    <BLANKLINE>
    | a\|b | c |
    | --- | ---: |
    | x | **1** |
    <BLANKLINE>
    """

    name: str
    title: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_labels: int = 1
    rules_before: tuple[int, ...] = ()


def plain(text: object) -> str:
    """Return text on one line, without control characters and lone surrogates."""
    return " ".join(_INVISIBLE.sub(" ", str(text)).split())


def escape_markdown(text: object) -> str:
    r"""Return text that Markdown prints as it is, also inside a table.

    Examples
    --------
    >>> from calibrant.study.typeset import escape_markdown
    >>> print(escape_markdown("a|b_c <i>"))
    a\|b\_c \<i\>
    """
    return _MARKDOWN.sub(r"\\\1", plain(text)).replace("&", "&amp;")


def escape_latex(text: object) -> str:
    r"""Return text that LaTeX prints as it is.

    Examples
    --------
    >>> from calibrant.study.typeset import escape_latex
    >>> print(escape_latex("50% of a_b"))
    50\% of a\_b
    """
    return "".join(_LATEX.get(sign, sign) for sign in plain(text))


def _markdown_cell(cell: Cell) -> str:
    text = escape_markdown(cell.text) + (f" ({escape_markdown(cell.note)})" if cell.note else "")
    return f"**{text}**" if cell.bold and text else text


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with its caption above."""
    marks = ["---"] * table.n_labels + ["---:"] * (len(table.head) - table.n_labels)
    lines = [
        _line(escape_markdown(word) for word in table.head),
        _line(marks),
        *(_line(_markdown_cell(cell) for cell in row) for row in table.rows),
    ]
    return "\n".join([escape_markdown(table.caption), "", *lines, ""])


def _line(words: Iterable[str]) -> str:
    return "| " + " | ".join(words) + " |"


def _latex_cell(cell: Cell) -> str:
    text = escape_latex(cell.text) + (f" ({escape_latex(cell.note)})" if cell.note else "")
    return rf"\textbf{{{text}}}" if cell.bold and text else text


def to_latex(table: Table) -> str:
    """Return the table as LaTeX, of the text's width at most; it needs booktabs and graphicx."""
    columns = "l" * table.n_labels + "r" * (len(table.head) - table.n_labels)
    body = []
    for i, row in enumerate(table.rows):
        if i in table.rules_before and i:
            body.append(r"\midrule")
        body.append(" & ".join(_latex_cell(cell) for cell in row) + r" \\")
    tabular = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(escape_latex(word) for word in table.head) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(
        [
            r"\begin{table*}[tbhp]",
            r"\centering",
            rf"\caption{{{escape_latex(table.caption)}}}",
            rf"\label{{tab:{re.sub(r'[^a-z0-9-]+', '-', table.name.lower())}}}",
            # Only a table that is too wide is made smaller.
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            *tabular,
            "}",
            r"\end{table*}",
            "",
        ]
    )


def _html_cell(cell: Cell, place: int, n_labels: int) -> str:
    words = escape(plain(cell.text))
    if cell.bold and words:
        words = f"<strong>{words}</strong>"
    if cell.note:
        words += f" <small>({escape(plain(cell.note))})</small>"
    if place < n_labels:
        return f'<th scope="row"{_stick(place, n_labels)}><bdi>{words}</bdi></th>'
    return f'<td class="number">{words}</td>'


def _stick(place: int, n_labels: int) -> str:
    """Mark the last label, which stays in sight when the table is scrolled."""
    return ' class="stick"' if place == n_labels - 1 else ""


def to_html(table: Table) -> str:
    """Return the table element, without its caption, which the page prints."""
    n_labels = table.n_labels
    head = "".join(
        f'<th scope="col"{_stick(j, n_labels) if j < n_labels else " class=number"}>'
        f"{escape(plain(word))}</th>"
        for j, word in enumerate(table.head)
    )
    rows = []
    for i, row in enumerate(table.rows):
        rule = ' class="rule"' if i in table.rules_before and i else ""
        cells = "".join(_html_cell(cell, j, table.n_labels) for j, cell in enumerate(row))
        rows.append(f"<tr{rule}>{cells}</tr>")
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table>"
    )
