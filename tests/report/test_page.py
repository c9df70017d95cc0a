"""The page as text: self-contained, escaped, well formed."""

import html
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Chain, FlattenedIsotonic, TemperatureScaling, VectorScaling
from calibrant._drawing import to_svg
from calibrant._extras import advice
from calibrant._text import printable
from calibrant.report import compare, write_report
from calibrant.report._page import lower_end, page_of, python_lines
from conftest import simulate
from report.names import HOSTILE

VOID = {"meta", "link", "br", "wbr", "input", "hr", "img"}


@pytest.fixture(scope="module")
def page(hostile_page):
    return hostile_page.read_text(encoding="utf-8")


class Nesting(HTMLParser):
    """Check that what is opened is closed, and keep what is there."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open = self.open if tag in VOID else self.open[:-1]

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def parse(page):
    parser = Nesting()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def test_tags_are_closed_and_none_loads_anything(page):
    parsed = parse(page)
    assert not {"img", "link", "iframe", "object", "embed", "base", "form"} & set(parsed.tags)
    assert "script" not in parsed.tags
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy.startswith("default-src 'none';")
    assert not re.search("unsafe|http", policy)
    links = [value for _, name, value in parsed.attributes if name == "href"]
    assert links
    assert [link for link in links if not link.startswith("#")] == []
    for tag, name, _ in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in {"src", "srcset", "action", "style", "data"}, (tag, name)
    assert not re.search(r"url\(|@import", re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1])


def test_the_page_begins_with_the_verdict_three_numbers_and_three_diagrams(
    long_comparison, long_page
):
    text = long_page.read_text(encoding="utf-8")
    first = text[text.index('<section id="verdict"') : text.index("<table")]
    verdict = long_comparison.verdict
    before, after = long_comparison.results[0], long_comparison.result(verdict.chosen)
    assert html.escape(verdict.headline) in first
    labels = re.findall(r'<svg[^>]*aria-label="([^"]*)"', first)
    heads = ["before calibration", *(f"after {method}" for method in verdict.in_view[1:])]
    assert [label.split(":")[0] for label in labels] == [
        f"Reliability diagram of {head}" for head in heads
    ]
    heads = re.findall(r"<dt>(.*?)</dt>", first)
    assert heads == ["calibration error (conf-ECE)", "log loss (NLL)", "accuracy"]
    numbers = re.findall(r"<dd>(.*?) <span.*?<strong>(.*?)</strong>", first)
    assert numbers[0] == tuple(f"{100 * own.error:.2f} %" for own in (before, after))
    assert f"{after.evaluation.negative_log_likelihood.value:.4f}" == numbers[1][1]
    assert f"{100 * before.evaluation.accuracy.value:.2f} %" == numbers[2][0]


def rows_of(text, table):
    body = re.search(rf'id="{table}".*?</table>', text, re.DOTALL)
    return re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', body[0]) if body else []


def test_a_long_list_shows_the_methods_that_matter_and_folds_the_others(
    long_comparison, long_page, page
):
    text = long_page.read_text(encoding="utf-8")
    shown, others = rows_of(text, "methods-table"), rows_of(text, "others-table")
    assert {"uncalibrated", "ts", "na-fir", "scir", "auto"} <= set(shown)
    assert long_comparison.verdict.chosen in shown
    assert f"{len(others)} more methods, for comparison" in text
    assert sorted(shown + others) == sorted(long_comparison.methods)  # each of them once
    assert rows_of(page, "methods-table") == ["uncalibrated", "ts", "fir", "&lt;i&gt;vs&lt;/i&gt;"]
    assert rows_of(page, "others-table") == []  # four methods need no folding


def test_with_nothing_to_do_the_page_says_whose_the_second_diagram_is(parts):
    rng = np.random.default_rng(0)
    honest = rng.dirichlet(np.ones(3), 1600)
    y = (honest.cumsum(axis=1) > rng.random((1600, 1))).argmax(axis=1)
    told = y[:800], honest[:800], y[800:], honest[800:]
    found = compare(*told, "ts", n_resamples=20)
    assert found.verdict.chosen == "uncalibrated"
    assert "those of <bdi>ts</bdi>, for comparison" in page_of(found)
    scores, y, new_scores, new_y = parts
    broken = {"ts": TemperatureScaling(tol=-1.0)}
    alone = compare(y, scores, new_y, new_scores, broken, n_resamples=0)
    alone = page_of(alone)
    first = alone[alone.index('<section id="verdict"') : alone.index("<table")]
    assert first.count("<figure>") == 1
    assert "becomes" not in first
    parse(alone)


def test_the_table_of_classes_has_the_worst_first(page, hostile):
    order = hostile.results[0].classwise.order
    names = [html.unescape(name) for name in rows_of(page, "classes-table")]
    assert names == [printable(HOSTILE[j]) for j in order]
    scores, y = simulate(150, 1000, seed=3)
    few = page_of(compare(y, scores, y, scores, "ts", n_resamples=0))
    assert len(rows_of(few, "classes-table")) == 20
    assert "The worst 20 of 1,000." in few
    assert len(few) < 200_000


@given(st.text(max_size=300))
def test_clean_text_can_be_encoded_and_is_short(text):
    cleaned = printable(text)
    cleaned.encode("utf-8")
    assert len(cleaned) <= 120
    assert not re.search(r"[\x00-\x1f\x7f]", cleaned)


def test_every_picture_is_well_formed_and_needs_no_style_of_its_own(page):
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == 5
    for picture in pictures:
        for element in ET.fromstring(picture).iter():
            marks = " ".join(element.attrib.get(name, "") for name in ("d", "x", "y"))
            assert not re.search("nan|inf", marks)
            assert not {"style", "class"} & element.attrib.keys()
    identifiers = re.findall(r' id="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_failures_file_names_and_what_was_run_are_on_the_page(page, hostile):
    assert "Methods that failed" in page
    assert "BrokenScaling" in page
    assert "&lt;img src=x onerror=alert(4)&gt; cannot be fitted" in page
    facts = [f"{name} {version}" for name, version in hostile.versions.items()]
    assert all(fact in page for fact in [*facts, "seed 0", "1,200", "900"])


@pytest.mark.parametrize(
    "calibrator",
    [
        VectorScaling(ridge=np.float64(0.1)),
        Chain([VectorScaling(ridge=np.float64(0.1)), FlattenedIsotonic()]),
    ],
)
def test_code_runs_for_any_calibrator_and_is_on_the_page(parts, calibrator):
    scores, y, new_scores, new_y = parts
    found = compare(y, scores, new_y, new_scores, {"own": calibrator}, n_resamples=0)
    names = {"scores": scores, "y": y, "new_scores": new_scores}
    exec(python_lines(found, "own"), names)
    after = found.result("own").calibrator.predict_proba(new_scores)
    assert np.array_equal(names["probabilities"], after)
    page = page_of(found)
    code = re.search(r"<h3>In Python</h3>\n<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)[1]
    assert html.unescape(code) == python_lines(found, found.verdict.applied)


def test_commands_are_shown_where_there_are_any(long_comparison):
    page = page_of(long_comparison, commands=["calibrant fit <x>"])
    assert "<code>calibrant fit &lt;x&gt;</code>" in page
    assert "On the command line" not in page_of(long_comparison)


def test_without_resamples_the_page_has_no_intervals(parts):
    scores, y, new_scores, new_y = parts
    page = page_of(compare(y, scores, new_y, new_scores, "ts", n_resamples=0))
    parse(page)
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert "Nothing was resampled" in text
    assert not re.search(r"\bnan\b", text)
    assert not re.search(r"\bp [=<]", text)


def test_write_report_replaces_a_file_whole(tmp_path, long_comparison):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, long_comparison)
    text = path.read_text(encoding="utf-8")
    assert (text[:15], text[-8:]) == ("<!DOCTYPE html>", "</html>\n")


def contrast(*pair):
    """The contrast of two colours, by WCAG 2."""
    full = [c if len(c) == 7 else "#" + "".join(2 * sign for sign in c[1:]) for c in pair]
    parts = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in full])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return (high + 0.05) / (low + 0.05)


def test_text_and_lines_have_enough_contrast_in_light_dark_and_print():
    css = resources.files("calibrant._pages").joinpath("shell.css").read_text()
    schemes = [
        dict(re.findall(r"--(\w+):(#\w+)", block)) for block in re.findall(r":root\{([^}]*)\}", css)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        for ground in ("page", "faint", "mark", "warn"):
            assert contrast(scheme["text"], scheme[ground]) >= 7
            assert contrast(scheme["soft"], scheme[ground]) >= 4.5
        assert contrast(scheme["blue"], scheme["page"]) >= 4.5
        for line in ("c1", "c2", "c3", "c4", "c5"):
            assert contrast(scheme[line], scheme["page"]) >= 3


def test_only_pages_need_a_template_engine():
    code = (
        "import sys\n"
        "sys.modules['jinja2'] = sys.modules['markupsafe'] = sys.modules['matplotlib'] = None\n"
        "from calibrant.report import compare\n"
        "try:\n"
        "    from calibrant.report import write_report\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == f"reports need jinja2; {advice()}"


def test_words_of_pictures_are_escaped_and_settings_of_the_user_are_left_alone():
    mpl.rcParams["lines.linewidth"] = 7.5
    try:
        picture = to_svg(
            lambda ax: ax.axvline(1).axes.set(xlabel="<script> &"),
            (3, 3),
            name="a",
            label='"quoted"',
        )
        assert mpl.rcParams["lines.linewidth"] == 7.5
        assert 'stroke-width="7.5"' not in picture
    finally:
        mpl.rcdefaults()
    assert "&lt;script&gt; &amp;" in picture
    assert 'aria-label="&quot;quoted&quot;"' in picture


def rare(n_rows, seed, share):
    """Predictions of a class with about this share that are said ten times too often."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(0.8, 0.8 / share, n_rows)
    y = (rng.random(n_rows) < truth).astype(int)
    claimed = 10 * truth / (1 + 9 * truth)
    return np.stack([1 - claimed, claimed], axis=1), y


