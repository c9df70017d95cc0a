"""The page as text: self-contained, escaped, well formed."""

import base64
import hashlib
import html
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from xml.etree import ElementTree as ET

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Chain, FlattenedIsotonic, VectorScaling
from calibrant.cli.main import cli
from calibrant.extras import advice
from calibrant.pages.text import clean
from calibrant.report import build_report, compare, write_report
from calibrant.report.content import command_lines, python_lines
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
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]

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
    assert parsed.tags.count("script") == 2
    links = [value for _, name, value in parsed.attributes if name == "href"]
    assert links
    assert [link for link in links if not link.startswith("#")] == []
    for tag, name, _ in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in {"src", "srcset", "action", "style", "data"}, (tag, name)
    assert not re.search(r"url\(|@import", re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1])


def test_policy_allows_the_style_and_script_of_the_page_alone(page):
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    for kind, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_no_hostile_name_is_markup(page):
    for name in HOSTILE[:5]:
        assert name not in page
    assert "alert(1)" in page  # as text
    assert "<img" not in page


def test_embedded_numbers_are_those_of_the_comparison(page, hostile):
    text = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page)[1]
    assert not set(text) & set("<>&'\u2028\u2029")
    numbers = json.loads(text)
    assert numbers["classes"]["names"] == [clean(name) for name in HOSTILE]
    assert set(numbers["methods"]) == set(hostile.methods)
    found = numbers["methods"]["ts"]["NLL"][0]
    assert found == hostile.result("ts").evaluation.negative_log_likelihood.value
    errors = numbers["classes"]["columns"][5]["values"]
    expected = 100 * hostile.results[0].classwise.ece
    assert errors == pytest.approx(expected.tolist(), abs=1e-3)


@given(st.text(max_size=300))
def test_clean_text_can_be_encoded_and_is_short(text):
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert len(cleaned) <= 120
    assert not re.search(r"[\x00-\x1f\x7f]", cleaned)


def test_every_picture_is_well_formed_with_finite_numbers(page):
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) > 50
    for picture in pictures:
        tree = ET.fromstring(picture)
        for element in tree.iter():
            assert "nan" not in " ".join(element.attrib.get(n, "") for n in ("d", "x", "y"))
    assert "inf" not in " ".join(re.findall(r' d="([^"]*)"', page))


def test_marks_stay_inside_their_pictures(page):
    for picture in re.findall(r'<svg viewBox="0 0 [^"]*" role="img".*?</svg>', page, re.DOTALL):
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', picture).groups())
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", picture):
            assert -1 <= float(x) <= width + 1
            assert -1 <= float(y) <= height + 1


def test_failed_methods_are_shown_with_their_error(page):
    assert "Methods that failed" in page
    assert "BrokenScaling" in page
    assert "&lt;img src=x onerror=alert(4)&gt; cannot be fitted" in page


def test_file_names_are_quoted_for_the_shell_and_for_html(page):
    line = "calibrant fit 'a b/<script>alert(5)</script>.npz' --method ts"
    assert html.escape(line, quote=False).replace("'", "&#39;") in page


def test_what_was_run_is_on_the_page(page, hostile):
    for name, version in hostile.versions.items():
        assert f"{name} {version}" in page
    assert "seed 0" in page
    assert "1,200" in page
    assert "900" in page


def test_code_on_the_page_runs(hostile, parts):
    page = build_report(hostile)
    code = html.unescape(
        re.search(r"<h3>In Python</h3>\n<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)[1]
    )
    scores, y, new_scores, _ = parts
    names = {"scores": scores, "y": y, "new_scores": new_scores}
    exec(code, names)
    assert names["probabilities"].shape == new_scores.shape


@pytest.mark.parametrize(
    "calibrator",
    [
        VectorScaling(ridge=np.float64(0.1)),
        Chain([VectorScaling(ridge=np.float64(0.1)), FlattenedIsotonic()]),
    ],
)
def test_code_for_any_calibrator_runs(parts, calibrator):
    scores, y, new_scores, new_y = parts
    found = compare(y, scores, new_y, new_scores, {"own": calibrator}, n_resamples=0, n_diagrams=0)
    names = {"scores": scores, "y": y, "new_scores": new_scores}
    exec(python_lines(found, "own"), names)
    after = found.result("own").calibrator.predict_proba(new_scores)
    assert np.array_equal(names["probabilities"], after)


def test_commands_are_those_of_the_command_line(hostile):
    found = replace(hostile, sources={"calibration": "two parts.npz (val)"})
    fit, apply = command_lines(found, "ts", None).splitlines()
    assert fit == "calibrant fit 'two parts.npz' --method ts --output model.calibrant"
    assert apply == "calibrant apply model.calibrant new.npz --output calibrated.npz"
    assert "in Python" in command_lines(found, "mine", None)
    for line in (fit, apply):
        name, *arguments = shlex.split(line)[1:]
        cli.commands[name].make_parser(click.Context(cli)).parse_args(arguments)


def test_own_commands_replace_the_derived_ones(hostile):
    page = build_report(hostile, commands=["calibrant fit <x>"])
    assert "<code>calibrant fit &lt;x&gt;</code>" in page


def test_without_resamples_the_page_has_no_intervals(parts):
    from calibrant.report import compare

    scores, y, new_scores, new_y = parts
    page = build_report(compare(y, scores, new_y, new_scores, "ts", n_resamples=0, n_diagrams=0))
    parse(page)
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert "Nothing was resampled" in text
    assert not re.search(r"\bnan\b", text)
    assert not re.search(r"\bp [=<]", text)


def test_write_report_replaces_a_file_whole(tmp_path, hostile):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, hostile)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(OSError, match="No such file"):
        write_report(tmp_path / "missing" / "report.html", hostile)


def luminance(colour):
    if len(colour) == 4:
        colour = "#" + "".join(2 * sign for sign in colour[1:])
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted([luminance(a), luminance(b)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_and_lines_have_enough_contrast_in_light_dark_and_print():
    css = resources.files("calibrant.pages").joinpath("shell.css").read_text()
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
        "from calibrant.report import compare, reach_verdict\n"
        "try:\n"
        "    from calibrant.report import write_report\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == f"reports need jinja2; {advice()}"
