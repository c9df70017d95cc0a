"""Top-r curves: claims against observations."""

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.plots import compute_top_r, draw_top_r
from conftest import simulate


def test_share_and_claim_by_hand():
    scores = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
    curve = compute_top_r([1, 2], scores, max_rank=3)
    assert curve.ranks.tolist() == [1, 2, 3]
    assert np.allclose(curve.share, [0.5, 1.0, 1.0])
    assert np.allclose(curve.claimed, [0.6, 0.85, 1.0])


def test_agrees_with_a_full_sort():
    scores, y = simulate(200, 7)
    curve = compute_top_r(y, scores, max_rank=4)
    order = np.argsort(-scores, axis=1)
    place = np.argmax(order == y[:, None], axis=1)
    assert np.allclose(curve.share, [(place < r).mean() for r in (1, 2, 3, 4)])
    ordered = -np.sort(-scores, axis=1)
    assert np.allclose(curve.claimed, ordered.cumsum(axis=1).mean(axis=0)[:4])


def test_ties_count_in_parts_whatever_the_order_of_the_columns():
    curve = compute_top_r([0, 1], [[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]])
    assert np.allclose(curve.share, [0.5, 1.0])
    flat = compute_top_r([0, 1, 2], np.full((3, 3), 1 / 3))
    assert np.allclose(flat.share, [1 / 3, 2 / 3])
    assert np.allclose(flat.claimed, flat.share)


def test_calibrated_predictions_stay_within_their_spread():
    rng = np.random.default_rng(0)
    honest = rng.dirichlet(np.ones(6), size=4000)
    y = (honest.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    curve = compute_top_r(y, honest)
    assert np.all(np.abs(curve.share - curve.claimed) < 4 * curve.spread)
    bold = honest**2 / (honest**2).sum(axis=1, keepdims=True)
    curve = compute_top_r(y, bold)
    assert curve.claimed[0] - curve.share[0] > 4 * curve.spread[0]


@pytest.mark.parametrize("bad", [0, 4, 1.5])
def test_max_rank_is_a_number_of_classes(bad):
    with pytest.raises(ParameterError, match="max_rank"):
        compute_top_r([0, 1], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], max_rank=bad)


def test_picture_shows_the_gap_of_each_method():
    scores, y = simulate(200, 5)
    curve = compute_top_r(y, scores)
    ax = draw_top_r({"raw": curve, "same": curve})
    lines = [line for line in ax.lines if line.get_label().startswith(("raw", "same"))]
    assert len(lines) == 2
    assert np.allclose(lines[0].get_ydata(), 100 * (curve.claimed - curve.share))
    assert lines[0].get_marker() != lines[1].get_marker()
    assert ax.get_xscale() == "linear"
    assert draw_top_r(compute_top_r(*simulate(100, 60)[::-1])).get_xscale() == "log"
    with pytest.raises(ParameterError, match="empty"):
        draw_top_r({})
