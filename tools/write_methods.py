"""Write the tables of methods: ``python tools/write_methods.py``."""

from __future__ import annotations

from pathlib import Path

from calibrant._calibrators.methods import methods_table

DOCS = Path(__file__).parents[1] / "docs"
START, END = "<!-- methods -->", "<!-- end of methods -->"


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
