"""Write claims.md from the table of a study: ``python paper/write_claims.py RESULTS [PAGE]``.

RESULTS is the table that ``calibrant study`` writes.
"""

import sys
from pathlib import Path

from calibrant.study import read_table
from claims import write_claims

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "claims.md"


def main() -> None:
    """Write the page that the command line names."""
    if len(sys.argv) not in {2, 3}:
        sys.exit(__doc__)
    page = Path(sys.argv[2]) if len(sys.argv) == 3 else PAGE
    write_claims(read_table(sys.argv[1]), page)
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
