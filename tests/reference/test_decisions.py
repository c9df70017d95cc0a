"""The references of decisions, on cases worked out by hand."""

from fractions import Fraction

from reference import decisions

COSTS = [[0, 1], [4, 0]]


def test_the_cheapest_action_by_hand():
    """At one in four the first costs 1 and the second 3/4; at one in five they cost the same."""
    assert decisions.action([0.75, 0.25], COSTS) == (1, Fraction(3, 4))
    assert decisions.action([Fraction(4, 5), Fraction(1, 5)], COSTS) == (0, Fraction(4, 5))
    found = decisions.mean_costs([[0.75, 0.25], [1.0, 0.0]], [1, 1], COSTS, [1, 3])
    assert found == (Fraction(12, 4), Fraction(3, 16))


def test_the_area_by_hand():
    """Wrong, right: 1 and 1/2. Of two that tie, the mean of both orders."""
    assert decisions.area([True, False]) == Fraction(3, 4)
    assert decisions.aurc([0.9, 0.8], [True, False]) == (Fraction(3, 4), Fraction(1, 4))
    assert decisions.aurc([0.9, 0.9], [True, False]) == (Fraction(1, 2), Fraction(1, 4))


def test_tails_and_promises_by_hand():
    half = Fraction(1, 2)
    assert decisions.tail(2, 3, half) == Fraction(4, 8)
    assert decisions.tail(0, 3, half) == 1
    # Four right rows refute 1/2 at 1/16; a fifth that is wrong leaves 6/32.
    values, hits = [0.9, 0.8, 0.7, 0.6, 0.5], [1, 1, 1, 1, 0]
    assert decisions.accurate_from(values, hits, 0.5, 0.2, 1) == 0.5
    assert decisions.accurate_from(values, hits, 0.5, 0.1, 1) is None  # the only test is of all
    assert decisions.accurate_from(values, hits, 0.5, 0.4, 2) == 0.5  # three at 1/8, then five


def test_the_quantile_by_hand():
    """Of nine scores the ninth is at least as large as nine new ones in ten."""
    assert decisions.conformal_quantile([5, 1, 9, 2, 8, 3, 7, 4, 6], 0.9) == 9
    assert decisions.conformal_quantile([5, 1, 9, 2, 8, 3, 7, 4, 6], 0.5) == 5
    assert decisions.conformal_quantile([1, 2], 0.9) is None
