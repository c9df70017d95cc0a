"""Write the tables of methods: ``python tools/write_methods.py``."""

from __future__ import annotations

from pathlib import Path

from calibrant._calibrators.methods import methods

DOCS = Path(__file__).parents[1] / "docs"
START, END = "<!-- methods -->", "<!-- end of methods -->"


def methods_table(*, study: bool = False) -> str:
    """Return the table of methods of docs/start/methods.md, in Markdown.

    With ``study`` that of docs/guides/study.md, which has the methods of the study alone.
    """
    head = "class", "`-m`", "map", "keeps the order", "same for all classes", "good for"
    rows = [head, ("---",) * len(head)]
    for method, cls in methods(study=study).items():
        if study and method in methods():
            continue
        promises = ("yes" if kept else "no" for kept in (cls.keeps_order, cls.same_for_all_classes))
        name = f"`{cls.__name__}` ({cls.title})"
        rows.append((name, f"`{method}`", cls.summary, *promises, cls.good_for))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_table(text: str, table: str) -> str:
    """Return the page with the table between its marks."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for page, study in (
        (DOCS / "start" / "methods.md", False),
        (DOCS / "guides" / "study.md", True),
    ):
        text = with_table(page.read_text(encoding="utf-8"), methods_table(study=study))
        page.write_text(text, "utf-8")
