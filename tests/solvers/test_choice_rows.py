import numpy as np
import pytest

from calibrant import MonotoneSpline, NormalizationAwareIsotonic, SortedCumulativeIsotonic
from calibrant._gate._simplex import check_batch
from calibrant._row_order import sample_rows
from calibrant._solvers import merged_rows as choice_rows
from conftest import simulate


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(choice_rows, "CHOICE_CELLS", 1)
    monkeypatch.setattr(choice_rows, "LEAST_CHOICE_ROWS", 500)


def test_few_rows_are_all_looked_at():
    assert choice_rows.choice_rows(check_batch(*simulate(400, 3))) is None


@pytest.mark.usefixtures("few")
def test_many_rows_are_sampled_by_their_content():
    p, y = simulate(2000, 4)
    chosen = choice_rows.choice_rows(check_batch(p, y))
    assert chosen.sum() == 500
    rng = np.random.default_rng(0)
    order, columns = rng.permutation(len(y)), rng.permutation(4)
    place = np.empty(4, dtype=int)
    place[columns] = np.arange(4)
    other = choice_rows.choice_rows(check_batch(p[order][:, columns], place[y[order]]))
    np.testing.assert_array_equal(other, chosen[order])
    logits = choice_rows.choice_rows(check_batch(np.log(p) + 1.0, y, kind="logits"))
    np.testing.assert_array_equal(logits, chosen)


def test_equal_rows_are_all_in_or_all_out():
    p, _ = simulate(300, 4)
    twice = np.concatenate([p, p])
    chosen = sample_rows(twice, "probabilities", 100)
    assert chosen.sum() == 200
    np.testing.assert_array_equal(chosen[:300], chosen[300:])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "method", [NormalizationAwareIsotonic, SortedCumulativeIsotonic, MonotoneSpline]
)
def test_a_choice_on_some_rows_is_that_of_a_fit_to_them(method):
    """And the fit is that of all rows, with what was chosen."""
    p, y = simulate(1500, 3)
    chosen = choice_rows.choice_rows(check_batch(p, y))
    some = method().fit(p[chosen], y[chosen])
    name = {
        NormalizationAwareIsotonic: "prior_strength",
        SortedCumulativeIsotonic: "prior_share",
        MonotoneSpline: "strength",
    }[method]
    value = getattr(some, f"{name}_", None)
    if value is None:
        value = float(some.solver_report_.notes[0].split()[1])
    whole = method().fit(p, y).predict_proba(p)
    given = method(**{name: value}).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(whole, given, atol=1e-7)
