"""A table as Markdown and as LaTeX; what stands in it is text, never markup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from calibrant._pages.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


class Entry(NamedTuple):
    """Text, bold or not; ``note`` follows it, in brackets."""

    text: str
    bold: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, not yet in any markup; the name is that of its file, without suffix.

    Rows come in groups, with a rule between them, and are as long as the head. The first
    ``n_labels`` columns are labels, set left.
    """

    name: str
    title: str
    caption: str
    head: tuple[str, ...]
    groups: Sequence[Sequence[tuple[Entry, ...]]]
    n_labels: int = 1

    @property
    def rows(self) -> list[tuple[Entry, ...]]:
        """Rows of all groups."""
        return [row for group in self.groups for row in group]


def escape_markdown(text: object) -> str:
    """Return text that Markdown prints as it is, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", clean(text, None)).replace("&", "&amp;")


def escape_latex(text: object) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in clean(text, None))


def _words(entry: Entry) -> str:
    return f"{entry.text} ({entry.note})" if entry.note else entry.text


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with its caption above."""

    def line(words: Iterable[str]) -> str:
        return "| " + " | ".join(words) + " |"

    def mark(entry: Entry) -> str:
        text = escape_markdown(_words(entry))
        return f"**{text}**" if entry.bold and text else text

    marks = ["---"] * table.n_labels + ["---:"] * (len(table.head) - table.n_labels)
    lines = [line(map(escape_markdown, table.head)), line(marks)]
    lines += [line(map(mark, row)) for row in table.rows]
    return "\n".join([escape_markdown(table.caption), "", *lines, ""])


def to_latex(table: Table) -> str:
    """Return the table as LaTeX, of the text's width at most; it needs booktabs and graphicx."""

    def mark(entry: Entry) -> str:
        text = escape_latex(_words(entry))
        return rf"\textbf{{{text}}}" if entry.bold and text else text

    groups = ["\n".join(" & ".join(map(mark, row)) + r" \\" for row in g) for g in table.groups]
    columns = "l" * table.n_labels + "r" * (len(table.head) - table.n_labels)
    lines = [
        r"\begin{table*}[tbhp]",
        r"\centering",
        rf"\caption{{{escape_latex(table.caption)}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9-]+', '-', table.name.lower())}}}",
        # Only a table that is too wide is made smaller.
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(escape_latex, table.head)) + r" \\",
        r"\midrule",
        "\n\\midrule\n".join(groups),
        r"\bottomrule",
        r"\end{tabular}",
        "}",
        r"\end{table*}",
        "",
    ]
    return "\n".join(lines)
