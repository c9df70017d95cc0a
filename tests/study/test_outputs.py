"""Every file of a study is there, says what the numbers are, and is safe to paste."""

import re
from html import escape
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from calibrant.study import _outputs as outputs
from calibrant.study import _ranks as ranks
from calibrant.study import _tables as tables
from calibrant.study import write_outputs
from calibrant.study._outputs import find_best, find_failures
from conftest import refuses
from study.small_tables import (
    EVIL_DATASET,
    EVIL_METHOD,
    EVIL_MODEL,
    PAPER,
    hostile_outputs,
    random_table,
    rows,
    table_of,
)
from study.test_ranks import frame


@pytest.fixture(scope="module")
def study():
    return hostile_outputs()


def cells_of(line):
    return re.split(r"(?<!\\)\|", line)[1:-1]


def body_of(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_methods_that_are_one_fit_share_a_column(tmp_path):
    names = ("uncalibrated", "ms", "dirichlet", "vs")
    values = np.random.default_rng(0).uniform(0.2, 0.8, (5, 4))
    apart = table_of(values, names)
    assert list(tables.columns_of(apart).values()) == ["VS", "MS", "Dirichlet", "Uncalibrated"]
    values[:, 2] = values[:, 1]
    found = table_of(values, names)
    assert list(tables.columns_of(found).values()) == ["VS", "MS, Dirichlet", "Uncalibrated"]
    write_outputs(found, tmp_path)
    assert "MS, Dirichlet" in (tmp_path / "tables" / "ranks.md").read_text()


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
    assert {"ranks", "times", "tests", "models-r52"} <= stems["tables", ".md"]
    assert stems["figures", ".svg"] == {
        *("wins-nll", "wins-cw-ece", "critical-difference-nll", "critical-difference-cw-ece"),
        *("boxes-nll-standardised", "boxes-cw-ece-standardised", "boxes-cw-ece"),
        "times",
    }
    assert all(re.fullmatch(r"[a-z0-9.-]+", p.name) for p in there)
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in there if p.suffix == ".png")


def test_markdown_rows_are_as_wide_as_their_head(study):
    _, directory, _ = study
    for path in directory.glob("tables/*.md"):
        lines = [x for x in path.read_text("utf-8").splitlines() if x.startswith("|")]
        assert len({len(cells_of(line)) for line in lines}) == 1, path
        assert not re.search(r"(?<!\\)<", path.read_text("utf-8")), path
    ranked = (directory / "tables" / "ranks.md").read_text("utf-8")
    assert tables.escape_markdown(EVIL_METHOD) in ranked


