"""Every file of a study is there, says what the numbers are, and is safe to paste."""

import re

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.study import tables, typeset
from calibrant.study.architectures import families_of, family_of
from calibrant.study.outputs import write_outputs
from calibrant.study.table import StudyTable
from study.small_tables import (
    EVIL_DATASET,
    EVIL_METHOD,
    PAPER,
    hostile_outputs,
    random_table,
    table_of,
)


@pytest.fixture(scope="module")
def study():
    return hostile_outputs()


def cells_of(line):
    return re.split(r"(?<!\\)\|", line)[1:-1]


def body_of(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_everything_is_written_and_returned(study):
    _, directory, paths = study
    there = {p for p in directory.rglob("*") if p.is_file()}
    assert set(paths) == there
    assert directory / "index.html" in there
    stems = {}
    for path in there:
        stems.setdefault((path.parent.name, path.suffix), set()).add(path.stem)
    assert stems["tables", ".md"] == stems["tables", ".tex"]
    assert stems["figures", ".png"] == stems["figures", ".svg"]
    assert {"ranks-paper", "ranks-all", "times", "tests", "models-r52"} <= stems["tables", ".md"]
    assert all(re.fullmatch(r"[a-z0-9.-]+", p.name) for p in there)
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in there if p.suffix == ".png")


def test_the_figures_are_those_of_the_paper_and_beyond(study):
    names = {path.stem for path in study[2] if path.suffix == ".svg"}
    metrics = ("accuracy", "nll", "brier", "conf-ece", "cw-ece", "tece")
    assert {f"wins-{m}-{s}" for m in metrics for s in ("paper", "all")} <= names
    assert {f"critical-difference-{m}-paper" for m in metrics} <= names
    standard = {f"boxes-{m}-standardised-paper" for m in ("nll", "brier", "cw-ece")}
    assert standard | {f"boxes-{m}-paper" for m in ("conf-ece", "tece", "cw-ece")} <= names
    assert {"architecture-ranks-nll", "architecture-boxes-conf-ece"} <= names
    assert {"intervals-paper", "intervals-all", "sensitivity", "times"} <= names


def test_markdown_rows_are_as_wide_as_their_head(study):
    _, directory, _ = study
    for path in directory.glob("tables/*.md"):
        lines = [x for x in path.read_text("utf-8").splitlines() if x.startswith("|")]
        assert len({len(cells_of(line)) for line in lines}) == 1, path
        assert not re.search(r"(?<!\\)<", path.read_text("utf-8")), path


def test_latex_is_balanced_and_escaped(study):
    _, directory, _ = study
    for path in directory.glob("tables/*.tex"):
        text = path.read_text("utf-8")
        bare = text.replace("\\\\", "").replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}"), path
        assert text.count(r"\begin") == text.count(r"\end")
        inside = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
        assert not re.search(r"(?<!\\)[%#_^~]", inside), path
        widths = [
            len(re.findall(r"(?<!\\)&", line))
            for line in inside.splitlines()
            if line.endswith(r"\\")
        ]
        assert len(set(widths)) == 1


def test_text_comes_back_from_markdown():
    markdown = typeset.escape_markdown("a|b `c` *d* _e_ <f> [g](h) \\ & # ~")
    assert (
        re.sub(r"\\(.)", r"\1", markdown).replace("&amp;", "&")
        == "a|b `c` *d* _e_ <f> [g](h) \\ & # ~"
    )
    assert typeset.escape_markdown("two\nlines\x07") == r"two lines\\x07"


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("100%_a & b", r"100\%\_a \& b"),
        ("\\x{y}", r"\textbackslash{}x\{y\}"),
        ("#$^~", r"\#\$\textasciicircum{}\textasciitilde{}"),
        ("<a>|b", r"\textless{}a\textgreater{}\textbar{}b"),
        ("1\u20132", "1--2"),
    ],
)
def test_latex_prints_text_as_it_is(text, latex):
    assert typeset.escape_latex(text) == latex


def test_table_two_prints_ranks_shares_and_bold():
    values = [[0.4, 0.1, 0.2], [0.4, 0.1, 0.1], [0.1, np.nan, 0.2]]
    table = table_of(values, ("uncalibrated", "na-fir", "ts"), datasets=["a", "a", "b"])
    found = tables.rank_table(table, *tables.variants(table))
    assert found.head == ("Metric", "Data set", "NA-FIR", "TS", "Uncalibrated")
    assert typeset.to_markdown(found).splitlines()[2:] == [
        "| Metric | Data set | NA-FIR | TS | Uncalibrated |",
        "| --- | --- | ---: | ---: | ---: |",
        "| NLL | a (2) | **1.2 (100%)** | 1.8 (50%) | 3.0 (0%) |",
        "|  | b (1) | 3.0 (0%) | 2.0 (0%) | **1.0 (100%)** |",
        "|  | all (3) | **1.8 (67%)** | **1.8 (33%)** | 2.3 (33%) |",
    ]


def test_table_two_of_the_paper_has_its_columns_only():
    table = random_table([("a", "1")], ("spline", *PAPER))
    ours, all_of = (tables.rank_table(table, columns) for columns in tables.variants(table))
    assert ours.head[2:] == ("NA-FIR", "SCIR", "FIR", "IR-OvR", "TS", "VS", "MS", "Uncalibrated")
    assert "Spline" in all_of.head
    metrics = [row[0].text for row in ours.rows if row[0].text]
    assert metrics == ["NLL", "conf-ECE", "Brier", "cw-ECE", "TECE"]


