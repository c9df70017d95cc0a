"""Write ``benchmarks.md`` and its pictures from the results of the benchmarks.

make bench-defaults bench-growth bench-peers DATA=DIR
python tools/write_benchmarks.py

Results are read from ``build/``, or from the directory that is given: ``defaults.json``,
``growth.json``, ``peers.json`` and ``quality.csv``. What is missing is left out of the page.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = ("defaults", "growth", "peers")


def read(folder):
    """Results by name, and the lines of the table of quality."""
    results = {
        name: json.loads((folder / f"{name}.json").read_text("utf-8"))
        for name in NAMES
        if (folder / f"{name}.json").exists()
    }
    table = folder / "quality.csv"
    if not table.exists():
        return results, []
    with table.open(encoding="utf-8", newline="") as file:
        return results, list(csv.DictReader(file))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, nargs="?", default=ROOT / "build")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs", help="the pages")
    options = parser.parse_args(arguments)
    results, lines = read(options.results)
    if not results:
        names = ", ".join(f"{name}.json" for name in NAMES)
        parser.error(f"{options.results} has none of {names}; run make bench-defaults")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from growth_plot import draw
    from results_page import build

    for name in ("images", "evidence"):
        (options.output / name).mkdir(parents=True, exist_ok=True)
    if "growth" in results:
        for what in ("fit", "predict"):
            path = options.output / "images" / f"benchmarks-{what}.png"
            draw(results["growth"]["growth"], what).savefig(path, dpi=120)
    page = build(results, lines)
    (options.output / "evidence" / "benchmarks.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
