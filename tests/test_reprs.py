"""What notebooks show: well-formed HTML with the numbers of the text, and no name that injects."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    Chain,
    FeatureCalibrator,
    FlattenedIsotonic,
    GroupedCalibrator,
    MaskedCalibrator,
    Mixture,
    TemperatureScaling,
    VectorScaling,
    _html,
)
from calibrant._calibrators.methods import saved_methods
from calibrant._solvers.report import Binning, SolverReport
from calibrant.datasets import simulated_scores
from calibrant.metrics import evaluate
from calibrant.report import compare

SCORES, Y = simulated_scores(300)
HOSTILE = '<script>alert("1")</script>&amp;\u202e'
NEEDS_PARTS = {
    "chain": lambda: Chain([TemperatureScaling(), ("second", FlattenedIsotonic())]),
    "mixture": lambda: Mixture([TemperatureScaling(), FlattenedIsotonic()], weights="fit"),
    "masked": lambda: MaskedCalibrator(calibrator=TemperatureScaling()),
    "grouped": lambda: GroupedCalibrator(TemperatureScaling()),
}
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


def fitted(method, cls):
    made = NEEDS_PARTS.get(method, cls)()
    more = {"groups": Y} if isinstance(made, GroupedCalibrator) else {}
    more = {"features": SCORES} if isinstance(made, FeatureCalibrator) else more
    return made.fit(SCORES, Y, **more)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize(("method", "cls"), saved_methods(study=True).items())
def test_every_fitted_calibrator_shows_its_certificate_in_the_diagram(method, cls):
    found = fitted(method, cls)
    page, report = shown(found), found.solver_report_
    assert cls.__name__ in page.text
    head = ["fit", "solver", "converged", "iterations", "violation", "tolerance", "objective"]
    reached = page.rows[page.rows.index(head) :]
    names = {"chain": "FlattenedIsotonic", "masked": "MaskedCalibrator"}
    own = next(row for row in reached if row[0] == names.get(method, cls.__name__))
    assert own[1] == report.solver
    assert own[2] == {True: "yes", False: "no"}[report.converged]
    assert own[3] == f"{report.rounds:,}"
    assert float(own[4]) == pytest.approx(report.violation, rel=0.05)
    assert all(note in page.text for note in report.notes)
    room = "calibrant.study" if cls.__module__.startswith("calibrant.study") else "calibrant"
    link = f"https://calibrant.readthedocs.io/page/reference/names/{room}.{cls.__name__}.html"
    assert link in found._repr_html_()


@pytest.mark.parametrize(("method", "cls"), saved_methods(study=True).items())
def test_an_unfitted_calibrator_says_so_and_has_no_certificate(method, cls):
    page = shown(NEEDS_PARTS.get(method, cls)())
    assert cls.__name__ in page.text
    assert "Not fitted" in page.text
    assert "Certificate" not in page.text


def test_parts_have_boxes_and_certificates_of_their_own():
    page = shown(Chain([VectorScaling(), FlattenedIsotonic()]).fit(SCORES, Y))
    assert [row[0] for row in page.rows[-2:]] == ["VectorScaling", "FlattenedIsotonic"]
    page = shown(Mixture([VectorScaling(), FlattenedIsotonic()]).fit(SCORES, Y))
    assert [row[0] for row in page.rows[-3:]] == ["VectorScaling", "FlattenedIsotonic", "Mixture"]
    assert page.rows[-1][-1] == "-"  # equal weights minimise nothing
    assert "vectorscaling: VectorScaling" in page.text
    changed = Chain([VectorScaling(), FlattenedIsotonic()]).fit(SCORES, Y)
    changed.calibrators = [TemperatureScaling()]
    assert "Chain" in shown(changed).text


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_a_classifier_shows_its_parts_and_the_certificates_of_its_calibrators():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 4)) + y[:, None]
    assert "AutoCalibrator" in shown(CalibratedClassifier(GaussianNB())).text
    assert "LinearSVC" in shown(CalibratedClassifier()).text
    assert "CalibratedClassifier" in shown(CalibratedClassifier(calibrator="unknown")).text
    once = shown(CalibratedClassifier(GaussianNB(), "ts", cv=3).fit(X, y))
    assert "GaussianNB" in once.text
    assert [row[0] for row in once.rows].count("TemperatureScaling") == 1
    each = shown(CalibratedClassifier(GaussianNB(), "ts", cv=3, ensemble=True).fit(X, y))
    assert [row[0] for row in each.rows].count("TemperatureScaling") == 3
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    auto = shown(CalibratedClassifier(frozen).fit(X, y))
    assert "Report" in auto.text
    assert "structured-wide" in [row[0] for row in auto.rows]
    missing = CalibratedClassifier(frozen, "ts").fit(X, y)
    del missing.calibrated_classifiers_[0].calibrator.solver_report_
    assert "Certificate" not in shown(missing).text


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


@pytest.mark.parametrize("is_timed", [True, False])
def test_the_report_of_auto_has_the_numbers_of_its_text(is_timed):
    report = AutoCalibrator(candidates=("na-fir",)).fit(SCORES, Y).report_
    seconds = 0.25 if is_timed else math.nan
    report = replace(
        report, candidates=tuple(replace(c, seconds=seconds) for c in report.candidates)
    )
    page = shown(report)
    lines = [re.split(r"\s{2,}", line) for line in str(report).splitlines()[:-1]]
    assert page.rows == lines
    assert len(lines[0]) == (6 if is_timed else 5)
    assert report.why in page.text


def test_text_of_any_origin_is_shown_as_it_is():
    rows = [(HOSTILE, "1.0*", "\ud800"), ("a*", "2.0", "'")]
    text = _html.table(("<i>", "b", "c"), rows, [HOSTILE])
    text.encode()  # surrogates alone could not be sent to a browser
    page = Page(text)
    assert page.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p", "b", "span"}
    assert page.rows[2] == ["a*", "2.0", "'"]
    assert text.count("<b>") == 1
    assert "color:" not in text.replace("border-bottom", "")
