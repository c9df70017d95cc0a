"""Write claims.md: ``python paper/write_claims.py RESULTS [FITS] [PAGE]``.

RESULTS is the table that ``calibrant study`` writes, FITS (``.csv``) that of
``paper/measure_fits.py``, without which some claims are not tested.
"""

import sys
from pathlib import Path

import pandas as pd

from calibrant.study import StudyTable, read_table
from claim_rules import FAILS, HOLDS, IN_PART
from claims import write_claims

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from evidence import fill

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "claims.md"
INDEX = PAGE.with_name("index.md")


def main() -> None:
    """Write the page that the command line names."""
    if len(sys.argv) not in {2, 3, 4}:
        sys.exit(__doc__)
    results, *others = map(Path, sys.argv[1:])
    page = next((path for path in others if path.suffix == ".md"), PAGE)
    table = read_table(results)
    fits = [read_table(path).frame for path in others if path.suffix != ".md"]
    counts = write_claims(StudyTable(pd.concat([table.frame, *fits])) if fits else table, page)
    if page == PAGE:
        values = {"claims": sum(counts.values()), "hold": counts[HOLDS], "part": counts[IN_PART]}
        values["not"] = counts[FAILS]
        text = fill(INDEX.read_text("utf-8"), {name: str(n) for name, n in values.items()})
        INDEX.write_text(text, "utf-8")
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
