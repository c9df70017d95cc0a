"""The prior of NA-FIR, its folds, and the choice of its strength."""

import numpy as np
import pytest

from calibrant._gate import _simplex as simplex
from calibrant._objectives.normalization_aware import segment_rows
from calibrant._solvers.normalization_aware.fit import minimise
from calibrant._solvers.normalization_aware.prior import (
    N_FOLDS,
    STRENGTHS,
    PriorChoice,
    TemperaturePrior,
    add_pseudo_observations,
    build_likelihood,
    cross_validate,
    deal_segments,
)
from calibrant._solvers.pseudo_rows import IN_CHOICES
from calibrant._solvers.temperature import solve_temperature
from conftest import simulate

pytestmark = pytest.mark.filterwarnings(
    "ignore::calibrant.errors.SmallSampleWarning", "ignore::calibrant.errors.SingleClassWarning"
)


def prior_of(batch, rows, share):
    return TemperaturePrior.of(batch, rows, share, solve_temperature(batch).map)


def test_folds_share_out_every_row_and_leave_something_to_fit():
    for n_rows, scale in ((1, 1.0), (2, 1.0), (7, 1e-9), (200, 3.0)):
        batch = simplex.check_batch(*simulate(n_rows, 4), np.full(n_rows, scale))
        shares = deal_segments(batch, segment_rows(batch, fill_gaps=True))
        np.testing.assert_allclose(shares.sum(axis=1), batch.weight, rtol=1e-12)
        assert np.all(shares.sum(axis=0) < 0.9 * n_rows * scale)


def test_strengths_that_only_rounding_tells_apart_are_a_tie():
    """Sixteen rows of one label: no strength changes what a held-out row is given."""
    p = np.array([[2, 3, 3], [1, 1, 1], [1, 1, 2], [0, 1, 1], [2, 1, 3], [2, 2, 3], [1, 0, 0]])
    p = p / p.sum(axis=1, keepdims=True)
    times, y = np.array([3, 1, 1, 6, 1, 3, 1]), np.zeros(7, dtype=int)
    weighted = simplex.check_batch(p, y, times, classes=np.arange(3))
    rows = np.repeat(p, times, axis=0)
    repeated = simplex.check_batch(rows, np.repeat(y, times), classes=np.arange(3))
    choices = [build_likelihood(batch, None)[1] for batch in (weighted, repeated)]
    assert np.ptp(choices[0].losses) < 1e-12
    assert [choice.best for choice in choices] == [STRENGTHS[0]] * 2
    assert PriorChoice(np.array(STRENGTHS), np.array([0.5, 0.5 - 1e-8, 0.6, 0.7])).best > 10.0


def test_the_choice_is_the_lowest_point_of_a_parabola():
    strengths = np.array([10.0, 100.0, 1000.0, 10000.0])
    logs = np.log10(strengths)
    assert PriorChoice(strengths, (logs - 2.5) ** 2).best == 320.0
    assert PriorChoice(strengths, (logs - 2.0) ** 2).best == 100.0
    assert PriorChoice(strengths, logs).best == 10.0
    assert PriorChoice(strengths, -logs).best == 10000.0
    assert PriorChoice(strengths, np.ones(4)).best == 10.0
    assert PriorChoice(strengths, np.array([2.0, 1.0, 1.0, 1.0])).best == 320.0


def test_held_out_loss_is_that_of_fits_to_the_other_folds():
    batch = simplex.check_batch(*simulate(200, 4))
    rows = segment_rows(batch, fill_gaps=True)
    share = deal_segments(batch, rows)
    prior = prior_of(batch, rows, share)
    choice = cross_validate(rows, prior, share)
    np.testing.assert_array_equal(choice.strengths, STRENGTHS)
    scaled = solve_temperature(batch).map(batch.scores[rows.order])
    losses, distances = np.zeros((2, len(STRENGTHS)))
    for i, strength in enumerate(STRENGTHS):
        for fold in range(N_FOLDS):
            kept, left_out = share[:, fold] == 0.0, share[:, fold] > 0.0
            w, target = add_pseudo_observations(rows, prior, rows.weight * kept, strength, fold)
            start = rows.exposures(w)
            found = minimise(rows.index, w, target, start, tol=1e-9, max_rounds=50)
            g = found.values[rows.index[left_out]]
            own = found.values[rows.own[left_out]]
            losses[i] -= np.sum(np.log(own / g.sum(axis=1)))
            logs = np.log(g / g.sum(axis=1, keepdims=True))
            distances[i] -= np.sum(scaled[left_out] * logs) / 200
    price = np.log1p(IN_CHOICES * (distances - distances.min()))
    np.testing.assert_allclose(choice.losses, (losses + price) / 200, atol=2e-4)


def test_a_certain_classifier_starts_from_fir():
    rows = np.tile([[0.9, 0.1], [0.2, 0.8]], (50_000, 1))
    batch = simplex.check_batch(rows, rows.argmax(axis=1))
    segments = segment_rows(batch, fill_gaps=True)
    prior = prior_of(batch, segments, segments.weight[:, None].copy())
    assert prior.beta > 8.0
    np.testing.assert_array_equal(prior.totals, 1.0)
