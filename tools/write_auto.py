"""Write ``auto.md``'s table of all methods from the results of a study.

calibrant study DIR -o OUT --methods all
python tools/write_auto.py OUT/study.parquet
"""

import sys
from pathlib import Path

import numpy as np
from evidence import fill

from calibrant.study import StudyTable, read_table
from calibrant.study._outputs import _critical_difference, figure_bytes
from calibrant.study._ranks import rank_methods
from calibrant.study._tables import method_title

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "auto.md"
IMAGE = PAGE.parents[1] / "images" / "auto-nll-ranks.png"
START, END = "<!-- table -->", "<!-- end of table -->"
COLUMNS = (
    *("method", "NLL / TS", "worst file", "Brier / TS", "worst file", "conf-ECE %", "cw-ECE %"),
    *("NLL rank", "Brier rank", "conf-ECE rank", "fit, s"),
)


def lines(table: StudyTable) -> list[str]:
    """Return the rows of the table, the best average rank in NLL first."""
    nll, brier = (table.wide(m).div(table.wide(m)["ts"], axis=0) for m in ("nll", "brier"))
    metrics = ("nll", "brier", "conf-ece")
    ranks = [rank_methods(table.wide(metric), metric).mean() for metric in metrics]
    columns = [
        (nll.mean(), ".3f"),
        (nll.max(), ".3f"),
        (brier.mean(), ".3f"),
        (brier.max(), ".3f"),
        (100 * table.wide("conf-ece").mean(), ".2f"),
        (100 * table.wide("cw-ece").mean(), ".2f"),
        *((rank, ".2f") for rank in ranks),
        (table.seconds().median(), ".2f"),
    ]
    best = [np.nanmin(values) for values, _ in columns]
    found = []
    for method in ranks[0].sort_values().index:
        cells = [
            f"**{values[method]:{form}}**"
            if values[method] == least
            else f"{values[method]:{form}}"
            for (values, form), least in zip(columns, best, strict=True)
        ]
        found.append("| " + " | ".join([f"`{method}`", *cells]) + " |")
    head = ["| " + " | ".join(COLUMNS) + " |", "|---" + "|---:" * (len(COLUMNS) - 1) + "|"]
    return head + found


def titles(table: StudyTable) -> list[str]:
    """Return the names of methods in pictures."""
    return [method_title(method) for method in table.methods]


def main() -> None:
    """Replace what is between the two marks."""
    table = read_table(Path(sys.argv[1]))
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    count = f"{len(table.cases)} classifiers, {len(table.methods)} methods."
    middle = "\n".join([START, "", count, "", *lines(table), "", END])
    picture = _critical_difference(rank_methods(table.wide("nll"), "nll"), titles(table), "nll")
    IMAGE.write_bytes(figure_bytes(picture.figure, "png"))
    nll = table.wide("nll").div(table.wide("nll")["ts"], axis=0)
    place = int((nll.mean() < nll["auto"].mean()).sum())
    values = {
        "files": f"{len(table.cases)}",
        "methods": f"{len(table.methods)}",
        "nll": f"{nll['auto'].mean():.3f}",
        "place": "best" if place == 0 else f"{place + 1}th best",
        "worst": f"{nll['auto'].max():.3f}",
        "worst-file": "_".join(nll["auto"].idxmax()),
    }
    PAGE.write_text(fill(before + middle + after, values), encoding="utf-8")


if __name__ == "__main__":
    main()
