"""Write claims.md from the table of a study: ``python docs/write_claims.py RESULTS [PAGE]``.

RESULTS is the table that ``calibrant study`` writes.
"""

import sys
from pathlib import Path

from calibrant.study import read_table
from calibrant.study.claims import write_claims

PAGE = Path(__file__).parent / "claims.md"


def main():
    if len(sys.argv) not in {2, 3}:
        sys.exit(__doc__)
    page = Path(sys.argv[2]) if len(sys.argv) == 3 else PAGE
    write_claims(read_table(sys.argv[1]), page)
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
