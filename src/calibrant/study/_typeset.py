"""A table as Markdown and as LaTeX; what stands in it is text, never markup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from calibrant._pages.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}_%&#$"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"\u2212": r"$-$", "\u2013": "--"}
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")

_TABLE = r"""\begin{table*}[tbhp]
\centering
\caption{%(caption)s}
\label{tab:%(label)s}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%%
\begin{tabular}{%(columns)s}
\toprule
%(head)s \\
\midrule
%(body)s
\bottomrule
\end{tabular}
}
\end{table*}
"""
"""Only a table that is too wide is made smaller."""


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
    return clean(text, None).translate(_LATEX)


def _marked(row: Sequence[Entry], escape: Callable[[str], str], bold: str) -> list[str]:
    """Return entries of a row in a markup, in which ``bold`` sets a text in bold."""
    texts = [escape(one.text + f" ({one.note})" * bool(one.note)) for one in row]
    return [
        bold % text if one.bold and text else text for one, text in zip(row, texts, strict=True)
    ]


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, with its caption above."""
    marks = ["---"] * table.n_labels + ["---:"] * (len(table.head) - table.n_labels)
    lines = [[*map(escape_markdown, table.head)], marks]
    lines += [_marked(row, escape_markdown, "**%s**") for row in table.rows]
    rows = [f"| {' | '.join(words)} |" for words in lines]
    return "\n".join([escape_markdown(table.caption), "", *rows, ""])


def to_latex(table: Table) -> str:
    """Return the table as LaTeX, of the text's width at most; it needs booktabs and graphicx."""
    groups = [
        "\n".join(" & ".join(_marked(row, escape_latex, r"\textbf{%s}")) + r" \\" for row in group)
        for group in table.groups
    ]
    return _TABLE % {
        "caption": escape_latex(table.caption),
        "label": re.sub(r"[^a-z0-9-]+", "-", table.name.lower()),
        "columns": "l" * table.n_labels + "r" * (len(table.head) - table.n_labels),
        "head": " & ".join(map(escape_latex, table.head)),
        "body": "\n\\midrule\n".join(groups),
    }