def test_per_model_table_prints_as_the_paper_and_marks_failures():
    table = table_of([[0.12345, np.nan, 0.12345]], ("uncalibrated", "ts", "vs"), datasets=["a"])
    found = tables.model_table(table, "a")
    assert body_of(found) == [
        ["m0", "TS", "failed", "1.0"],
        ["", "VS", "0.1235", "1.0"],
        ["", "Uncalibrated", "0.1235", "1.0"],
    ]
    assert [row[2].bold for row in found.rows] == [False, True, True]


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (0.75514, "accuracy", "75.51%"),
        (0.0491, "conf-ece", "4.91%"),
        (0.002291, "cw-ece", "0.229%"),
        (0.0412, "tece", "4.12%"),
        (1.11234, "nll", "1.1123"),
        (0.0035912, "brier", "0.00359"),
    ],
)
def test_numbers_are_printed_as_in_the_paper(value, metric, text):
    assert tables.format_value(value, metric) == text


def test_times_are_medians_and_skip_what_has_none():
    rows = [
        row
        for seconds, name in ((1.0, "1"), (3.0, "2"), (20.0, "3"))
        for row in random_table([("a", name)], ("uncalibrated", "ts"), ("nll",)).rows
        for row in [type(row)(row.dataset, row.model, row.method, "nll", 0.1, seconds)]
    ]
    found = tables.time_table(StudyTable.of(rows))
    assert found.head == ("Data set", "TS")
    assert body_of(found) == [["a", "3.0"], ["all, median", "3.0"], ["all, longest", "20"]]


def test_architectures_by_name():
    names = {
        "wrn-16-4": "resnet",
        "resnet50": "resnet",
        "densenet-bc-100": "densenet",
        "vgg16-bn": "vgg",
        "lenet5": "lenet",
        "googlenet": "other cnn",
        "mobilenet-v2": "other cnn",
        "human": "human",
        "logreg": "linear",
        "lda-crossval": "linear",
        "nb": "naive bayes",
        "gaussian-nb": "naive bayes",
        "fasttext": "fasttext",
        "mlp": "mlp",
        "svm-linear": "svm",
        "knn9": "neighbours",
        "bert-base-uncased": "transformer",
        "vit-1": "transformer",
        "xlnet-base-cased": "transformer",
        "cleanlab-crossval": "other",
        "splinecalib-sample": "other",
    }
    assert {name: family_of(name) for name in names} == names


def test_architecture_table_averages_ranks_over_data_sets():
    values = [[0.2, 0.1], [0.1, 0.2], [0.3, 0.2]]
    table = table_of(values, ("ts", "vs"), datasets=["a", "b", "c"])
    assert families_of(table) == ("other",) * 3
    found = tables.architecture_table(table, "nll")
    assert [c.text for c in found.rows[0]] == ["other", "1.7", "1.3"]
    assert [c.note for c in found.rows[0]] == ["3", "0.2000", "0.1667"]
    assert [c.bold for c in found.rows[0]] == [False, False, True]


def test_sensitivity_compares_three_numbers_of_bins():
    table = random_table([("a", "1"), ("a", "2"), ("b", "1")], PAPER[:4])
    found = tables.sensitivity_table(table)
    assert len(found.head) == 1 + 3 * 3
    last = [cell.text for cell in found.rows[-1]]
    assert last[0] == "correlation"
    assert [last[i] for i in (2, 5, 8)] == ["1.000"] * 3
    plain = tables.binned_ranks(table, "tece", 15, PAPER[:4])
    np.testing.assert_allclose(plain, tables.by_classifiers(table, "tece", PAPER[:4]).mean(axis=0))


def test_no_bins_no_sensitivity():
    assert tables.sensitivity_table(random_table([("a", "1")], PAPER[:2], ("nll", "tece"))) is None


def test_tests_are_by_classifiers_and_by_data_sets():
    table = random_table([("a", "1"), ("a", "2"), ("b", "1")], PAPER[:3], ("nll",))
    row = [cell.text for cell in tables.significance_table(table).rows[0]]
    assert row[:3] == ["3 methods", "NLL", "3"]
    assert row[6] == "2"


def test_what_is_compared_twice_is_shown_once():
    cases = [("a", "1"), ("b", "1")]
    for methods, expected in (
        (("ts", "vs"), ["paper"]),
        (("ts", "vs", "spline"), ["paper", "all"]),
        (("ts", "spline", "auto"), ["all"]),
    ):
        assert [c.name for c in tables.variants(random_table(cases, methods))] == expected
    names = [t.name for t in tables.build_tables(random_table(cases, ("ts", "vs")))]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.endswith("-all")]


def test_file_names_cannot_leave_the_directory():
    assert tables.file_name("../../etc/passwd") == "etc-passwd"
    assert tables.file_name(EVIL_DATASET).isascii()
    assert tables.file_name("...") == "unnamed"


def test_hostile_names_are_printed_as_text(study):
    _, directory, _ = study
    text = (directory / "tables" / "ranks-all.md").read_text("utf-8")
    assert typeset.escape_markdown(EVIL_METHOD) in text
    assert EVIL_METHOD not in text


def test_an_empty_table_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="two methods"):
        write_outputs(StudyTable.of([]), tmp_path)
    with pytest.raises(ParameterError, match="two methods"):
        write_outputs(table_of([[1.0]], ("ts",)), tmp_path)
    assert list(tmp_path.iterdir()) == []
