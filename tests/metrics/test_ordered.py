"""The ranked probability score, wherever metrics are."""

import numpy as np
import pandas as pd
import pytest

from calibrant import errors
from calibrant.metrics import (
    brier_score,
    evaluate,
    ranked_probability_score,
)
from conftest import refuses, simulate


def test_evaluate_shows_it_where_classes_are_ordered():
    proba, y = simulate(500, 4)
    plain, ordered = (evaluate(y, proba, n_resamples=50, ordered=o) for o in (False, True))
    assert plain.ranked_probability_score is None
    assert "RPS" not in str(plain)
    found = ordered.ranked_probability_score
    assert found.value == ranked_probability_score(y, proba)
    assert found.low < found.value < found.high
    assert "RPS" in str(ordered)
    same = plain.estimates()
    assert {k: v for k, v in ordered.estimates().items() if k in same} == same


def test_two_classes_have_the_brier_score():
    proba, y = simulate(500, 2)
    assert ranked_probability_score(y, proba) == pytest.approx(brier_score(y, proba), rel=1e-12)
    assert ranked_probability_score(y, proba[:, 1]) == pytest.approx(brier_score(y, proba))


def test_words_in_the_order_of_the_alphabet_are_doubted():
    proba, y = simulate(300, 3)
    words = np.array(["low", "mid", "top"])
    with pytest.warns(errors.ColumnOrderWarning, match="alphabetical order: 'low', 'mid', 'top'"):
        ranked_probability_score(words[y], proba)
    with pytest.warns(errors.ColumnOrderWarning, match="alphabet"):
        evaluate(words[y], proba, n_resamples=0, ordered=True)
    grades = np.array(["low", "middle", "high"])
    found = ranked_probability_score(grades[y], proba, classes=grades)
    assert found == ranked_probability_score(y, proba)
    assert found == ranked_probability_score(pd.Series(["A", "B", "C"])[y], proba)


@pytest.mark.parametrize("text", ["{}", "{} stars", "{}-x"])
def test_numbers_as_text_in_the_order_of_the_alphabet_are_doubted(text):
    proba, y = simulate(300, 3)
    order = np.array([text.format(number) for number in (1, 10, 2)])
    with pytest.warns(errors.ColumnOrderWarning, match="alphabetical order: '1.*', '10.*', '2.*';"):
        ranked_probability_score(order[y], proba)
    for numbers in ((1, 2, 3), (10, 15, 20), (0, 1, 1.5)):
        grades = np.array([text.format(number) for number in numbers])
        found = ranked_probability_score(grades[y], proba, classes=grades)
        assert found == ranked_probability_score(y, proba)


def test_what_is_no_answer_is_refused():
    proba, y = simulate(300, 3)
    with refuses("ordered"):
        evaluate(y, proba, ordered="yes")
