"""Warnings point to the user's line, and parts of a fit say nothing twice."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import calibrant
from calibrant.errors import (
    CalibrantWarning,
    MissingClassWarning,
    ScoresKindWarning,
    SmallSampleWarning,
)
from conftest import simulate


def caught_by(action, work):
    """Return the warnings that ``work`` gives under a filter as users have it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        work()
    return [warning for warning in caught if issubclass(warning.category, CalibrantWarning)]


def test_a_warning_points_to_the_line_that_started_a_search():
    p, y = simulate(91, 3)
    search = GridSearchCV(calibrant.TemperatureScaling(), {"tol": [1e-6, 1e-7]}, cv=4)
    caught = caught_by("always", lambda: search.fit(p, y))
    assert len(caught) == 9
    assert {(w.category, w.filename) for w in caught} == {(SmallSampleWarning, __file__)}


def test_a_warning_points_to_the_line_that_asked():
    p, y = simulate(60, 3)
    for work in (
        lambda: calibrant.TemperatureScaling().fit(p, y),
        lambda: calibrant.Chain([calibrant.TemperatureScaling()] * 2, cv=2).fit(p, y),
    ):
        (caught,) = caught_by("default", work)
        assert (caught.filename, caught.category) == (__file__, SmallSampleWarning)


def test_parts_say_what_only_they_know_and_nothing_twice():
    p, y = simulate(600, 4)
    z = np.where(y == 3, 2, y)
    parts = [calibrant.VectorScaling(), calibrant.VectorScaling(ridge=1.0)]
    for whole in (calibrant.Chain(parts), calibrant.Mixture(parts)):
        whole.set_params(classes=np.arange(4))
        caught = caught_by("always", lambda whole=whole: whole.fit(p, z))
        assert [warning.category for warning in caught] == [MissingClassWarning]
        whole.set_params(classes=None, scores="logits").fit(np.log(p + 1e-9), y)
        caught = caught_by("always", lambda whole=whole: whole.predict_proba(p))
        assert [warning.category for warning in caught] == [ScoresKindWarning]


@pytest.mark.parametrize(
    ("calibrator", "k", "enough"),
    [
        (calibrant.TemperatureScaling(), 500, 100),
        (calibrant.FlattenedIsotonic(), 500, 100),
        (calibrant.VectorScaling(), 15, 150),
        (calibrant.OneVsRestIsotonic(), 15, 150),
        (calibrant.MatrixScaling(odir=1.0, max_rounds=3), 6, 210),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
def test_advice_on_rows_counts_parameters(calibrator, k, enough):
    p, y = simulate(enough, k)
    calibrator.set_params(classes=np.arange(k)).fit(p, y)
    with pytest.warns(SmallSampleWarning, match=f"at least {enough} rows"):
        calibrator.fit(p[1:], y[1:])
