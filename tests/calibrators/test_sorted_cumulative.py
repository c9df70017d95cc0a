"""SCIR as an estimator: what it survives, what it promises, how well it does on real data."""

import numpy as np
import pytest

from calibrant._calibrators.isotonic import SortedCumulativeIsotonic
from calibrant._calibrators.scaling import TemperatureScaling
from calibrant._maps import steps
from conftest import simulate

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")


def test_zeros_survive_only_without_prior_and_floor():
    p, y = simulate(300, 6)

    def lowest(**parameters):
        return SortedCumulativeIsotonic(**parameters).fit(p, y).predict_proba(p).min()

    assert lowest(prior_share=0.0, min_probability=0.0) == 0.0
    assert lowest(prior_share=0.0) == pytest.approx(1e-12)
    assert lowest(prior_share=1e-3, min_probability=0.0) > 0.0
    assert lowest(min_probability=0.0) > 0.0


def test_share_of_one_is_temperature_scaling():
    p, y = simulate(500, 6)
    ours = SortedCumulativeIsotonic(prior_share=1.0).fit(p, y)
    theirs = TemperatureScaling().fit(p, y)
    assert ours.inverse_temperature_ == theirs.inverse_temperature_
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(p), rtol=1e-11)


def test_ranks_beyond_max_rank_depend_on_q_alone():
    p, y = simulate(500, 8)
    calibrator = SortedCumulativeIsotonic(max_rank=3).fit(p, y)
    assert calibrator.step_function_.n_ranks == 3
    many = SortedCumulativeIsotonic(max_rank=99).fit(p, y)
    plain = SortedCumulativeIsotonic().fit(p, y)
    assert many.step_function_.values.tobytes() == plain.step_function_.values.tobytes()
    out = calibrator.predict_proba(p)
    assert out.min() > 0
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-13)


def test_order_of_classes_may_change():
    """The paper's Table 1: SCIR does not promise order preservation."""
    p = np.array([[0.5, 0.45, 0.05]] * 100)
    y = np.repeat([0, 1], [40, 60])
    out = SortedCumulativeIsotonic(prior_share=0.0, classes=range(3)).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out[0], [0.4, 0.6, 0.0], atol=1e-11)


def test_keys_of_64_bits_sort_rows_as_those_of_32_do(monkeypatch):
    scores, y = simulate(300, 30)
    calibrator = SortedCumulativeIsotonic(prior_share=0.1).fit(scores, y)
    expected = calibrator.predict_proba(scores)
    monkeypatch.setattr(steps, "MOST_SHORT_KEYS", 2)
    assert calibrator.predict_proba(scores).tobytes() == expected.tobytes()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("max_rank", [None, 1, 2])
def test_the_top_classes_have_at_least_their_share(n_classes, max_rank):
    """The r largest hold r / k at a tie, so no less above it: nothing turns over at the tie."""
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 8.0), 400)  # close to ties, and wrong
    y = p.argmin(axis=1)
    model = SortedCumulativeIsotonic(prior_share=0.0, max_rank=max_rank, min_probability=0.0)
    out = model.fit(p, y).predict_proba(p)
    sums = np.take_along_axis(out, np.argsort(-p, axis=1), axis=1).cumsum(axis=1)
    ranks = np.arange(1, n_classes + 1)
    pooled = ranks if max_rank is None else np.minimum(ranks, max_rank)
    assert np.all(sums >= pooled / n_classes - 1e-15)
    assert any("raised" in note for note in model.solver_report_.notes)
