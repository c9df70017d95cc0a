"""Write claims.md: ``python paper/write_claims.py RESULTS [FITS] [PAGE]``.

RESULTS is the table that ``calibrant study`` writes, FITS (``.csv``) that of
``paper/measure_fits.py``, without which some claims are not tested.
"""

import sys
from pathlib import Path

import pandas as pd

from calibrant.study import StudyTable, read_table
from claims import write_claims

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "claims.md"


def main() -> None:
    """Write the page that the command line names."""
    if len(sys.argv) not in {2, 3, 4}:
        sys.exit(__doc__)
    results, *others = map(Path, sys.argv[1:])
    page = next((path for path in others if path.suffix == ".md"), PAGE)
    table = read_table(results)
    fits = [read_table(path).frame for path in others if path.suffix != ".md"]
    write_claims(StudyTable(pd.concat([table.frame, *fits])) if fits else table, page)
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
