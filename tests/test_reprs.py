"""What notebooks show: the text, in which no name injects."""

import html
import re

import numpy as np
import pytest

from calibrant import FlattenedIsotonic, TemperatureScaling, VectorScaling
from calibrant.datasets import simulated_scores
from calibrant.metrics import evaluate
from calibrant.report import compare

SCORES, Y = simulated_scores(300)
HOSTILE = '<script>alert("1")</script>&amp;\u202e'


def evaluated():
    groups = np.where(np.arange(300) < 250, HOSTILE, "b")
    return evaluate(Y, SCORES, groups=groups, n_resamples=20)


def compared():
    methods = {HOSTILE: VectorScaling(), "fir": FlattenedIsotonic()}
    broken = {"broken": TemperatureScaling(min_probability=0.9)}
    return compare(Y[:150], SCORES[:150], Y[150:], SCORES[150:], methods | broken, n_resamples=20)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (evaluated, ["300 rows, 3 classes"]),
        (compared, ["broken failed", "150 rows to fit, 150 to judge, 3 classes; * the best"]),
    ],
)
def test_a_notebook_shows_the_text(make, words):
    result = make()
    shown = result._repr_html_()
    shown.encode()  # surrogates alone could not be sent to a browser
    inside = re.fullmatch("<pre[^<>]*>([^<>]*)</pre>", shown, re.DOTALL)[1]  # the only tag
    assert html.unescape(inside) == str(result).replace("\u202e", r"\u202e")
    assert all(each in inside for each in words)
