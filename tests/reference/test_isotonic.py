"""The references themselves, on cases worked out by hand."""

from fractions import Fraction

from reference.isotonic import flattened, min_max


def test_min_max_pools_a_decreasing_pair():
    assert min_max([0, 3, 1], [1, 1, 1]) == [0, 2, 2]


def test_min_max_weighs():
    assert min_max([1, 0], [1, 3]) == [Fraction(1, 4), Fraction(1, 4)]


def test_flattened_by_hand():
    """Cells 0.2: 0 of 1, 0.4: 1 of 2 (a tie), 0.6: 0 of 1, 0.8 : 1 of 1 -> 0.4 and 0.6 pool."""
    fitted = flattened([[0.4, 0.6], [0.2, 0.8], [0.4, 0.6]], [0, 1, 1])
    assert fitted == {0.2: 0, 0.4: Fraction(1, 2), 0.6: Fraction(1, 2), 0.8: 1}
