import math

import numpy as np
import pytest
from scipy.integrate import quad

from calibrant import errors
from calibrant.metrics import cumulative_differences
from calibrant.metrics._unbinned import peak_exceeds, range_exceeds
from conftest import simulate
from metrics.cases import weighted


def test_the_curve_ends_at_the_mean_gap_and_has_the_statistics():
    proba, y, w = weighted()
    found = cumulative_differences(y, proba, sample_weight=w)
    right = proba.argmax(axis=1) == y
    gap = np.average(right - proba.max(axis=1), weights=w)
    assert found.difference[-1] == pytest.approx(gap, rel=1e-12)
    np.testing.assert_array_equal(found.probability, np.unique(proba.max(axis=1)))
    with_zero = np.append(found.difference, 0.0)
    assert found.kuiper == with_zero.max() - with_zero.min()
    assert found.kolmogorov_smirnov == np.abs(with_zero).max()
    assert found.to_dict()["difference"] == found.difference.tolist()


def test_a_class_of_its_own():
    proba, y, _ = weighted()
    found = cumulative_differences(y, proba, kind=2)
    binary = cumulative_differences(y == 2, proba[:, 2], kind=True)
    assert found.kind == 2
    np.testing.assert_array_equal(found.difference, binary.difference)
    with pytest.raises(errors.ParameterError, match="neither 'confidence' nor one of the classes"):
        cumulative_differences(y, proba, kind=7)


# P-values


def test_distributions_have_the_means_of_brownian_motion():
    """Of the range sqrt(8 / pi), of the largest absolute value sqrt(pi / 2)."""
    for exceeds, seam, mean in (
        (range_exceeds, 2.0, math.sqrt(8 / math.pi)),
        (peak_exceeds, 1.2, math.sqrt(math.pi / 2)),
    ):
        area = quad(exceeds, 0, seam, limit=200)[0] + quad(exceeds, seam, 40)[0]
        assert area == pytest.approx(mean, rel=1e-9)
        values = [exceeds(x) for x in np.linspace(0, 12, 2000)]
        assert np.all(np.diff(values) <= 1e-12)
        assert values[0] == 1.0
        assert 0.0 < exceeds(30.0) < 1e-190
        assert exceeds(seam * (1 - 1e-15)) == pytest.approx(exceeds(seam), rel=1e-13)


def test_honest_predictions_are_rarely_rejected_and_bold_ones_always():
    rng = np.random.default_rng(0)
    rejected = np.zeros(2)
    for _ in range(200):
        honest = rng.dirichlet(np.ones(4), size=400)
        y = (honest.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
        found = cumulative_differences(y, honest)
        rejected += [found.kuiper_p_value < 0.05, found.kolmogorov_smirnov_p_value < 0.05]
    assert np.all(rejected / 200 < 0.08)
    bold, y = simulate(1000, 4)
    assert cumulative_differences(y, bold).kuiper_p_value < 1e-6


def test_certain_predictions_are_right_or_are_not():
    found = cumulative_differences([0, 1], [[1.0, 0.0], [0.0, 1.0]])
    assert (found.kuiper, found.scale, found.kuiper_p_value) == (0.0, 0.0, 1.0)
    found = cumulative_differences([0, 0], [[1.0, 0.0], [0.0, 1.0]], classes=[0, 1])
    assert (found.kuiper, found.kuiper_p_value) == (0.5, 0.0)
    assert found.kolmogorov_smirnov_p_value == 0.0
