"""Write the numbers of SCIR's page: ``python tools/write_scir.py OUT/study.csv``.

The table is that of a study with all methods.
"""

import sys
from pathlib import Path

from evidence import fill

from calibrant.study import read_table

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "scir.md"


def main() -> None:
    """Fill in the numbers of the page."""
    table = read_table(Path(sys.argv[1]))
    nll = table.wide("nll").div(table.wide("nll")["ts"], axis=0)
    error = 100 * table.wide("conf-ece").mean()
    values = {
        "files": f"{len(table.cases)}",
        "ece": f"{error['scir']:.2f}",
        "ece-ts": f"{error['ts']:.2f}",
        "ece-fir": f"{error['fir']:.2f}",
        "ece-plain": f"{error['scir-paper']:.2f}",
        "nll": f"{nll['scir'].mean():.3f}",
        "nll-plain": f"{nll['scir-paper'].mean():.2f}",
        "nll-worst": f"{nll['scir'].max():.3f}",
    }
    PAGE.write_text(fill(PAGE.read_text("utf-8"), values), "utf-8")


if __name__ == "__main__":
    main()
