"""The page of benchmarks: what it says of results, whatever is missing of them."""

import csv
import importlib.util
import json
import re

import pytest

from benchmarks.scripts import importing
from test_architecture import ROOT

with importing() as load:
    page, peers_page = load("results_page"), load("peers_page")

ABOUT = {"versions": {"calibrant": "9.9"}, "machine": {"processor": "Abacus"}}
DEFAULTS = ABOUT | {
    "all_methods": ["fir", "auto"],
    "all_sizes": ["300 x 3", "900 x 3"],
    "defaults": [
        {"method": "fir", "rows": 300, "classes": 3, "ratio_to_argsort": 0.5, "seconds": 0.002}
    ],
}


def entry(what, over, **changes):
    one = {"method": "fir", "what": what, "over": over, "sizes": [10, 100], "seconds": [0.1, 2.0]}
    return one | {"peak_bytes": [800, 8_000], "slope": 1.25, "left_out": []} | changes


GROWTH = ABOUT | {
    "limit": 30.0,
    "all_methods": ["fir", "ms"],
    "all_rows": [10, 100],
    "all_classes": [10, 100, 1000],
    "growth": [
        entry("fit", "rows"),
        entry("predict", "rows", slope=1.0),
        entry("fit", "classes", left_out=[1000]),
        entry("predict", "classes", slope=None),
    ],
}


def pair(ours, package, method, **found):
    return {"ours": ours, "package": package, "method": method, "size": "300 x 3", **found}


def metric(name, ours, theirs, values):
    times = {"ratio": theirs / ours, "ours": ours, "theirs": theirs}
    both = dict(zip(("ours", "theirs"), values, strict=True))
    return {"metric": name, "package": "netcal", "size": "300 x 3", "values": both, **times}


MEASURED = {
    "fit": {"ours": 0.001, "theirs": 0.02, "ratio": 20.0},
    "predict": {"ours": 0.001, "theirs": 0.0005, "ratio": 0.5},
    "first": {"ours": {"import": 1.0, "call": 0.25}, "theirs": {"import": 3.0, "call": 0.5}},
    "peak_bytes": {"ours": {"fit": 4 << 20}, "theirs": {"fit": 1 << 20}},
}
PEERS = ABOUT | {
    "limit": 5.0,
    "all_sizes": ["300 x 3", "900 x 3"],
    "peers": {"netcal": {"version": "1.4"}, "betacal": {"error": "ERROR: no wheel"}},
    "pairs": [
        pair("ts", "netcal", "TS", **MEASURED),
        pair("bbq-ovr", "netcal", "BBQ", fit={"ours": 0.001, "theirs": "> 5 s"}),
        pair("beta-ovr", "betacal", "Beta", fit={"theirs": "not installed: ERROR: a | b"}),
    ],
    "metrics": [
        metric("brier", 0.004, 0.001, (0.1, 0.3)),
        metric("conf-ece", 0.004, 0.016, (0.1, 0.2)),
    ],
}


def line(package, method, nll, **changes):
    one = {"file": "a_b", "package": package, "method": method, "nll": nll, "brier": nll}
    return one | {"conf-ece": "0.05", "accuracy": "0.9", "fit seconds": "0.01"} | changes


LINES = [
    line("calibrant", "ts", "0.4"),
    line("calibrant", "auto", "0.35"),
    line("netcal", "TS", "0.42"),
    line("netcal", "BBQ", "0.3"),
    line("betacal", "Beta", "", **dict.fromkeys(("brier", "conf-ece", "fit seconds"), "")),
]


def prose(text):
    """The text in one line."""
    return " ".join(text.split())


def row(text, beginning):
    """Cells of the only row of a table that begins so."""
    (found,) = [one for one in text.splitlines() if one.startswith(f"| {beginning} |")]
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


@pytest.fixture(scope="module")
def text():
    return page.build({"defaults": DEFAULTS, "growth": GROWTH, "peers": PEERS}, LINES)


def test_default_fits_are_ratios_to_a_sort(text):
    assert "Processor: Abacus. Ours: calibrant 9.9." in text
    assert "| `fir` | 0.5 (2 ms) |" in text
    assert "Not run here: 900 x 3." in text
    assert "Methods that were not run: auto." in text


