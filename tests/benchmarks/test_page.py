"""Pages of benchmarks: what they say of results, whatever is missing of them."""

import csv
import importlib.util
import json

import pytest

from benchmarks.scripts import importing
from test_architecture import ROOT

with importing() as load:
    page, peers_page = load("results_page"), load("peers_page")

ABOUT = {"versions": {"calibrant": "9.9"}, "machine": {"processor": "Abacus"}}
FIT = {"method": "fir", "rows": 300, "classes": 3, "ratio_to_argsort": 0.5, "seconds": 0.002}
DEFAULTS = ABOUT | {"all_methods": ["fir", "auto"], "all_sizes": ["300 x 3"], "defaults": [FIT]}


def entry(what, over, **changes):
    one = {"method": "fir", "what": what, "over": over, "sizes": [10, 100], "seconds": [0.1, 2.0]}
    return one | {"peak_bytes": [800, 8_000], "slope": 1.25, "left_out": []} | changes


GROWTH = ABOUT | {"limit": 30.0, "all_methods": ["fir", "ms"]}
GROWTH |= {"all_rows": [10, 100], "all_classes": [10, 100, 1000]}
GROWTH |= {
    "growth": [
        *(entry("fit", "rows"), entry("predict", "rows", slope=1.0)),
        *(entry("fit", "classes", left_out=[1000]), entry("predict", "classes", slope=None)),
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
PEERS = ABOUT | {"limit": 5.0, "all_sizes": ["300 x 3", "900 x 3"]}
PEERS |= {
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


def line(package, method, nll, collection="", rows=500, file="a_b"):
    one = {"file": file, "package": package, "method": method, "nll": nll, "brier": nll}
    one |= {"conf-ece": "0.05", "accuracy": "0.9", "fit seconds": "0.01", "positive-ece": ""}
    return one | {"collection": collection, "rows": rows, "classes": 10}


NLL = {"none uncalibrated": 0.8, "calibrant ts": 0.4, "calibrant auto": 0.35}
NLL |= {"netcal TS": 0.42, "netcal BBQ": 0.3, "probmetrics SMS": 0.65, "probmetrics SVS": 0.34}
LINES = [line(*name.split(), str(nll)) for name, nll in NLL.items()]


def row(text, beginning):
    """Cells of the only row of a table that begins so."""
    (found,) = [one for one in text.splitlines() if one.startswith(f"| {beginning} |")]
    return [cell.strip() for cell in found.strip("|").split("|")][1:]


@pytest.fixture(scope="module")
def text():
    return page.build({"defaults": DEFAULTS, "growth": GROWTH, "peers": PEERS}, LINES)


def test_ratios_limits_and_failures_stand_in_its_tables(text):
    assert "| `fir` | 0.5 (2 ms) |" in text
    assert "1.25 | 1.25 | 1.00 |" in text
    assert "| `ts`, netcal TS | 20 (1 ms) |" in text
    assert row(text, "`bbq-ovr`, netcal BBQ") == ["ours: 1 ms; theirs: > 5 s"]
    assert row(text, "`beta-ovr`, betacal Beta") == ["theirs: not installed: ERROR: a / b"]
    assert row(text, "netcal TS")[:5] == ["1.050", "1.050", "5.00", "1 of 1", "1 of 1"]


def test_it_says_where_another_is_better(text):
    said = text.partition("## Where another is faster or better\n")[2].partition("\n## ")[0]
    wanted = ("predict 0.50", "0.25 (300 x 3) of our time", "of the memory", "NLL on 1", "score on")
    found = [one for one in said.splitlines() if one]
    assert [words in one for words, one in zip(wanted, found, strict=True)] == [True] * 5
    cell = pair("ir-ovr", "scikit-learn", "isotonic", predict={"ratio": 0.5})
    (said,) = peers_page.better({"pairs": [cell]})
    assert peers_page.WHY["ir-ovr", "scikit-learn"] in said


def test_parts_may_be_missing():
    assert "## Growth" not in page.build({"defaults": DEFAULTS}, [])
    assert "## Default fits" not in page.build({"peers": PEERS}, [])
    assert "## Where another" not in page.build({"growth": GROWTH}, [])


def script(name):
    spec = importlib.util.spec_from_file_location("writer", ROOT / "tools" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    with importing():
        spec.loader.exec_module(found)
    return found


def write(path, lines):
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]))
        table.writeheader()
        table.writerows(lines)


def test_the_script_writes_page_and_pictures(tmp_path):
    writer = script("write_benchmarks")
    with pytest.raises(SystemExit):
        writer.main([str(tmp_path)])
    (tmp_path / "growth.json").write_text(json.dumps(GROWTH))
    write(tmp_path / "quality.csv", LINES)
    with importing():
        writer.main([str(tmp_path), "-o", str(tmp_path / "docs")])
    text = (tmp_path / "docs" / "evidence" / "benchmarks.md").read_text()
    assert "## Growth" in text
    assert "## Quality" in text
    for what in ("fit", "predict"):
        picture = tmp_path / "docs" / "images" / f"benchmarks-{what}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_every_kind_of_data_has_its_table_and_says_where_it_loses(tmp_path):
    kinds = {"cifar10_resnet": "", "Vowel_rf_0": "tabular", "mmlu_a": "llm"}
    lines = [
        line(*name.split(), nll, collection=kind, rows=700, file=file)
        for file, kind in kinds.items()
        for name, nll in NLL.items()
        if not name.startswith("netcal")
    ]
    write(tmp_path / "quality.csv", lines)
    script("write_quality").main(tmp_path, tmp_path / "quality.md")
    text = (tmp_path / "quality.md").read_text()
    words = " ".join(text.split())
    assert "probmetrics SMS on 3 of 3 and of probmetrics SVS on 0 of 3 files" in words
    assert words.count("probmetrics SVS has less NLL on 1 of 1:") == 3
    assert words.count("probmetrics SMS has less NLL on none of 1.") == 3
