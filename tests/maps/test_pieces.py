"""Curves of many classes at once give what each gives by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant._maps import Histogram
from calibrant._maps.curves import IDENTITY, AveragedHistogram, ClasswiseCurves, PiecewiseLinear
from calibrant._maps.steps import StepFunction

place = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 0.25, 1.0]), st.floats(0, 1))


@st.composite
def curves(draw):
    """A histogram, steps or a line, with starts that may lie next to each other."""
    starts = np.array(sorted(set(draw(st.lists(place, min_size=1, max_size=9)))))
    values = np.array(draw(st.lists(st.floats(0, 1), min_size=len(starts), max_size=len(starts))))
    values += 0.0
    kind = draw(st.integers(0, 3))
    if kind == 0 and np.all(np.diff(starts) > 1e-300):
        return PiecewiseLinear(starts, np.sort(values))
    starts[0] = 0.0
    if kind == 1:
        return StepFunction(starts, np.sort(values), np.ones(len(starts)))
    flat = Histogram(starts, values, np.ones(len(starts)))
    return AveragedHistogram(flat, [1], [0.0]) if kind == 2 else flat


def around(curve):
    """Where a curve bends, and the doubles next to it."""
    own = curve.histogram if isinstance(curve, AveragedHistogram) else curve
    x = own.x if isinstance(own, PiecewiseLinear) else own.thresholds
    near = np.concatenate([x, np.nextafter(x, 0), np.nextafter(x, 1), [0.0, 0.3, 1.0]])
    return np.clip(near, 0, 1)


@given(st.lists(curves(), min_size=1, max_size=20))
def test_every_cell_is_that_of_its_curve_to_the_bit(found):
    points = np.unique(np.concatenate([around(curve) for curve in found]))
    rows = np.repeat(points[:, None], len(found), axis=1)
    out = ClasswiseCurves(None, tuple(found), normalize_output=False)(rows)
    for j, curve in enumerate(found):
        np.testing.assert_array_equal(out[:, j], curve(points))


def test_groups_share_a_curve():
    shared = Histogram([0.0, 0.5], [0.8, 0.1], [1.0, 1.0])
    own = ClasswiseCurves(np.array([1, 0, 1]), (shared, IDENTITY), normalize_output=False)
    np.testing.assert_array_equal(own(np.array([[0.2, 0.5, 0.3]])), [[0.2, 0.1, 0.3]])


@pytest.mark.parametrize("n_pieces", [1, 2, 1000, 100_000])
def test_many_pieces(n_pieces):
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(n_pieces)) ** 3
    curve = PiecewiseLinear(x, np.sort(rng.random(n_pieces)))
    points = np.sort(np.append(rng.random(5000) ** 3, x[:5000]))
    rows = np.stack([points, points, points], axis=1)
    out = ClasswiseCurves(None, (IDENTITY, curve, IDENTITY), normalize_output=False)(rows)
    np.testing.assert_array_equal(out[:, 1], curve(points))
    np.testing.assert_array_equal(out[:, 0], points)
