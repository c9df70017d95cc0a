"""Write ``auto.md``'s table of all methods from the results of a study.

calibrant study DIR -o OUT --methods all
python docs/write_auto.py OUT/study.parquet
"""

import sys
from pathlib import Path

import numpy as np

from calibrant.study import StudyTable, read_table
from calibrant.study.ranks import rank_methods

PAGE = Path(__file__).parent / "auto.md"
START, END = "<!-- table -->", "<!-- end of table -->"
COLUMNS = (
    *("method", "NLL / TS", "worst file", "Brier / TS", "worst file", "conf-ECE %", "cw-ECE %"),
    *("NLL rank", "Brier rank", "conf-ECE rank", "fit, s"),
)


def lines(table: StudyTable) -> list[str]:
    """Return the rows of the table, the best average rank in NLL first."""
    ts = table.methods.index("ts")
    nll, brier = table.matrix("nll"), table.matrix("brier")
    nll, brier = nll / nll[:, [ts]], brier / brier[:, [ts]]
    ranks = [
        rank_methods(table.matrix(metric), metric).mean(axis=0)
        for metric in ("nll", "brier", "conf-ece")
    ]
    columns = [
        (nll.mean(axis=0), ".3f"),
        (nll.max(axis=0), ".3f"),
        (brier.mean(axis=0), ".3f"),
        (brier.max(axis=0), ".3f"),
        (100 * table.matrix("conf-ece").mean(axis=0), ".2f"),
        (100 * table.matrix("cw-ece").mean(axis=0), ".2f"),
        *((rank, ".2f") for rank in ranks),
        (np.median(table.seconds(), axis=0), ".2f"),
    ]
    best = [np.nanmin(values) for values, _ in columns]
    found = []
    for i in np.argsort(ranks[0]):
        cells = [
            f"**{values[i]:{form}}**" if values[i] == least else f"{values[i]:{form}}"
            for (values, form), least in zip(columns, best, strict=True)
        ]
        found.append("| " + " | ".join([f"`{table.methods[i]}`", *cells]) + " |")
    head = ["| " + " | ".join(COLUMNS) + " |", "|---" + "|---:" * (len(COLUMNS) - 1) + "|"]
    return head + found


def main() -> None:
    """Replace what is between the two marks."""
    table = read_table(Path(sys.argv[1]))
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    count = f"{len(table.cases)} classifiers, {len(table.methods)} methods."
    middle = "\n".join([START, "", count, "", *lines(table), "", END])
    PAGE.write_text(before + middle + after, encoding="utf-8")


if __name__ == "__main__":
    main()
