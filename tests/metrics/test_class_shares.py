import math

import numpy as np
import pytest

from array_chunks import ArrayChunks
from calibrant.metrics import class_shares
from calibrant.metrics._unbinned import chances
from metrics.cases import weighted


def exact_chance(p, count):
    """Two-sided: twice the tail of the Poisson binomial distribution from its mean on."""
    law = np.ones(1)
    for own in p:
        law = np.convolve(law, [1 - own, own])
    tail = law[count:].sum() if count > p.sum() else law[: count + 1].sum()
    return min(2 * tail, 1.0)


def found_chance(p, count):
    sums = np.array([p.sum()]), np.array([(p * p).sum()])
    return float(chances(p.sum() - count, *sums, sums[0], np.array([float(len(p))]))[0])


@pytest.mark.parametrize(
    "p",
    [
        np.full(1000, 1e-5),
        np.full(300, 0.01),
        np.linspace(0.01, 0.99, 200),
        np.full(50, 0.97),
        np.r_[np.full(100, 0.001), np.full(100, 0.999)],
    ],
    ids=["hardly any", "rare", "even", "nearly all", "sharp"],
)
def test_p_values_are_those_of_the_exact_law_or_larger(p):
    """Never smaller by half, however few rows are expected."""
    pairs = [(exact_chance(p, count), found_chance(p, count)) for count in range(len(p) + 1)]
    assert all(found > 0.4 * exact for exact, found in pairs if exact > 1e-12)
    p = np.linspace(0.01, 0.99, 200)  # of many rows they are those of the law
    for gap in (-3, -2, 2, 3):
        count = round(p.sum() + gap * math.sqrt((p * (1 - p)).sum()))
        assert 0.9 < found_chance(p, count) / exact_chance(p, count) < 2


def test_shares_and_weights_by_hand():
    proba = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    found = class_shares([0, 1, 2], proba, sample_weight=[2, 1, 1])
    np.testing.assert_allclose(found.predicted, [1.3 / 4, 1.6 / 4, 1.1 / 4])
    np.testing.assert_allclose(found.observed, [0.5, 0.25, 0.25])
    assert found.classes.tolist() == [0, 1, 2]
    assert (found.p_holm >= found.p_value).all()
    certain = class_shares([0, 1, 1], np.eye(2)[[0, 1, 1]])
    assert certain.p_value.tolist() == [1.0, 1.0]
    wrong = class_shares([0, 1, 1], np.eye(2)[[0, 0, 1]])
    assert wrong.p_value.tolist() == [0.0, 0.0]


def test_chunks_say_the_same():
    proba, y, w = weighted(500)
    w = np.maximum(w, 0.01)
    expected = class_shares(y, proba, sample_weight=w)
    found = class_shares(ArrayChunks(proba, y, w, n_rows=77))
    for name in ("predicted", "observed", "p_value", "p_holm"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)


def test_of_many_rare_classes_none_is_named_by_chance():
    """Classes of which 0.01 rows are expected come once now and then: that is no error."""
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(10):
        proba = rng.dirichlet(np.full(500, 0.02), size=300)
        y = (proba.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
        named += bool((class_shares(y, proba, classes=range(500)).p_holm < 0.05).any())
    assert named <= 2


def test_a_class_that_rows_of_next_to_no_weight_are_predicted_to_be_has_a_p_value():
    """Squares of their weights are too small to be counted, and its p-value was NaN."""
    proba = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    found = class_shares([0, 1, 1, 0], proba, sample_weight=[1, 1, 1e-12, 1])
    assert found.p_holm.tolist() == [0.0, 0.0]  # of what was certain, some did not happen