def test_a_rare_class_is_drawn_on_logarithmic_axes_that_hold_its_points():
    (scores, y), (new_scores, new_y) = rare(2000, 1, 0.02), rare(3000, 2, 0.02)
    comparison = compare(y, scores, new_y, new_scores, ["auto"], n_resamples=20)
    low = lower_end(comparison)
    after = comparison.result("auto").curve
    assert 0 < low <= after.mean_probability.min()
    page = page_of(comparison)
    assert "Both axes are logarithmic" in page
    diagram = re.findall(r"<svg.*?</svg>", page, re.DOTALL)[1]
    assert all(f">{tick}<" in diagram for tick in ("0.01", "0.1", "1"))
    common = [rare(800, seed, 0.4) for seed in (3, 4)]
    (scores, y), (new_scores, new_y) = common
    comparison = compare(y, scores, new_y, new_scores, ["ts"], n_resamples=20)
    assert lower_end(comparison) == 0.0
    page = page_of(comparison)
    assert "logarithmic" not in page
    heads = re.findall(r'<th scope="col" class="number">([^<]*)</th>', page)
    assert heads.count("pos-ECE, %") == 1  # and no other calibration error
    for name in ("conf-ECE", "cw-ECE", "TECE"):
        assert f"{name}, %" not in heads
        assert f"<dt>{name}</dt>" not in page
        assert name not in repr(comparison)
