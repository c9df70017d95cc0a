"""One step function per rank: what it accepts, what it gives, and its table."""

import numpy as np
import pytest

from calibrant._kernels import tables
from calibrant._kernels.ranked_lookup import MIXED
from calibrant._maps import RankedStepFunction, RankedSteps, steps


def make():
    return RankedStepFunction([0.0, 0.5, 0.0, 0.4, 0.7], [0.1, 0.7, 0.2, 0.8, 1.0], [0, 2, 5])


def test_values_at_below_and_beyond_the_thresholds():
    step = make()
    assert step([0.0, 0.49, 0.5, 1.0], 1).tolist() == [0.1, 0.1, 0.7, 0.7]
    assert step([0.39, 0.4, 0.7], 2).tolist() == [0.2, 0.8, 1.0]
    assert step(-1.0, 1) == 0.1
    assert step([0.39, 0.75], [3, 99]).tolist() == [0.2, 1.0]  # beyond the last as the last
    assert [a.tolist() for a in step.curve(2)] == [[0.0, 0.4, 0.7], [0.2, 0.8, 1.0]]
    assert (step.n_ranks, step.n_blocks) == (2, 5)


def random_function(rng, n_ranks, n_blocks, near_one):
    """Thresholds in (0, 1), or with almost all of them within 1e-9 of one."""
    q = rng.random(n_blocks)
    q = 1 - 10.0 ** -(12 * q) if near_one else q
    thresholds = np.concatenate([[0.0], np.unique(q[q > 0])])
    values = np.linspace(0, 1, len(thresholds))
    return RankedStepFunction(
        np.tile(thresholds, n_ranks),
        np.tile(values, n_ranks) ** np.repeat(1 / np.arange(1, n_ranks + 1), len(values)),
        np.arange(n_ranks + 1) * len(thresholds),
    )


def check_table(step, q, ranks=None):
    """Rows that are at ``q`` in all ranks get the differences of the function, to the bit.

    ``ranks`` is the one to ask for where they are all alike.
    """
    ranks = np.arange(1, step.n_ranks + 1) if ranks is None else ranks
    tail = 0.9999 ** np.arange(step.n_ranks) * 1e-300  # told apart, but too small to be seen
    rows = np.column_stack([q, np.broadcast_to(tail, (len(q), len(tail)))])
    rows = np.sort(rows, axis=1)[:, ::-1].copy()
    values = step(np.cumsum(rows, axis=1)[:, :-1], ranks)
    out = RankedSteps(step, 0.0, 1.0, 0.0)(rows)
    np.testing.assert_array_equal(out, np.diff(values, axis=1, prepend=0.0, append=1.0))


@pytest.mark.parametrize("near_one", [False, True])
@pytest.mark.parametrize("table_bytes", [1, 1 << 20])
def test_the_table_leads_to_the_same_values(near_one, table_bytes, monkeypatch):
    monkeypatch.setattr(tables, "TABLE_BYTES", table_bytes)
    rng = np.random.default_rng(0)
    step = random_function(rng, 3, 200, near_one)
    t = step.thresholds
    q = np.concatenate([t, np.nextafter(t, 0), np.nextafter(t, 2), rng.random(500), [1.0]])
    check_table(step, q)


def test_more_values_than_the_table_can_number():
    rng = np.random.default_rng(0)
    step = random_function(rng, 1, 70_000, near_one=False)
    assert len(step.lookup.levels) > MIXED
    q = 1 - rng.random(300) * 1e-3  # the highest values
    check_table(step, q)


def test_the_table_of_many_ranks_is_no_larger_than_the_function_allows():
    n_ranks = 100_000
    step = RankedStepFunction(
        np.tile([0.0, 0.5, 1 - 1e-12], n_ranks),
        np.tile([0.1, 0.5, 1.0], n_ranks),
        np.arange(n_ranks + 1) * 3,
    )
    assert step.lookup.table.size <= tables.MOST_CELLS
    q = np.array([0.0, 0.4999, 0.5, 0.9, 1 - 1e-13, 1.0])
    check_table(step, q, ranks=1)


@pytest.mark.parametrize("n_classes", [3, steps.MOST_SHORT_KEYS + 1])
def test_zeros_of_either_sign_come_last_and_more_than_one_first(n_classes):
    """The order comes from the bits, where -0.0 is a negative number."""
    rows = np.zeros((2, n_classes))
    rows[:, 1], rows[1, 2] = np.nextafter(1, 2), -0.0
    out = RankedSteps(make(), 0.0, 1.0, 0.0)(rows)
    assert out[0, 1] == 0.7
    assert out[1].tolist() == out[0].tolist()


def test_rows_that_nobody_checked_are_read_inside_the_tables():
    """Below zero is as at zero; the sanitizers see what is read of the others."""
    function = RankedSteps(make(), 0.0, 1.0, 0.0)
    below, zero = np.array([[-1.0, -2.0, -3.0]]), np.array([[3e-300, 2e-300, 1e-300]])
    assert function(below).tolist() == function(zero).tolist()
    for value in (3.0, 1e300, np.inf, np.nan):
        assert RankedSteps(make(), 0.3, 1.0, 0.0)(np.full((1, 3), value)).shape == (1, 3)


def test_many_steps_in_one_bucket_are_found_by_halving():
    thresholds = np.append(0.0, 0.5 + np.arange(1000) * 1e-15)
    step = RankedStepFunction(thresholds, np.linspace(0, 1, 1001), [0, 1001])
    q = np.concatenate([thresholds, np.nextafter(thresholds, 0), [1.0]])
    check_table(step, q)