def test_growth_has_slopes_memory_and_what_was_left_out(text):
    (slopes,) = [one for one in text.splitlines() if "1.25 | 1.25 | 1.00 |" in one]
    largest = "100: 2.0 s | 1.0 x | 100: 2.0 s | 0.0 x"
    assert re.sub(" +", " ", slopes) == f"| `fir` | 1.25 | 1.25 | 1.00 | | {largest} |"
    assert "took over 30 s: `fir` from 1,000 classes on." in prose(text)
    assert "Here sizes went up to 100 classes. Methods that were not run: ms." in text
    assert "(../images/benchmarks-fit.png)" in text


def test_ratios_limits_and_failures_stand_beside_each_other(text):
    assert "| `ts`, netcal TS | 20 (1 ms) |" in text
    assert "| `ts`, netcal TS | **0.50** (1 ms) |" in text
    assert row(text, "`bbq-ovr`, netcal BBQ") == ["ours: 1 ms; theirs: > 5 s"]
    assert row(text, "`beta-ovr`, betacal Beta") == ["theirs: not installed: ERROR: a / b"]
    assert "Installed: netcal 1.4. betacal cannot be installed: ERROR: no wheel" in prose(text)
    assert "| `ts`, netcal TS | 1.0 s | 250 ms | 3.0 s | 500 ms |" in text
    assert "| `ts`, netcal TS | 4.0, 1.0 |" in text


def test_values_of_metrics_are_compared(text):
    """Brier scores agree, being a sum there; calibration errors do not."""
    assert "except for conf-ece of netcal (0.200000, ours 0.100000)." in prose(text)
    assert "brier of netcal (" not in text.partition("## Where")[0]


def test_quality_counts_the_wins_of_auto(text):
    assert row(text, "netcal TS")[:5] == ["1.050", "1.050", "5.00", "1 of 1", "1 of 1"]
    assert row(text, "netcal BBQ")[3:5] == ["0 of 1", "0 of 1"]
    assert row(text, "calibrant auto")[3:5] == ["", ""]
    assert "betacal Beta |" not in text.partition("## Quality")[2]


def test_it_says_where_another_is_better(text):
    said = text.partition("## Where another is faster or better\n")[2].partition("\n## ")[0]
    assert [one for one in said.splitlines() if one] == [
        "- `ts`, netcal TS: predict 0.50 (300 x 3) of our time.",
        "- brier of netcal: 0.25 (300 x 3) of our time.",
        f"- `ts`, netcal TS: 0.25 (300 x 3) of the memory of our fit. {peers_page.CLASS_BY_CLASS}",
        "- Lowest NLL on 1 of 1 files: a_b (netcal BBQ, 0.3; ours 0.35).",
        "- Lowest Brier score on 1 of 1 files: a_b (netcal BBQ, 0.3; ours 0.35).",
    ]


def test_it_says_why_another_is_faster():
    cell = pair("ir-ovr", "scikit-learn", "isotonic", predict={"ratio": 0.5})
    (said,) = peers_page.better({"pairs": [cell]})
    assert said.endswith(" of our time; " + peers_page.WHY["ir-ovr", "scikit-learn"] + ".")


def test_parts_may_be_missing():
    assert "## Growth" not in page.build({"defaults": DEFAULTS}, [])
    assert "## Default fits" not in page.build({"peers": PEERS}, [])
    assert "## Where another" not in page.build({"growth": GROWTH}, [])


def test_the_script_writes_page_and_pictures(tmp_path):
    spec = importlib.util.spec_from_file_location("writer", ROOT / "tools" / "write_benchmarks.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with pytest.raises(SystemExit):
        script.main([str(tmp_path)])
    (tmp_path / "growth.json").write_text(json.dumps(GROWTH))
    with (tmp_path / "quality.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(LINES[0]))
        table.writeheader()
        table.writerows(LINES)
    with importing():
        script.main([str(tmp_path), "-o", str(tmp_path / "docs")])
    text = (tmp_path / "docs" / "evidence" / "benchmarks.md").read_text()
    assert "## Growth" in text
    assert "## Quality" in text
    for what in ("fit", "predict"):
        picture = tmp_path / "docs" / "images" / f"benchmarks-{what}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_it_begins_with_what_is_faster_and_what_is_not(text):
    first = prose(text.partition("\n## ")[0])
    assert "Ours is faster in 1 of 1 fits, 0 of 1 predictions, 1 of 2 metrics" in first
    assert "lowest NLL on 1 of 1 files, Brier score on 1 of 1 files. [Where" in first
    assert "In short" not in page.build({"defaults": DEFAULTS}, [])
