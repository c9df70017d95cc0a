"""The references of the metrics, on cases worked out by hand."""

from fractions import Fraction

import pytest

from reference import metrics

ROWS = [[0.75, 0.25], [0.75, 0.25], [0.5, 0.5], [0.125, 0.875]]
LABELS = [0, 1, 1, 1]
THREE = [[*row, 0.0] for row in ROWS]  # of which the confidence is judged


def test_two_classes_are_judged_by_the_positive_one():
    assert metrics.usual_problem(ROWS, LABELS) == (
        [0.25, 0.25, 0.5, 0.875],
        [False, True, True, True],
    )
    # In order: 1/4 wrong and right, 1/2 right, 7/8 right: 1/2, 1, 9/8.
    assert metrics.cumulative_errors(ROWS, LABELS) == (Fraction(9, 32), Fraction(9, 32))
    assert metrics.smoothed_error([[0.75, 0.25]] * 2, [1, 1], 0.1) == pytest.approx(0.75, rel=1e-14)
    assert metrics.positive_error(ROWS, LABELS, n_bins=1) == Fraction(9, 32)


def test_bins_of_equal_width_are_closed_above():
    assert [metrics.width_bin(v, 4) for v in (0.0, 0.25, 0.26, 0.5, 0.75, 1.0)] == [
        0,
        0,
        1,
        1,
        2,
        3,
    ]


def test_bins_of_equal_mass_keep_ties_together():
    """Of six values, the tie of three lies over places 1 to 4: midpoint 2.5 of 6 is bin 0 of 2."""
    one = [Fraction(1)] * 6
    assert metrics.mass_bins([0.1, 0.2, 0.2, 0.2, 0.3, 0.4], one, 2) == [0, 0, 0, 0, 1, 1]
    assert metrics.mass_bins([0.1, 0.1, 0.1], one[:3], 2) == [1, 1, 1]


def test_thresholded_error_by_hand():
    """Class 0: 0.75, 0.75, 0.5 with one positive; class 1: 0.5, 0.875, both positive."""
    class_0 = Fraction(2, 3) - Fraction(1, 3)
    class_1 = 1 - Fraction(11, 16)
    assert metrics.thresholded_error(ROWS, LABELS, n_bins=1) == (class_0 + class_1) / 2


def test_smoothed_error_of_residuals_of_one_sign_is_their_mean():
    """All wrong: whatever the bandwidth, as reflection keeps the mass."""
    for sigma in (0.01, 0.3, 2.0):
        assert metrics.smoothed_error(THREE, [1, 1, 1, 0], sigma) == pytest.approx(
            (0.75 + 0.75 + 0.5 + 0.875) / 4, rel=1e-14
        )


def test_smoothed_error_by_hand():
    """Residuals -1/4 at 3/4 and 3/4 at 3/4 are one; far apart, they do not meet."""
    together = [[0.75, 0.25, 0.0], [0.75, 0.25, 0.0]]
    assert metrics.smoothed_error(together, [0, 1], 0.1) == pytest.approx(0.25, rel=1e-14)
    apart = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]
    assert metrics.smoothed_error(apart, [0, 0], 0.01) == pytest.approx(0.75, rel=1e-14)
    # As wide as that, all of it has mixed: only the mean is left.
    assert metrics.smoothed_error(apart, [0, 0], 4.0) == pytest.approx(0.25, rel=1e-14)


def test_cumulative_errors_by_hand():
    """In order: 1/2 wrong, 3/4 right and wrong, 7/8 right: -1/2, -1, -7/8."""
    assert metrics.cumulative_errors(THREE, LABELS) == (Fraction(1, 4), Fraction(1, 4))
    # 1/2 right, 3/4 wrong twice: 1/2, -1, -7/8.
    assert metrics.cumulative_errors(THREE, [1, 1, 0, 1]) == (Fraction(3, 8), Fraction(1, 4))
    assert metrics.cumulative_errors(THREE, LABELS, [1, 1, 1, 5]) == (Fraction(1, 8),) * 2
