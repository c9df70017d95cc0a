import numpy as np
import pytest
from scipy.stats import binom, chisquare

from calibrant.metrics.resampling import Resamples, p_value


def test_as_many_rows_as_there_are_wherever_chunks_end():
    resamples = Resamples([5, 1, 30], 50, 0)
    for r in range(50):
        rows = [resamples.rows(r, c) for c in range(3)]
        assert sum(map(len, rows)) == 36
        assert all(part.min(initial=0) >= 0 for part in rows)
        assert all(part.max(initial=0) < size for part, size in zip(rows, (5, 1, 30), strict=True))
        assert resamples.all_counts(r).sum() == 36


def test_draws_can_be_repeated_in_any_order():
    first, second = Resamples([40, 60], 3, 7), Resamples([40, 60], 3, 7)
    later = [second.rows(r, c) for r in (2, 0, 1) for c in (1, 0)]
    again = [first.rows(r, c) for r in (2, 0, 1) for c in (1, 0)]
    for a, b in zip(later, again, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first.uniforms(1, 1, 9), second.uniforms(1, 1, 9))
    assert not np.array_equal(first.rows(0, 0)[:20], first.rows(1, 0)[:20])
    assert not np.array_equal(first.rows(0, 1)[:20], Resamples([40, 60], 3, 8).rows(0, 1)[:20])


@pytest.mark.parametrize("sizes", [[20], [3, 1, 16]])
def test_each_row_is_drawn_binomially(sizes):
    """Of n draws of n rows: how often a row is drawn is binomial(n, 1 / n)."""
    resamples = Resamples(sizes, 2000, 1)
    counts = np.array([resamples.all_counts(r) for r in range(2000)])
    seen = np.bincount(np.minimum(counts, 4).ravel(), minlength=5)
    expected = binom.pmf(np.arange(5), 20, 1 / 20)
    expected[4] = 1 - expected[:4].sum()
    assert chisquare(seen, expected * seen.sum()).pvalue > 0.001
    assert np.abs(counts.mean(axis=0) - 1).max() < 0.12


def test_without_replacement_every_row_comes_once():
    resamples = Resamples([4, 2], 2, 0, replace=False)
    np.testing.assert_array_equal(resamples.all_counts(1), np.ones(6))


def test_a_generator_moves_on_and_a_seed_does_not():
    generator = np.random.default_rng(3)
    first, second = Resamples([30], 1, generator), Resamples([30], 1, generator)
    assert not np.array_equal(first.rows(0, 0), second.rows(0, 0))
    same = np.random.SeedSequence(5)
    np.testing.assert_array_equal(
        Resamples([30], 1, same).rows(0, 0),
        Resamples([30], 1, np.random.SeedSequence(5)).rows(0, 0),
    )


def test_p_value_counts_ties_and_itself():
    null = np.array([0.1, 0.2, 0.2 * (1 + 1e-15), 0.3])
    assert p_value(0.2, null) == 4 / 5
    assert p_value(0.4, null) == 1 / 5
    assert p_value(0.0, np.zeros(9)) == 1.0
