"""What notebooks show: well-formed HTML with the numbers of the text, and no name that injects."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from calibrant import FlattenedIsotonic, TemperatureScaling, VectorScaling, _html
from calibrant._solvers.report import Binning, SolverReport
from calibrant.datasets import simulated_scores
from calibrant.metrics import evaluate
from calibrant.report import compare

SCORES, Y = simulated_scores(300)
HOSTILE = '<script>alert("1")</script>&amp;\u202e'
WITHOUT_END = {"br", "input", "img", "meta", "hr"}


class Page(HTMLParser):
    """Reads HTML, and refuses tags that do not match; keeps texts, cells and tags."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.rows = [], set(), [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, _):
        self.tags.add(tag)
        if tag not in WITHOUT_END:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, _):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open and "script" not in self.open:
            self.texts.append(data)
        if "th" in self.open or "td" in self.open:
            self.rows[-1][-1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def shown(thing):
    """What a notebook shows of a thing."""
    return Page(thing._repr_html_())


def test_a_solver_that_did_not_converge_and_bins_say_so():
    report = SolverReport("l-bfgs", 0.5, 1e-3, 1e-6, 1500, notes=("<b>",))
    page = shown(replace(report, binning=Binning(40, 2e-4), n_blocks=7))
    assert page.rows[-1][1:] == ["l-bfgs", "no", "1,500", "0.001", "1e-06", "0.5"]
    assert "<b>; 7 blocks; 40 bins" in page.text
    assert "violated by 0.0002 at most" in page.text


def test_an_evaluation_shows_its_text_and_names_of_groups_do_not_inject():
    groups = np.where(np.arange(300) < 250, HOSTILE, "b")
    found = evaluate(Y, SCORES, groups=groups, n_resamples=20)
    page = shown(found)
    assert page.tags == {"pre"}
    assert "300 rows, 3 classes" in page.text
    assert HOSTILE[:-1] in page.text
    assert "\u202e" not in found._repr_html_()


@pytest.fixture(scope="module")
def comparison():
    methods = {HOSTILE: VectorScaling(), "fir": FlattenedIsotonic()}
    broken = {"broken": TemperatureScaling(min_probability=0.9)}
    halves = Y[:150], SCORES[:150], Y[150:], SCORES[150:]
    return compare(*halves, methods | broken, n_resamples=20)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_a_comparison_marks_the_best_as_its_text_does(comparison):
    page, lines = shown(comparison), repr(comparison).splitlines()
    lines = lines[1 : 1 + len(comparison.results)]
    assert "script" not in page.tags
    assert page.rows[0][:3] == ["method", "accuracy, %", "NLL"]
    assert {"uncalibrated", "fir"} < {row[0] for row in page.rows[1:]}
    numbers = [re.findall(r"[\d.]+\*?", line)[-7:] for line in lines]
    assert [row[1:] for row in page.rows[1:]] == numbers
    assert comparison._repr_html_().count("<b>") == "".join(lines).count("*")
    assert "broken failed" in page.text
    assert "150 rows to fit, 150 to judge, 3 classes; * the best" in page.text


def test_text_of_any_origin_is_shown_as_it_is():
    rows = [(HOSTILE, "1.0*", "\ud800"), ("a*", "2.0", "'")]
    text = _html.table(("<i>", "b", "c"), rows, [HOSTILE])
    text.encode()  # surrogates alone could not be sent to a browser
    page = Page(text)
    assert page.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p", "b", "span"}
    assert page.rows[2] == ["a*", "2.0", "'"]
    assert text.count("<b>") == 1
    assert "color:" not in text.replace("border-bottom", "")
