"""The page of quality says what the table has, kind by kind."""

import csv
import importlib.util
from pathlib import Path

from benchmarks.scripts import importing

ROOT = Path(__file__).parents[2]
FILES = {  # collection, rows, classes
    "cifar10_resnet": ("", 500, 10),
    "r52_nb": ("", 500, 52),
    "income_rf_0": ("tabular", 200, 2),
    "Vowel_rf_0": ("tabular", 700, 11),
    "Shuttle_rf_0": ("tabular", 700, 3),
    "mmlu_a": ("llm", 700, 6),
}
NLL = {"none uncalibrated": 0.8, "calibrant ts": 0.7, "calibrant auto": 0.6}
NLL |= {"probmetrics SMS": 0.65, "probmetrics SVS": 0.5}


def lines():
    for (file, (collection, rows, classes)), (name, nll) in (
        (file, one) for file in FILES.items() for one in NLL.items()
    ):
        package, _, method = name.partition(" ")
        head = {"file": file, "package": package, "method": method, "collection": collection}
        found = {"nll": nll, "brier": nll / 2, "conf-ece": nll / 10, "positive-ece": ""}
        yield head | {"rows": rows, "classes": classes} | found


def test_every_kind_of_data_has_its_table_and_says_where_it_loses(tmp_path):
    spec = importlib.util.spec_from_file_location("writer", ROOT / "tools" / "write_quality.py")
    with importing():
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
    table = list(lines())
    with (tmp_path / "quality.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    script.main(tmp_path, tmp_path / "quality.md")
    page = (tmp_path / "quality.md").read_text()
    first = " ".join(page.partition("| data |")[0].split())
    assert "probmetrics SMS on 5 of 5 and of probmetrics SVS on 0 of 5 files" in first
    assert "SVS has a lower NLL on 1 of 1 files, on 1 by over 1 %, at most 20 %" in first
    assert "calibrated scores: r52_nb, 0.750 times the NLL." in first
    assert page.count("probmetrics SVS has less NLL on 1 of 1:") == 5  # Shuttle has no ratios
    assert page.count("probmetrics SMS has less NLL on none of 1.") == 5
    assert "| the 2: images and text | 2 | 0.857 | 0.857 | 0.750 | 0.750 | 6.00 | 0 (0 to" in page
    assert "| fewer than 600 rows | 0.750 |" in page
    assert "| Shuttle_rf_0 | 0.6 | 0.8 | 0.65 | 0.5 |  |" in page