def test_latex_is_balanced_and_escaped(study):
    _, directory, _ = study
    for path in directory.glob("tables/*.tex"):
        text = path.read_text("utf-8")
        bare = text.replace("\\\\", "").replace(r"\{", "").replace(r"\}", "")
        assert bare.count("{") == bare.count("}"), path
        assert text.count(r"\begin") == text.count(r"\end")
        inside = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
        assert not re.search(r"(?<!\\)[%#_^~]", inside), path
        lines = [line for line in inside.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1


def test_text_comes_back_from_markdown():
    text = "a|b `c` *d* _e_ <f> [g](h) \\ & # ~"
    markdown = tables.escape_markdown(text)
    assert re.sub(r"\\(.)", r"\1", markdown).replace("&amp;", "&") == text
    assert tables.escape_markdown("two\nlines\x07") == r"two lines\\x07"


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
    assert tables.escape_latex(text) == latex


def test_table_two_prints_ranks_shares_and_bold():
    values = [[0.4, 0.1, 0.2], [0.4, 0.1, 0.1], [0.1, np.nan, 0.2]]
    table = table_of(values, ("uncalibrated", "na-fir", "ts"), datasets=["a", "a", "b"])
    found = tables.rank_table(table)
    assert found.head == ("Metric", "Data set", "NA-FIR", "TS", "Uncalibrated")
    assert tables.to_markdown(found).splitlines()[2:] == [
        "| Metric | Data set | NA-FIR | TS | Uncalibrated |",
        "| --- | --- | ---: | ---: | ---: |",
        "| NLL | a (2) | **1.2 (100%)** | 1.8 (50%) | 3.0 (0%) |",
        "|  | b (1) | 3.0 (0%) | 2.0 (0%) | **1.0 (100%)** |",
        "|  | all (3) | **1.8 (67%)** | **1.8 (33%)** | 2.3 (33%) |",
    ]
    # The paper's columns come first, and its metrics.
    found = tables.rank_table(random_table([("a", "1")], ("spline", *PAPER)))
    titles = ("NA-FIR", "SCIR", "FIR", "IR-OvR", "TS", "VS", "MS", "Spline", "Uncalibrated")
    assert found.head[2:] == titles
    metrics = [row[0].text for row in found.rows if row[0].text]
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
    lines = [
        ("a", name, method, "nll", 0.1, seconds, "")
        for seconds, name in ((1.0, "1"), (3.0, "2"), (20.0, "3"), (np.nan, "4"))
        for method in ("uncalibrated", "ts")
    ]
    found = tables.time_table(rows(lines))
    assert found.head == ("Data set", "TS")
    assert body_of(found) == [["a", "3.0"], ["all, median", "3.0"], ["all, longest", "20"]]


def test_sensitivity_compares_three_numbers_of_bins():
    table = random_table([("a", "1"), ("a", "2"), ("b", "1")], PAPER[:4])
    found = tables.sensitivity_table(table)
    assert len(found.head) == 1 + 3 * 3
    last = [cell.text for cell in found.rows[-1]]
    assert last[0] == "correlation"
    assert [last[i] for i in (2, 5, 8)] == ["1.000"] * 3
    assert tables.sensitivity_table(random_table([("a", "1")], PAPER[:2], ("nll", "tece"))) is None


def test_an_empty_table_is_refused_and_file_names_cannot_leave_the_directory(tmp_path):
    assert tables.file_name("../../etc/passwd") == "etc-passwd"
    assert tables.file_name(EVIL_DATASET).isascii()
    assert tables.file_name("...") == "unnamed"
    for table in (rows([]), table_of([[1.0]], ("ts",))):
        with refuses("table"):
            write_outputs(table, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_one_file_with_nothing_to_load():
    page = (hostile_outputs()[1] / "index.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "default-src &#39;none&#39;" in page
    assert not re.search('<script|style="|<img src=x', page)
    for name in (EVIL_METHOD, EVIL_DATASET, EVIL_MODEL):
        assert escape(name).replace("&#x27;", "&#39;") in page.replace("&#34;", "&quot;")


def test_the_best_are_named_with_those_within_chance_and_failures_are_counted():
    values = [[3.0, 1.0, 2.0, 9.0]] * 40
    methods = ("uncalibrated", "na-fir", "ts", "spline")
    assert find_best(table_of(values, methods)) == [("NLL", "NA-FIR (1.00)", "")]
    few = find_best(table_of(values[:2], methods))
    assert few == [("NLL", "NA-FIR (1.00)", "TS (2.00), Uncalibrated (3.00), Spline (4.00)")]
    table = table_of([[1.0, float("nan")], [1.0, 2.0]], ("ts", "ms"), datasets=["a", "b"])
    assert find_failures(table) == {"ms": ["a / m0"]}


METHODS = [f"method-{i:02d}" for i in range(19)]
DATASETS = [f"data-set-{i:02d}" for i in range(15)]


def words(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def test_wins_print_every_percentage_in_its_cell():
    values = frame(np.random.default_rng(0).normal(size=(20, 4)))
    shares = ranks.win_shares(values, "nll").to_numpy()
    figure = outputs.draw_wins(shares, METHODS[:4], "NLL")
    found = {tuple(t.get_position()): t.get_text() for t in figure.axes[0].texts}
    expected = {(j, i): f"{100 * shares[i, j]:.0f}" for i in range(4) for j in range(4) if i != j}
    assert found == expected
    figure = outputs.draw_wins(np.array([[np.nan, 0.5], [1.0, np.nan]]), METHODS[:2], "NLL")
    assert [text.get_color() for text in figure.axes[0].texts] == ["black", "white"]


@pytest.mark.parametrize("color", ["white", "black", "#808080", "#0072B2", "#D55E00", "#777777"])
def test_ink_can_be_read_on_any_ground(color):
    both = np.array([to_rgb(color), to_rgb(outputs.readable_ink(to_rgb(color)))])
    linear = np.where(both <= 0.04045, both / 12.92, ((both + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])  # relative luminance, by WCAG 2
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_critical_difference_joins_what_does_not_differ():
    average = np.array([1.2, 3.9, 2.0, 2.9])
    figure = outputs.draw_critical_difference(average, list("abcd"), 1.0, "NLL")
    bars = [line for line in figure.axes[0].lines if line.get_linewidth() == 3.5]
    ends = [tuple(np.round(line.get_xdata(), 2)) for line in bars]
    assert ends == [(1.16, 2.04), (1.96, 2.94), (2.86, 3.94)]
    assert {"a  1.20", "c  2.00", "2.90  d", "3.90  b"} <= set(words(figure))


def test_boxes_show_every_value_of_every_data_set():
    values = np.random.default_rng(0).normal(size=(30, 5))
    values[3, 2] = np.nan
    groups = [DATASETS[i % 3] for i in range(30)]
    figure = outputs.draw_boxes(frame(values, groups), METHODS[:5], "x", "y")
    panels = [
        sorted(x for line in ax.lines if line.get_marker() == "o" for x in line.get_xdata())
        for ax in figure.axes
    ]
    for shown, part in zip(panels, [values, values[::3], values[1::3], values[2::3]], strict=True):
        np.testing.assert_allclose(shown, np.sort(part[~np.isnan(part)]))


def overlap(labels, renderer):
    boxes_of = [label.get_window_extent(renderer) for label in labels if label.get_text()]
    return any(a.overlaps(b) for i, a in enumerate(boxes_of) for b in boxes_of[i + 1 :])


def crowded_figures():
    rng = np.random.default_rng(0)
    average = rng.uniform(1, 19, 19)
    yield outputs.draw_wins(rng.uniform(size=(19, 19)), METHODS, "NLL")
    yield outputs.draw_critical_difference(average, METHODS, 4.0, "NLL")
    yield outputs.draw_times(rng.uniform(0.001, 9, (47, 19)), METHODS)
    groups = [DATASETS[i % 15] for i in range(47)]
    values = frame(rng.normal(size=(47, 19)), groups)
    yield outputs.draw_boxes(values, METHODS, "NLL", "NLL")


def test_nineteen_methods_and_fifteen_data_sets_can_be_read():
    """No two names overlap, none is cut off, and none is smaller than 8 points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    counts = set()
    for figure in crowded_figures():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        for ax in figure.axes:
            shown = ax.axison and ax.yaxis.get_tick_params()["labelleft"]
            rows = ax.get_yticklabels() if shown else []
            columns = ax.get_xticklabels() if ax.images else []
            names = [*rows, *(t for t in ax.texts if "method" in t.get_text())]
            counts.add(len(names))
            assert not overlap(names, renderer)
            title = [ax.title] if ax.get_title() else []
            for text in (*names, *title, *columns):
                extent = text.get_window_extent(renderer)
                assert text.get_fontsize() >= 8
                assert extent.x0 >= 0, text
                assert extent.x1 <= figure.bbox.x1, text
                assert extent.y1 <= figure.bbox.y1, text
    assert counts == {0, 19}


def test_svg_is_well_formed_and_its_words_can_be_searched():
    figure = outputs.draw_wins(np.eye(2), ["<a & b>", "it costs $5 or $6"], "x")
    svg = outputs.figure_bytes(figure, "svg")
    root = ET.fromstring(svg)
    found = "".join(root.itertext())
    assert "<a & b>" in found
    assert "it costs $5 or $6" in found
    assert len(outputs.short("x" * 500)) <= 18
